"""Sessions of other processes: who has which, and when one has been silent for too long.

A session is due at the first tick behind its time-out, counted from the last frame that was heard
of it. When the ticks themselves come late, because the process or the machine slept, nobody knows
who spoke meanwhile: then every session has one more tick to be heard.

Pure: time is an argument.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

TIMEOUT_TICKS_MIN: Final = 2
TIMEOUT_TICKS_MAX: Final = 20
_PASSWORD_SIZE: Final = 16

C = TypeVar("C")


@dataclass(slots=True, eq=False)
class ServedSession(Generic[C]):
    """One session."""

    id: int
    timeout_ms: int
    due_ms: int = 0
    connection: C | None = None
    is_trusted: bool = False  # it has shown the cluster's own digest
    is_closing: bool = False  # nobody can take it up any more
    has_ended: bool = False  # nothing it still has queued is to be done


@dataclass(slots=True)
class Sessions(Generic[C]):
    """All sessions of a server."""

    secret: bytes
    tick_ms: int
    by_id: dict[int, ServedSession[C]] = field(default_factory=dict)
    _ticked_ms: int | None = None

    def granted_ms(self, wanted_ms: int) -> int:
        """The time-out that a client gets."""
        least, most = TIMEOUT_TICKS_MIN * self.tick_ms, TIMEOUT_TICKS_MAX * self.tick_ms
        return min(max(wanted_ms, least), most)

    def password(self, session_id: int) -> bytes:
        """The secret that the owner of a session knows."""
        text = session_id.to_bytes(8, "big", signed=True)
        return hmac.digest(self.secret, text, hashlib.sha256)[:_PASSWORD_SIZE]

    def add(self, session_id: int, timeout_ms: int, now_ms: int) -> ServedSession[C]:
        """A session that lives from now on."""
        session = ServedSession[C](session_id, timeout_ms)
        self.by_id[session_id] = session
        self.touch(session, now_ms)
        return session

    def claimed(self, session_id: int, password: bytes) -> ServedSession[C] | None:
        """The session that somebody may take up, or None."""
        session = self.by_id.get(session_id)
        if session is None or session.is_closing:
            return None
        right = hmac.compare_digest(self.password(session_id), password)
        return session if right else None

    def touch(self, session: ServedSession[C], now_ms: int) -> None:
        """It was heard of."""
        session.due_ms = (now_ms + session.timeout_ms) // self.tick_ms * self.tick_ms + self.tick_ms

    def tick(self, now_ms: int) -> list[ServedSession[C]]:
        """The sessions that are due; to be asked once a tick."""
        before, self._ticked_ms = self._ticked_ms, now_ms
        live = [session for session in self.by_id.values() if not session.is_closing]
        if before is not None and now_ms - before > 2 * self.tick_ms:
            for session in live:
                session.due_ms = max(session.due_ms, now_ms + self.tick_ms)
        return [session for session in live if session.due_ms <= now_ms]

    def least_missed(self) -> ServedSession[C] | None:
        """The oldest session that makes room for a new one: a stranger's without a connection."""
        return next(filter(_is_idle_stranger, self.by_id.values()), None)

    def remove(self, session: ServedSession[C]) -> None:
        self.by_id.pop(session.id, None)

    @property
    def all(self) -> Iterable[ServedSession[C]]:
        return self.by_id.values()


def _is_idle_stranger(session: ServedSession[C]) -> bool:
    return not (session.is_trusted or session.is_closing or session.connection is not None)
