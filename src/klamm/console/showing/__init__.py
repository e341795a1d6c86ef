"""Showing: values as people read them. Nothing here waits, and nobody's code is run."""
