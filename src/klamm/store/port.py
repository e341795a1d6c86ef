"""The store's interface: ZooKeeper's model, as small as the cluster needs it.

Nodes have data, a version and a creation transaction id (`czxid`, which is a broker's epoch).
Writes are multis: all of their operations happen or none does. A watch is a hint that something may
have changed; it carries no facts, may come late or twice, and stays until it is taken off. It holds
from the next read of the same session on: who watches first and reads then misses nothing. Nobody
sees a write before it is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

ANY_VERSION: Final = -1


class Stat(NamedTuple):
    """The store's knowledge of a node besides its data."""

    version: int
    czxid: int  # the transaction that created the node
    mzxid: int  # the transaction that last changed its data
    ctime_ms: int
    ephemeral_owner: int = 0  # the session that owns it, 0 for a persistent node


class Node(NamedTuple):
    """One node as it was read."""

    data: bytes | None
    stat: Stat


@dataclass(frozen=True, slots=True)
class Create:
    """Add a node; its parent must exist. A sequential one gets ten digits behind its path."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a node's data where its version is the one named."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node that has no children, where its version is the one named."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Let the multi fail unless the node has this version."""

    path: str
    version: int


Op = Create | SetData | Delete | Check


class Outcome(StrEnum):
    """The outcome of one operation."""

    OK = "ok"
    NO_NODE = "no node"
    NODE_EXISTS = "node exists"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"
    NO_CHILDREN_FOR_EPHEMERALS = "no children for ephemerals"
    ROLLED_BACK = "rolled back"  # nothing wrong with this one; another one of its multi failed
    # Only to those who come over ZooKeeper's wire.
    NO_AUTH = "no auth"
    INVALID_ACL = "invalid ACL"
    BAD_ARGUMENTS = "bad arguments"
    UNIMPLEMENTED = "unimplemented"


class Result(NamedTuple):
    """The result of one operation of a multi."""

    outcome: Outcome
    path: str = ""  # the full path of a created node, with its sequence
    # After a create or a set. None in one case only: the answer of a set without a version was
    # lost, and the node was changed again before it could be read back.
    stat: Stat | None = None

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK


Hint = Callable[[], None]
TreeHint = Callable[[Collection[str]], None]
Unwatch = Callable[[], None]


class SessionState(StrEnum):
    """The state of a session. Its ephemeral nodes live until it has EXPIRED or was closed.

    One that has LAPSED was out of touch for as long as a session lives: others may have seen it
    end, and whether they did is known when the store is back.
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LAPSED = "lapsed"
    EXPIRED = "expired"


class Session(Protocol):
    """One client of the store. Ephemeral nodes die with it.

    Every call raises `StoreUnavailable` when the store cannot answer or the session expired.
    """

    @property
    def id(self) -> int:
        """The id that `Stat.ephemeral_owner` has for nodes of this session."""
        ...

    @property
    def is_near(self) -> bool:
        """Whether the nodes are in the memory of this process, and reading them takes no time."""
        ...

    async def get(self, path: str) -> Node | None:
        """One node, or None where there is none."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Many nodes, each as `get` would give it, with as few round trips as the store can."""
        ...

    async def children(self, path: str) -> tuple[str, ...] | None:
        """The sorted names of a node's children, or None where there is no such node."""
        ...

    async def multi(self, ops: Sequence[Op]) -> tuple[Result, ...]:
        """All of the operations or none, one result each."""
        ...

    async def multis(self, groups: Iterable[Sequence[Op]]) -> list[tuple[Result, ...]]:
        """Many independent multis in order, pipelined: one failing does not stop the next."""
        ...

    def watch_node(self, path: str, hint: Hint) -> Unwatch:
        """Call `hint` on the loop when the node may have been created, changed or removed."""
        ...

    def watch_children(self, path: str, hint: Hint) -> Unwatch:
        """Call `hint` on the loop when the node's children may have changed."""
        ...

    def watch_tree(self, path: str, hint: TreeHint) -> Unwatch:
        """Call `hint` with the paths from this one down that may have been created, changed or
        removed; with this path itself when it may be any of them.

        Stricter than the others: the hint comes before any answer that shows the change, and
        before the answer to any write that comes after it. So it must be quick.
        """
        ...

    def watch_state(self, hear: Callable[[SessionState], None]) -> Unwatch:
        """Call `hear` on the loop when the session's state changed."""
        ...

    async def close(self) -> None:
        """End the session; its ephemeral nodes go at once."""
        ...

    async def kill(self) -> None:
        """Vanish as a crashed process does: nothing more is sent, nobody is told anything.

        The ephemeral nodes go when the store notices.
        """
        ...


class Store(Protocol):
    """The source of sessions."""

    async def connect(self) -> Session:
        """A new session."""
        ...

    async def close(self) -> None:
        """Release the store; sessions still open are expired."""
        ...
