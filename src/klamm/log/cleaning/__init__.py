"""Decides what a log no longer keeps, and removes it."""
