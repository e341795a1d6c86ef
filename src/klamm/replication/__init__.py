"""Decides what a leader or a follower does next. Pure."""
