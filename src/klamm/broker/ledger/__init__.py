"""The ledger of the controllers' decisions: a file, and a topic."""
