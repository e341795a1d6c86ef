"""Bytes to messages and back: framing, versions, record batches. Never waits."""
