"""The audit of the controllers' ledger: tables and a page."""
