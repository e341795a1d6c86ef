"""A broker's node: whose it is, and what becomes of a node that is there already."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from klamm.broker import registration, server
from klamm.model.brokers import Endpoint, Registration
from klamm.model.errors import UsageError
from klamm.model.names import BrokerId
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create, Session
from unit.broker.brokers import world

ME = Registration(id=BrokerId(1), epoch=-1, endpoints=(Endpoint("h", 9092),))


def on_a_store(test: Callable[[Session, Session], Awaitable[None]]) -> None:
    async def run() -> None:
        store = EmbeddedStore.open(None)
        try:
            earlier, later = await store.connect(), await store.connect()
            await registration.prepare(earlier)
            await test(earlier, later)
        finally:
            await store.close()

    asyncio.run(run())


async def register(
    session: Session, *own: int, patience_s: float = 0, me: Registration = ME
) -> int:
    return await registration.register(
        session, me, timestamp_ms=1, own_sessions=frozenset(own), patience_s=patience_s
    )


ELSEWHERE = Registration(id=ME.id, epoch=-1, endpoints=(Endpoint("h", 9093),))


def test_a_broker_that_runs_is_not_started_twice() -> None:
    async def test(earlier: Session, later: Session) -> None:
        epoch = await register(earlier)
        assert await register(earlier) == epoch, "the answer to its own registration was lost"
        with pytest.raises(UsageError, match="broker 1 is already running on this store"):
            await register(later)
        with pytest.raises(UsageError, match="broker 1 is already running on this store"):
            await register(later, patience_s=0.05, me=ELSEWHERE)

    on_a_store(test)


def test_who_listens_where_the_killed_one_did_waits_longer_than_a_session_lasts() -> None:
    """ZooKeeper misses it late where its servers elect a leader meanwhile."""

    async def test(earlier: Session, later: Session) -> None:
        epoch = await register(earlier)
        waiting = asyncio.create_task(register(later, patience_s=0.01))
        await asyncio.wait({waiting}, timeout=0.1)
        assert not waiting.done()
        await earlier.close()
        assert await waiting > epoch

    on_a_store(test)


def test_a_process_that_was_killed_is_waited_for_until_the_store_misses_it() -> None:
    async def test(earlier: Session, later: Session) -> None:
        epoch = await register(earlier)
        waiting = asyncio.create_task(register(later, patience_s=30))
        await asyncio.sleep(0)
        assert not waiting.done()
        await earlier.close()
        assert await waiting > epoch

    on_a_store(test)


def test_a_node_of_a_session_this_process_had_is_replaced() -> None:
    async def test(earlier: Session, later: Session) -> None:
        epoch = await register(earlier)
        assert await register(later, earlier.id) > epoch

    on_a_store(test)


async def test_a_broker_starts_although_no_controller_speaks_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_INTRODUCED_MS_MAX", 50)
    async with world(tmp_path, 0) as w:
        hung = await w.store.connect()
        node = layout.encode_controller(layout.ControllerNode(BrokerId(7), 1))
        await hung.multi([Create(layout.CONTROLLER, node, ephemeral=True)])
        async with asyncio.timeout(10):
            broker = await w.start(0)
        assert not broker.is_controller
        connection = await w.connect(0)  # it answers
        await connection.close()
        await hung.close()
        async with asyncio.timeout(10):
            await broker.parts.metadata.wait_for(lambda snapshot: broker.id in snapshot.brokers)
