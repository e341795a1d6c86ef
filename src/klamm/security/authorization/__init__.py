"""What a caller may do: the nouns of access control lists, the decision, and what each API asks."""
