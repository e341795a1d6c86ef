"""Listeners: where a broker is reached, how each door is locked, and what of it may change."""
