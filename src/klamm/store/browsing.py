"""Looking into a store: all that can be known of a node, from whichever store it is in.

A `Browser` only reads. `TreeBrowser` is over nodes in memory, such as those of a stopped cluster's
file; `zookeeper_browsing` has the one for a ZooKeeper.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, Protocol

from klamm.model.errors import StoreUnavailable
from klamm.store.access import OPEN, Acl
from klamm.store.tree import Entry, Tree, as_int32

# So many nodes are asked for together.
_BATCH: Final = 1000


class NodeDenied(StoreUnavailable):
    """The node is there, and may not be read."""


class Facts(NamedTuple):
    """The whole Stat of a node, with ZooKeeper's numbers."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    children_count: int
    pzxid: int


class Seen(NamedTuple):
    """One node as it was found."""

    path: str
    data: bytes | None
    facts: Facts | None  # None: the node may not be read
    acl: Acl = OPEN

    @property
    def is_denied(self) -> bool:
        return self.facts is None

    @property
    def is_ephemeral(self) -> bool:
        return self.facts is not None and self.facts.ephemeral_owner != 0


class Browser(Protocol):
    """Read-only access to a store."""

    async def children(self, path: str) -> tuple[str, ...] | None:
        """The sorted names below a node; None where there is no such node. Denied, too."""
        ...

    async def look(self, paths: Sequence[str], *, acls: bool = False) -> list[Seen | None]:
        """Nodes with all that is known of them; their grants only where they are asked for."""
        ...


class TreeBrowser:
    """A browser over nodes in memory."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def children(self, path: str) -> tuple[str, ...] | None:
        return self._tree.children(path)

    async def look(self, paths: Sequence[str], *, acls: bool = False) -> list[Seen | None]:
        return [self._seen(path) for path in paths]

    def _seen(self, path: str) -> Seen | None:
        entry = self._tree.entries.get(path)
        return None if entry is None else Seen(path, entry.data, _facts(entry), entry.acl)


def _facts(entry: Entry) -> Facts:
    data, stat, made, pzxid, mtime_ms, _, aversion, _, count = entry
    return Facts(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        ctime_ms=stat.ctime_ms,
        mtime_ms=mtime_ms,
        version=stat.version,
        cversion=as_int32(2 * made - count),
        aversion=aversion,
        ephemeral_owner=stat.ephemeral_owner,
        data_length=len(data or b""),
        children_count=count,
        pzxid=pzxid,
    )


def join(path: str, name: str) -> str:
    """The path of a child."""
    return f"{path.rstrip('/')}/{name}"


async def walk(browser: Browser, root: str, *, acls: bool = False) -> AsyncIterator[Seen]:
    """All nodes from one down, each behind its parent; what is below a denied one stays unseen.

    What goes away meanwhile is left out.
    """
    level = [root]
    while level:
        below: list[str] = []
        for at in range(0, len(level), _BATCH):
            found = await browser.look(level[at : at + _BATCH], acls=acls)
            parents = [each.path for each in found if each is not None and _may_have_below(each)]
            for seen in found:
                if seen is not None:
                    yield seen
            names = await asyncio.gather(*(_names(browser, path) for path in parents))
            below += [
                join(path, name) for path, each in zip(parents, names, strict=True) for name in each
            ]
        level = below


def _may_have_below(seen: Seen) -> bool:
    return seen.facts is not None and seen.facts.children_count > 0


async def _names(browser: Browser, path: str) -> tuple[str, ...]:
    try:
        return await browser.children(path) or ()
    except NodeDenied:
        return ()
