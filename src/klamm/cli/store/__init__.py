"""Commands about the store: look into it, move it, bring it back."""
