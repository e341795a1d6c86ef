"""Results that every mechanism gives: a challenge, a login, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from klamm.security.principals import Principal


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client has to show more."""

    token: bytes
    refused: str = ""  # why the login has failed already, where this only tells the client so


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The client is who it says."""

    principal: Principal
    token: bytes = b""  # the last word to the client
    ends_ms: int | None = None  # when the credential ends, where it does
    # Whether what was shown would still do; None where that is not kept.
    holds: Callable[[], bool] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Denied:
    """The client is not. `told` reaches it; None: the words that tell nothing. `why` is ours."""

    why: str
    told: str | None = None


class Exchange(Protocol):
    """One login by one mechanism."""

    def step(self, token: bytes, now_ms: int) -> Challenge | Accepted | Denied:
        """The result of what the client shows."""
        ...


# For PLAIN and SCRAM alike.
OTHER_AUTHORIZATION_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
