"""Quotas of clients and throttles of replication."""
