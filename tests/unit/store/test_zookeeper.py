"""ZooKeeper behind the store's interface: the contract, and connections that break."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings

from klamm.model.errors import StoreUnavailable, UsageError
from klamm.store.port import Check, Create, Delete, Op, Session, SessionState, SetData, Store
from unit.store.contract import Bell, ExpirableSession, StoreContract, connected
from unit.store.cutting_proxy import CuttingProxy
from unit.store.tiny_model import Comparison, EndSession, Step, plans
from unit.store.zookeeper_server import SESSION_TIMEOUT_MS, TICK_MS, ZooKeeperServer, why_not

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


def a_store(
    server: ZooKeeperServer,
    root: int | None = None,
    *,
    port: int | None = None,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
) -> Store:
    """A store below a root of its own."""
    from klamm.store.zookeeper import ZooKeeperStore  # needs kazoo, which may be missing

    connect_string = f"127.0.0.1:{port or server.port}/tests/{root or next(roots)}"
    return ZooKeeperStore(
        connect_string, session_timeout_ms=session_timeout_ms, connection_timeout_ms=30_000
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


@given(plans)
@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_it_does_what_the_model_does(server: ZooKeeperServer, plan: list[Step]) -> None:
    # A killed session's nodes go a second later; the contract has a test for that.
    quick = [replace(s, how="close") if isinstance(s, EndSession) else s for s in plan]

    async def scenario() -> None:
        store = a_store(server)
        try:
            await Comparison(store).follow(quick)
        finally:
            await store.close()

    asyncio.run(scenario())


@dataclass
class Lossy:
    """A session that goes through a proxy, and another that sees what is really there."""

    proxy: CuttingProxy
    session: ExpirableSession
    witness: ExpirableSession


@asynccontextmanager
async def lossy(server: ZooKeeperServer) -> AsyncIterator[Lossy]:
    root = next(roots)
    async with CuttingProxy(server.port).running() as proxy:
        through = a_store(server, root, port=proxy.port, session_timeout_ms=10 * TICK_MS)
        direct = a_store(server, root)
        try:
            async with connected(through) as session, connected(direct) as witness:
                yield Lossy(proxy, session, witness)
        finally:
            await through.close()
            await direct.close()


ONCE: dict[str, list[Op]] = {
    "create": [Create("/p/new", b"x")],
    "create ephemeral": [Create("/p/new", b"x", ephemeral=True)],
    "create sequential": [Create("/p/n_", b"1", sequential=True)],
    "create many sequential": [
        Create("/p/n_", b"1", sequential=True),
        Create("/p/", b"2", sequential=True),
        Create("/p/n_", b"3", sequential=True, ephemeral=True),
    ],
    "set a version": [SetData("/p", b"new", 0)],
    "set any version": [SetData("/p", b"new")],
    "set twice": [SetData("/p", b"1"), SetData("/p", b"2"), Check("/p", 2)],
    "register": [Create("/p/new", ephemeral=True), SetData("/p/new", b"x", 0)],
    "delete": [Check("/p", 0), Delete("/p/old")],
    "fail": [SetData("/p", b"new", 7), Create("/p/new")],
}


@pytest.mark.parametrize("what", ONCE)
async def test_a_write_whose_answer_was_lost_is_done_once(
    server: ZooKeeperServer, what: str
) -> None:
    ops = ONCE[what]
    setup = [Create("/p", b"0"), Create("/p/old")]
    async with lossy(server) as undisturbed:
        await undisturbed.session.multi(setup)
        expected = await undisturbed.session.multi(ops)
        tree = await _everything(undisturbed.witness)
    async with lossy(server) as here:
        await here.session.multi(setup)
        here.proxy.cut_next_answer()
        results = await here.session.multi(ops)
        assert here.proxy.cuts_count == 1
        assert [r[:2] for r in results] == [r[:2] for r in expected]
        versions = [(r.stat and r.stat.version) for r in results]
        assert versions == [(r.stat and r.stat.version) for r in expected]
        assert await _everything(here.witness) == tree
        for result in results:
            node = await here.witness.get(result.path) if result.stat else None
            if node is not None and node.stat.version == result.stat.version:
                assert node.stat == result.stat


async def _everything(session: Session) -> dict[str, tuple[bytes | None, int, bool]]:
    """Every node below /p: data, version, whether it is ephemeral."""
    paths = ["/p", *(f"/p/{name}" for name in await session.children("/p") or ())]
    nodes = zip(paths, await session.get_many(paths), strict=True)
    return {
        path: (node.data, node.stat.version, node.stat.ephemeral_owner != 0)
        for path, node in nodes
        if node is not None
    }


@pytest.mark.parametrize("seed", range(2))
async def test_many_writes_over_a_connection_that_keeps_breaking(
    server: ZooKeeperServer, seed: int
) -> None:
    dice = random.Random(seed)
    async with lossy(server) as here:
        await here.session.multi([Create("/p"), Create("/n", b"")])
        here.proxy.cut = lambda number: number > 1 + dice.randrange(1, 5)
        writes = [
            [Create("/p/n_", b"%d" % i, sequential=True), SetData("/n", b"")] for i in range(60)
        ]
        results = []
        for at in range(0, len(writes), 10):
            results += await here.session.multis(writes[at : at + 10])
        reads = await here.session.get_many([r[0].path for r in results])
        here.proxy.cut = lambda number: False
        assert here.proxy.cuts_count >= 3
        assert [node and node.data for node in reads] == [b"%d" % i for i in range(60)]
        assert await here.witness.children("/p") == tuple(f"n_{i:010d}" for i in range(60))
        counter = await here.witness.get("/n")
        assert counter is not None
        assert counter.stat.version == 60
        told = [r[1].stat.version for r in results if r[1].stat is not None]
        assert told
        assert len(set(told)) == len(told)


async def test_a_write_given_up_while_its_answer_was_lost_cannot_come_late(
    server: ZooKeeperServer,
) -> None:
    async with lossy(server) as here:
        await here.session.multi([Create("/n", b"0")])
        for i in range(40):  # more than there are tickets
            here.proxy.cut_next_answer()
            given_up = asyncio.ensure_future(here.session.multi([SetData("/n", b"late")]))
            await asyncio.sleep(0)
            given_up.cancel()
            # Three tickets a round, so that each comes to be used after a write was given up.
            for data in (b"%d" % i, b"again"):
                (result,) = await here.session.multi([SetData("/n", data)])
                assert result.ok
                node = await here.witness.get("/n")
                assert node is not None
                assert node.data == data


async def test_watches_outlive_a_broken_connection(server: ZooKeeperServer) -> None:
    async with lossy(server) as here:
        await here.witness.multi([Create("/n", b"0"), Create("/p")])
        states: list[SessionState] = []
        here.session.watch_state(states.append)
        node_bell, children_bell = Bell(), Bell()
        here.session.watch_node("/n", node_bell)
        here.session.watch_children("/p", children_bell)
        heard: list[str] = []
        here.session.watch_tree("/p", heard.extend)
        await here.session.get("/n")
        here.proxy.cut_next_answer()
        await here.session.get("/n")
        await node_bell.wait()  # nobody knows what changed while it was away
        await children_bell.wait()
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert await here.session.children("/p") == ()
        assert heard == ["/p"]  # all of it may be different
        await here.witness.multi([SetData("/n", b"1"), Create("/p/a")])
        await node_bell.wait()
        await children_bell.wait()
        assert heard == ["/p", "/p/a"]


@pytest.fixture
def own_server() -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


async def test_calls_wait_for_a_server_that_comes_back(own_server: ZooKeeperServer) -> None:
    store = a_store(own_server, session_timeout_ms=120_000)
    async with connected(store) as session:
        bell = Bell()
        session.watch_state(bell)
        await session.multi([Create("/n", b"0"), Create("/e", ephemeral=True)])
        own_server.kill()
        await bell.wait()
        writing = asyncio.gather(*(session.multi([SetData("/n", b"1")]) for _ in range(3)))
        reading = asyncio.gather(session.get("/e"))
        await asyncio.to_thread(own_server.start)
        assert all(r.ok for (r,) in await writing)
        assert await reading != [None]
        node = await session.get("/n")
        assert node is not None
        assert node.stat.version == 3
    await store.close()


async def test_calls_fail_while_a_server_stays_away_and_work_when_it_is_back(
    own_server: ZooKeeperServer,
) -> None:
    store = a_store(own_server)
    session = await store.connect()
    await session.multi([Create("/n", b"0")])
    bell = Bell()
    states: list[SessionState] = []
    session.watch_state(states.append)
    session.watch_state(bell)
    own_server.kill()
    await bell.wait()
    calls = [session.get("/n"), session.multi([SetData("/n", b"1")]), session.children("/")]
    failures = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(failure) for failure in failures] == [StoreUnavailable] * 3
    with pytest.raises(StoreUnavailable):
        await session.get("/n")
    await bell.wait()
    assert states == [SessionState.SUSPENDED, SessionState.LAPSED]
    await asyncio.to_thread(own_server.start)
    await bell.wait()
    async with connected(store) as other:
        assert await other.get("/n") is not None
    await store.close()


async def test_no_server_is_said_so_in_time() -> None:
    from klamm.store.zookeeper import ZooKeeperStore

    store = ZooKeeperStore("127.0.0.1:1", connection_timeout_ms=300)
    with pytest.raises(StoreUnavailable, match=r"no ZooKeeper answered at 127\.0\.0\.1:1"):
        await store.connect()
    await store.close()


def test_a_connect_string_without_servers_is_refused() -> None:
    from klamm.store.zookeeper import ZooKeeperStore

    with pytest.raises(UsageError, match="names no ZooKeeper server"):
        ZooKeeperStore("/kafka")
    for wrong in ("zk1:99999", "zk1:2181,zk2:x", "zk1:"):
        with pytest.raises(UsageError, match="is not the address of a ZooKeeper"):
            ZooKeeperStore(wrong)


async def test_a_write_too_big_for_the_server_is_refused(server: ZooKeeperServer) -> None:
    store = a_store(server)
    async with connected(store) as session:
        with pytest.raises(UsageError, match="more than"):
            await session.multi([Create("/big", b"x" * 1_048_576)])
        with pytest.raises(UsageError, match="more than"):
            await session.multis([[Create("/big", b"x" * 1_048_576)]])
        assert (await session.multi([Create("/big", b"x" * 1_000_000)]))[0].ok
    await store.close()
