"""Nodes as the server has them, through connections that may break.

Reads are simply sent again when their answer was lost. Writes are not: `send` leaves that to the
tickets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from klamm.model.errors import UsageError
from klamm.store.port import Create, Node, Op, Outcome, Result
from klamm.store.zookeeper_bridge import AnswerLost, Bridge, NodeMissing, Request
from klamm.store.zookeeper_wire import REQUEST_BYTES_MAX, SHOW, GetChildren, Multi, MultiRead

_PATHS_PER_READ: Final = 1000


class ServerNodes:
    """The nodes below one root of the ensemble."""

    def __init__(self, bridge: Bridge, chroot: str) -> None:
        self._bridge = bridge
        self._chroot = chroot

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        chunks = [paths[at : at + _PATHS_PER_READ] for at in range(0, len(paths), _PATHS_PER_READ)]
        reads = [self._read(MultiRead(chunk, self._chroot)) for chunk in chunks]
        return [node for nodes in await asyncio.gather(*reads) for node in nodes]

    async def children(self, path: str) -> tuple[str, ...] | None:
        try:
            names: tuple[str, ...] = await self._read(GetChildren(path, self._chroot))
        except NodeMissing:
            return None
        return names

    async def send(self, ops: Sequence[Op]) -> list[Result]:
        """One multi; AnswerLost when nobody knows whether it was done."""
        request = Multi(ops, self._chroot)
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
                (made,) = await self._bridge.call(Multi([Create(full_path)]))
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
