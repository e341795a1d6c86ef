"""Secured clusters in one word: certificates, users, brokers' settings and clients' files."""
