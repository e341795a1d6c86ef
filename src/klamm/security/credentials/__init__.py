"""Keeps what callers prove their identity with: SCRAM keys, tokens, passwords."""
