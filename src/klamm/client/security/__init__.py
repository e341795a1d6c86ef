"""Security of a connection: the settings, TLS, and the steps of SASL."""

from klamm.client.security.settings import NAMES, Security, is_about_security, security_of

__all__ = ["NAMES", "Security", "is_about_security", "security_of"]
