"""Brokers: who is there, who leaves, what they hold and what they refuse."""
