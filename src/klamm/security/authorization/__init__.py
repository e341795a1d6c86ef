"""Decides what a caller may do: access control lists, the decision, and what each API asks."""
