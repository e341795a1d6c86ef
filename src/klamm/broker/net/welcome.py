"""Welcomes new connections, and counts them."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Welcome(NamedTuple):
    """The treatment of a new connection: after a while it is served, or closed."""

    is_served: bool = True
    after_ms: int = 0


SERVED = Welcome()


class Limits(Protocol):
    """Somebody who counts the connections of a broker and says when there are too many."""

    @property
    def room(self) -> int:
        """The number of connections the broker still takes; negative if a change left too many."""
        ...

    def joined(self, address: str) -> Welcome:
        """One more is let in; say what becomes of it."""
        ...

    def left(self, address: str) -> None: ...
