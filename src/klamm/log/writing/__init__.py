"""Adds batches to a log, and takes them back."""
