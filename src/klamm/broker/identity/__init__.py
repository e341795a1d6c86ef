"""Finds out who somebody is: certificates, passwords, tokens, and what of them changes."""
