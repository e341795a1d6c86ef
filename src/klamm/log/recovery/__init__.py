"""Brings logs back from their directories."""
