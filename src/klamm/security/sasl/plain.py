"""PLAIN (RFC 4616): one message with a user and a password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.security.principals import USER, Principal
from klamm.security.sasl.exchange import OTHER_AUTHORIZATION_ID, Accepted, Denied
from klamm.security.secret import Secret

_WRONG: Final = "Authentication failed: Invalid username or password"
# Compared with where there is no such user, so that the time does not tell.
_NOBODY: Final = Secret("\0 no password can hold a zero byte")


@dataclass(frozen=True, slots=True)
class PlainExchange:
    """One login against the users of a listener."""

    users: Mapping[str, Secret]

    def step(self, token: bytes, now_ms: int) -> Accepted | Denied:
        """Checks form, password and authorization id, in this order."""
        parts = token.split(b"\0", 3)
        if len(parts) != 3:
            return _denied(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        try:
            authorization_id, name, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            return _denied(_WRONG)
        if not name:
            return _denied("Authentication failed: username not specified")
        if not password:
            return _denied("Authentication failed: password not specified")
        if not self.users.get(name, _NOBODY).equals(password):
            return _denied(_WRONG)
        if authorization_id not in ("", name):
            return _denied(OTHER_AUTHORIZATION_ID)
        return Accepted(principal=Principal(USER, name))


def _denied(text: str) -> Denied:
    return Denied(text, text)
