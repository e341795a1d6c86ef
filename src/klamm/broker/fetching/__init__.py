"""Fetch requests: what a partition gives, sessions, waiting."""
