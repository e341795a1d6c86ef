"""Those who have come and not said yet who they are, of all listeners of a broker.

There are only so many of them, in all and from one address. When there are too many, one of the
address with the most goes, the one that has been there for longest: a flood drowns itself first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Stranger(Protocol):
    """A connection in its handshake or login."""

    def abort(self) -> None: ...


class HalfOpen:
    """The strangers of one broker, by address, the oldest first."""

    def __init__(self, most: Callable[[], int], most_of_one: Callable[[], int]) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._by_address: dict[str, dict[Stranger, None]] = {}
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def joined(self, stranger: Stranger, address: str) -> None:
        """One more is looked at; another may have to go for it."""
        mine = self._by_address.setdefault(address, {})
        mine[stranger] = None
        self._count += 1
        if len(mine) > self._most_of_one():
            self._drop(address)
        elif self._count > self._most():
            self._drop(max(self._by_address, key=lambda one: len(self._by_address[one])))

    def left(self, stranger: Stranger, address: str) -> None:
        """It has said who it is, or is gone."""
        mine = self._by_address.get(address)
        if mine is None or stranger not in mine:
            return
        del mine[stranger]
        self._count -= 1
        if not mine:
            del self._by_address[address]

    def _drop(self, address: str) -> None:
        oldest = next(iter(self._by_address[address]))
        self.left(oldest, address)
        oldest.abort()
