"""Limits the life of an authenticated connection (KIP-368), and delays failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_DOUBLINGS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Session:
    """The time at which a connection must authenticate again; the client hears the ms left."""

    ends_ms: int | None
    lifetime_ms: int


def session(credential_ends_ms: int | None, reauth_ms: int, now_ms: int) -> Session:
    """The session of a login: until its credential ends, or for as long as settings allow."""
    ends = [] if credential_ends_ms is None else [max(credential_ends_ms, now_ms)]
    if reauth_ms > 0:
        ends.append(now_ms + reauth_ms)
    if not ends:
        return Session(None, 0)
    # 0 means "for ever" to a client, also where the credential has ended: the broker knows better.
    return Session(min(ends), min(ends) - now_ms)


def failure_delay_ms(base_ms: int, failures: int, idle_ms: int) -> int:
    """The delay of an answer to a failed login: Kafka's time, doubled for repeated failures.

    It stays below the time after which an idle connection is closed, so that answers arrive.
    """
    delay = base_ms << min(max(failures - 1, 0), _DOUBLINGS_MAX)
    return min(delay, max(base_ms, idle_ms // 2)) if idle_ms > 0 else delay
