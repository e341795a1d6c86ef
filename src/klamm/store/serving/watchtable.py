"""The watches of all connections: who is to hear of what.

A watch belongs to a connection and ends with it. One-shots have two registers, data and children;
the lasting ones (persistent, and recursive for whole trees) are kept apart from them, so that a
one-shot that fires takes none of them along. A connection hears of one change once.

Pure: no clock, no disk, no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

from klamm.model.errors import ProtocolError
from klamm.store.access import Acl
from klamm.store.tree import CHILDREN_CHANGED, DATA_CHANGED, DELETED, ROOT, Event, split

# What one connection may have: a cluster of a hundred thousand topics needs about that many.
WATCHES_MAX: Final = 300_000
_PATH_BYTES_MAX: Final = 32 << 20
# And all strangers together, in bytes: a watch takes about so much beside its path.
_WATCH_BYTES: Final = 300
STRANGERS_BYTES_MAX: Final = 64 << 20

C = TypeVar("C", bound=Hashable)


class Register(IntEnum):
    """The kind of list that a watch is kept in."""

    DATA = 0
    CHILD = 1
    PERSISTENT = 2
    RECURSIVE = 3


# ZooKeeper's kinds of watches, as a request to remove them names them (4 and 5 since 3.9).
KINDS: Final = {
    1: (Register.CHILD,),
    2: (Register.DATA,),
    3: tuple(Register),
    4: (Register.PERSISTENT,),
    5: (Register.RECURSIVE,),
}


class TooManyWatches(ProtocolError):
    """A connection wants to hear of more than a server keeps in mind for it."""


class Told(NamedTuple, Generic[C]):
    """An event for one connection, and the grants that it must have to hear it."""

    connection: C
    kind: int
    path: str
    acl: Acl


class WatchTable(Generic[C]):
    """The watches of all connections."""

    def __init__(self, is_stranger: Callable[[C], bool] = lambda _: False) -> None:
        self._is_stranger = is_stranger
        self._strangers: dict[C, int] = {}  # how much those take that were strangers once
        self._strangers_bytes = 0
        # Dicts for sets, because they keep their order: the same writes give the same events.
        self._at: tuple[dict[str, dict[C, None]], ...] = ({}, {}, {}, {})
        self._of: dict[C, set[tuple[Register, str]]] = {}
        self._path_bytes: dict[C, int] = {}

    def add(self, connection: C, register: Register, path: str) -> None:
        """Let a connection hear of a path; TooManyWatches when it has too many."""
        own = self._of.setdefault(connection, set())
        if (register, path) in own:
            return
        size = self._path_bytes.get(connection, 0) + len(path)
        if len(own) >= WATCHES_MAX or size > _PATH_BYTES_MAX:
            raise TooManyWatches(f"{len(own)} watches on {size} bytes of paths")
        if self._is_stranger(connection):
            self._count_stranger(connection, path)
        own.add((register, path))
        self._path_bytes[connection] = size
        self._at[register].setdefault(path, {})[connection] = None

    def _count_stranger(self, connection: C, path: str) -> None:
        more = _WATCH_BYTES + len(path)
        if self._strangers_bytes + more > STRANGERS_BYTES_MAX:
            raise TooManyWatches(f"strangers have {self._strangers_bytes} bytes of watches")
        self._strangers_bytes += more
        self._strangers[connection] = self._strangers.get(connection, 0) + more

    def _uncount(self, connection: C, path: str) -> None:
        self._path_bytes[connection] -= len(path)
        taken = self._strangers.get(connection, 0)
        if taken:
            # One that has shown who it is meanwhile may give back more than it took.
            less = min(taken, _WATCH_BYTES + len(path))
            self._strangers[connection] = taken - less
            self._strangers_bytes -= less

    def has(self, connection: C, kind: int, path: str) -> bool:
        """Whether a connection has a watch of this kind."""
        own = self._of.get(connection, ())
        return any((register, path) in own for register in KINDS[kind])

    def remove(self, connection: C, kind: int, path: str) -> bool:
        """Take off a connection's watches of this kind; False when there were none."""
        own = self._of.get(connection, ())
        found = [register for register in KINDS[kind] if (register, path) in own]
        for register in found:
            self._drop(connection, register, path)
        return bool(found)

    def remove_connection(self, connection: C) -> None:
        """A connection has ended."""
        for register, path in tuple(self._of.get(connection, ())):
            self._drop(connection, register, path)
        self._of.pop(connection, None)
        self._path_bytes.pop(connection, None)
        self._strangers_bytes -= self._strangers.pop(connection, 0)

    @property
    def count(self) -> int:
        """The number of watches."""
        return sum(map(len, self._of.values()))

    @property
    def connections_count(self) -> int:
        return sum(1 for own in self._of.values() if own)

    @property
    def paths_count(self) -> int:
        return len(set().union(*(register.keys() for register in self._at)))

    def trigger(self, event: Event) -> Iterator[Told[C]]:
        """The connections that hear of one event; one-shots are used up."""
        kind, path, acl, above_acl = event
        told = self._take(Register.DATA, path)
        self._lasting(path, told)
        if kind == DELETED:
            told |= self._take(Register.CHILD, path)
        for connection in told:
            yield Told(connection, kind, path, acl)
        if kind == DATA_CHANGED or path == ROOT:
            return
        above, _ = split(path)
        watching = self._take(Register.CHILD, above)
        watching |= self._at[Register.PERSISTENT].get(above, {})
        for connection in watching:
            yield Told(connection, CHILDREN_CHANGED, above, above_acl)

    def _lasting(self, path: str, told: dict[C, None]) -> None:
        """Add those whose watches last: on the node itself, or on a tree that it is in."""
        told |= self._at[Register.PERSISTENT].get(path, {})
        trees = self._at[Register.RECURSIVE]
        if trees:
            for place in _upwards(path):
                told |= trees.get(place, {})

    def _take(self, register: Register, path: str) -> dict[C, None]:
        """The one-shots on a path, which are gone then."""
        found = self._at[register].pop(path, None)
        if found is None:
            return {}
        for connection in found:
            self._of[connection].discard((register, path))
            self._uncount(connection, path)
        return found

    def _drop(self, connection: C, register: Register, path: str) -> None:
        own = self._at[register][path]
        del own[connection]
        if not own:
            del self._at[register][path]
        self._of[connection].discard((register, path))
        self._uncount(connection, path)


def _upwards(path: str) -> Iterable[str]:
    """A path and all that it lies below."""
    while path != ROOT:
        yield path
        path = path.rpartition("/")[0] or ROOT
    yield ROOT
