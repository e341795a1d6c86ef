"""Nodes as the server has them, through connections that may break.

Reads are simply sent again when their answer was lost. Writes are not: `send` leaves that to the
tickets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from klamm.model.errors import UsageError
from klamm.store.access import Acl
from klamm.store.browsing import NodeDenied, Seen
from klamm.store.port import Create, Node, Op, Outcome, Result
from klamm.store.zookeeper_bridge import AnswerLost, Bridge, NodeMissing, NotAllowed, Request
from klamm.store.zookeeper_wire import (
    REQUEST_BYTES_MAX,
    SHOW,
    GetAcl,
    GetChildren,
    Look,
    Multi,
    MultiRead,
    SetAcls,
)

_PATHS_PER_READ: Final = 1000


class ServerNodes:
    """The nodes below one root of the ensemble."""

    def __init__(self, bridge: Bridge, chroot: str, *, sets_acl: bool = False) -> None:
        self._bridge = bridge
        self._chroot = chroot
        self._sets_acl = sets_acl

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        chunks = [paths[at : at + _PATHS_PER_READ] for at in range(0, len(paths), _PATHS_PER_READ)]
        reads = [self._read(MultiRead(chunk, self._chroot)) for chunk in chunks]
        return [node for nodes in await asyncio.gather(*reads) for node in nodes]

    async def look(self, paths: Sequence[str], *, acls: bool) -> list[Seen | None]:
        """Nodes with all that the server tells of them."""
        chunks = [paths[at : at + _PATHS_PER_READ] for at in range(0, len(paths), _PATHS_PER_READ)]
        reads = await asyncio.gather(*(self._read(Look(each, self._chroot)) for each in chunks))
        found: list[Seen | None] = [seen for read in reads for seen in read]
        if acls:
            return list(await asyncio.gather(*map(self._with_acl, found)))
        return found

    async def _with_acl(self, seen: Seen | None) -> Seen | None:
        if seen is None:
            return None
        try:
            return seen._replace(acl=await self._read(GetAcl(seen.path, self._chroot)))
        except NodeMissing:
            return None
        except NotAllowed:
            return seen._replace(acl=())

    async def set_acl(self, path: str, acl: Acl) -> bool:
        """Replace a node's grants; False where there is no such node any more."""
        try:
            await self._read(SetAcls(path, acl, self._chroot))  # twice is as good as once
        except NodeMissing:
            return False
        except NotAllowed:
            raise UsageError(f"the grants of {path} may not be changed: {SHOW}") from None
        return True

    async def children(self, path: str) -> tuple[str, ...] | None:
        try:
            names: tuple[str, ...] = await self._read(GetChildren(path, self._chroot))
        except NodeMissing:
            return None
        except NotAllowed:
            raise NodeDenied(f"{path} may not be read: {SHOW}") from None
        return names

    async def send(self, ops: Sequence[Op]) -> list[Result]:
        """One multi; AnswerLost when nobody knows whether it was done."""
        request = Multi(ops, self._chroot, sets_acl=self._sets_acl)
        if request.size_bytes > REQUEST_BYTES_MAX:
            raise UsageError(
                f"a write of {request.size_bytes} bytes is more than the {REQUEST_BYTES_MAX} "
                f"that ZooKeeper takes at once (first path: {ops[-1].path})"
            )
        results: list[Result] = await self._bridge.call(request)
        return results

    async def ensure(self, path: str) -> None:
        """Make a node and all above it where they are missing, from the server's root on."""
        parts = f"{self._chroot}{path}".split("/")
        for end in range(2, len(parts) + 1):
            await self._ensure_one("/".join(parts[:end]))

    async def _ensure_one(self, full_path: str) -> None:
        while True:
            try:
                making = Multi([Create(full_path)], sets_acl=self._sets_acl)
                (made,) = await self._bridge.call(making)
            except AnswerLost:
                continue
            if made.outcome not in (Outcome.OK, Outcome.NODE_EXISTS):
                what = f": {SHOW}" if made.outcome is Outcome.NO_AUTH else ""
                raise UsageError(f"{full_path} cannot be made in ZooKeeper: {made.outcome}{what}")
            return

    async def _read(self, request: Request) -> Any:
        while True:
            try:
                return await self._bridge.call(request)
            except AnswerLost:
                continue
