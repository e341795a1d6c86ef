"""Messages for tests that speak the wire."""
