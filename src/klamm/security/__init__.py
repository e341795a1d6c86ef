"""Decides who somebody is and what they may do: listeners, SASL steps, principals, ACLs. Pure."""
