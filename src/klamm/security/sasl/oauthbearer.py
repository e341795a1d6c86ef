"""OAUTHBEARER (RFC 7628): one message with a token, and a round of politeness when it is refused.

A refusal is first told as JSON in an answer without error; the client says with one byte that it
has heard it, and only then the login fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from klamm.security.principals import USER, Principal
from klamm.security.sasl.exchange import OTHER_AUTHORIZATION_ID, Accepted, Challenge, Denied

_HEARD: Final = b"\x01"
_MESSAGE: Final = re.compile(
    r"n,(?:a=(?P<authzid>(?:[^,=\x00-\x1f]|=2C|=3D)+))?,\x01"
    r"auth=(?P<scheme>[A-Za-z]+) +(?P<token>[A-Za-z0-9._~+/-]+=*)\x01"
    r"(?P<extensions>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)*)\x01"
)


@dataclass(frozen=True, slots=True)
class TokenAccepted:
    """A token that holds."""

    subject: str
    ends_ms: int
    scopes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TokenRefused:
    """A token that does not. The client learns the status and the scope, the log learns why."""

    why: str
    status: str = "invalid_token"
    scope: str | None = None

    @property
    def told(self) -> str:
        """The message to the client."""
        fields = {"status": self.status} | ({"scope": self.scope} if self.scope else {})
        return json.dumps(fields, separators=(", ", ":"))


Validator = Callable[[str, int], TokenAccepted | TokenRefused]


@dataclass(slots=True)
class OAuthExchange:
    """One login."""

    validate: Validator  # of the token, at this time in milliseconds
    _refused: TokenRefused | None = None

    def step(self, token: bytes, now_ms: int) -> Challenge | Accepted | Denied:
        """Checks the token, or hears that a refusal was heard."""
        if self._refused is not None:
            if token == _HEARD:
                return Denied(self._refused.why, self._refused.told)
            return Denied("after a refused token comes one byte, 0x01")
        match = _match(token)
        if match is None or match["scheme"].lower() != "bearer":
            return Denied("the message of OAUTHBEARER makes no sense")
        outcome = self.validate(match["token"], now_ms)
        if isinstance(outcome, TokenRefused):
            self._refused = outcome
            return Challenge(outcome.told.encode(), refused=outcome.why)
        authzid = (match["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
        if authzid not in ("", outcome.subject):
            return Denied(OTHER_AUTHORIZATION_ID, OTHER_AUTHORIZATION_ID)
        return Accepted(principal=Principal(USER, outcome.subject), ends_ms=outcome.ends_ms)


def _match(token: bytes) -> re.Match[str] | None:
    try:
        return _MESSAGE.fullmatch(token.decode())
    except UnicodeDecodeError:
        return None
