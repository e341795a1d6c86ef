"""Commands about the person at the keyboard: profiles, completion, local data."""
