"""Partitions get other replicas (KIP-455)."""
