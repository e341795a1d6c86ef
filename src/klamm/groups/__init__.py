"""Decides what a consumer group or a transaction does next. Pure."""
