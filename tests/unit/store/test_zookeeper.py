"""ZooKeeper behind the store's interface: the contract, and connections that break."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from klamm.store.port import Store
from unit.store.contract import StoreContract
from unit.store.zookeeper_server import SESSION_TIMEOUT_MS, ZooKeeperServer, why_not

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

roots = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def a_store(server: ZooKeeperServer) -> Store:
    """A store below a root of its own."""
    from klamm.store.zookeeper import ZooKeeperStore  # needs kazoo, which may be missing

    return ZooKeeperStore(
        f"{server.connect_string}/tests/{next(roots)}", session_timeout_ms=SESSION_TIMEOUT_MS
    )


class TestZooKeeper(StoreContract):
    @pytest.fixture(autouse=True)
    def _server(self, server: ZooKeeperServer) -> None:
        self.server = server

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = a_store(self.server)
        try:
            yield store
        finally:
            await store.close()
