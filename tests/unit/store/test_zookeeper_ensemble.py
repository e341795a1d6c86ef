"""A ZooKeeper of three whose leader was killed behind the store's interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from klamm.store.port import Create, SessionState, SetData, Store
from unit.store.contract import StoreContract, connected
from unit.store.zookeeper_server import ZooKeeperEnsemble, why_not

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

roots = count(1)
WRITES = 60


@pytest.fixture(scope="module")
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    ensemble = ZooKeeperEnsemble()
    try:
        ensemble.start()
        yield ensemble
    finally:
        ensemble.remove()


def a_store(ensemble: ZooKeeperEnsemble) -> Store:
    from klamm.store.zookeeper import ZooKeeperStore  # needs kazoo, which may be missing

    connect_string = f"{ensemble.connect_string}/tests/{next(roots)}"
    return ZooKeeperStore(connect_string, session_timeout_ms=4000, connection_timeout_ms=30_000)


async def test_a_session_outlives_the_leader_and_no_write_is_lost_or_doubled(
    ensemble: ZooKeeperEnsemble,
) -> None:
    """It leaves two servers to the tests that follow."""
    store = a_store(ensemble)
    async with connected(store) as session:
        states: list[SessionState] = []
        session.watch_state(states.append)
        await session.multi([Create("/n"), Create("/e", ephemeral=True)])
        writing = [asyncio.ensure_future(session.multi([SetData("/n", b"x")])) for _ in range(9)]
        await asyncio.to_thread(ensemble.leader().kill)
        for _ in range(WRITES):
            (result,) = await session.multi([SetData("/n", b"x")])
            assert result.ok
        assert all(result.ok for (result,) in await asyncio.gather(*writing))
        node, own = await session.get("/n"), await session.get("/e")
        assert node is not None
        assert node.stat.version == WRITES + len(writing)
        assert own is not None
        assert own.stat.ephemeral_owner == session.id
        assert SessionState.EXPIRED not in states
    await store.close()


class TestWithoutTheLeader(StoreContract):
    @pytest.fixture(autouse=True)
    def _ensemble(self, ensemble: ZooKeeperEnsemble) -> None:
        # Where one of these is run alone, nobody has killed the leader yet.
        if all(server.pid is not None for server in ensemble.servers):
            ensemble.leader().kill()
        self.ensemble = ensemble

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = a_store(self.ensemble)
        try:
            yield store
        finally:
            await store.close()
