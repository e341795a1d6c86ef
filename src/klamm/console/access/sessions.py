"""Sessions: who is at the other end, kept here and nowhere else.

A browser has a random id in a cookie that no script can read; what belongs to it is in memory. An
anonymous session is for the token that guards against forged requests; signing in makes a new one.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from klamm.client.aio.cluster import Client
from klamm.console.access.oidc import Pending
from klamm.console.access.roles import Role

SESSIONS_MAX: Final = 2_000
IDLE_S: Final = 30 * 60
WHOLE_S: Final = 12 * 3600
TRIES_MAX: Final = 5
TRIES_OF_USER_MAX: Final = 20
TRIES_S: Final = 60.0
_ADDRESSES_MAX: Final = 10_000


@dataclass(slots=True)
class Session:
    """One browser."""

    id: str
    token: str
    role: Role
    user: str | None = None
    client: Client | None = None  # the cluster, as this user
    topics: frozenset[str] | None = None  # that this user may know of; None for all
    groups: frozenset[str] | None = None
    cut_at: float = 0.0  # when those were asked for
    began: float = 0.0
    seen: float = 0.0
    streams: int = 0
    pending: Pending | None = None  # a sign-in that is at the provider
    ended: list[Callable[[], None]] = field(default_factory=list)  # called when it ends

    def is_token(self, given: str | None) -> bool:
        """Whether this is the token that its pages have."""
        return given is not None and hmac.compare_digest(
            self.token.encode(), given.encode("utf-8", "replace")
        )


class Sessions:
    """All sessions, the oldest first."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: OrderedDict[str, Session] = OrderedDict()
        self._tries: OrderedDict[str, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, id: str | None) -> Session | None:
        """The session with this id, unless its time is over."""
        found = self._kept.get(id) if id else None
        if found is None:
            return None
        now = self._now()
        if now - found.seen > IDLE_S or now - found.began > WHOLE_S:
            self.end(found)
            return None
        found.seen = now
        self._kept.move_to_end(found.id)
        return found

    def begin(self, role: Role, user: str | None = None, client: Client | None = None) -> Session:
        """A new session; where there are too many the one goes that was idle for longest."""
        now = self._now()
        made = Session(
            secrets.token_urlsafe(32), secrets.token_urlsafe(32), role, user, client, began=now
        )
        made.seen = now
        self._kept[made.id] = made
        while len(self._kept) > SESSIONS_MAX:
            # Whoever has signed in is not put out by those who have not, however many come.
            nameless = (kept for kept in self._kept.values() if kept.user is None)
            self.end(next(nameless, next(iter(self._kept.values()))))
        return made

    def end(self, session: Session) -> None:
        """Forgets a session and ends its streams."""
        self._kept.pop(session.id, None)
        for call in list(session.ended):
            call()

    def all(self) -> list[Session]:
        """Every session there is."""
        return list(self._kept.values())

    def may_try(self, address: str, user: str) -> bool:
        """Whether this address may try a password of this user now; counts the try.

        A user's bound is wider than an address's, so that one who guesses from many addresses
        comes no further, and one who guesses from a single one shuts nobody else out.
        """
        return self._counted(address, TRIES_MAX) and self._counted(f"\0{user}", TRIES_OF_USER_MAX)

    def _counted(self, who: str, most: int) -> bool:
        now = self._now()
        tries = self._tries.setdefault(who, deque())
        self._tries.move_to_end(who)
        while len(self._tries) > _ADDRESSES_MAX:
            self._tries.popitem(last=False)
        while tries and now - tries[0] > TRIES_S:
            tries.popleft()
        if len(tries) >= most:
            return False
        tries.append(now)
        return True
