"""Access: the doors, sessions, ways to sign in, roles, and the account of who did what."""
