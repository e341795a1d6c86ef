"""A served store for tests, in this process and on a free port."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from klamm.store.embedded import EmbeddedStore
from klamm.store.serving.server import ServedDoor, StoreServer
from unit.store.serving.raw import drop_all

DIGEST = "klamm:a word for tests"
TICK_MS = 500


@asynccontextmanager
async def served(
    path: Path | None = None,
    *,
    anyone_may_write: bool = True,
    tick_ms: int = TICK_MS,
    connections_max: int = 1000,
    port: int = 0,
    fsync: bool = False,
    owner: str = "",
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> AsyncIterator[tuple[EmbeddedStore, StoreServer]]:
    """A store and its server, both closed afterwards."""
    store = EmbeddedStore.open(path, fsync=fsync, serving=True, now_ms=now_ms, owner=owner)
    server = StoreServer(
        store,
        ServedDoor(
            digest=DIGEST,
            port=port,
            anyone_may_write=anyone_may_write,
            tick_ms=tick_ms,
            connections_max=connections_max,
        ),
    )
    try:
        await server.start()
        yield store, server
    finally:
        drop_all()
        await server.stop()
        await store.close()
