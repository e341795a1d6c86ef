"""A start that loses its session with the store, and one whose store is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from klamm.broker import server as broker_server
from klamm.broker.parts import Parts
from klamm.broker.server import Broker
from klamm.model.errors import StoreUnavailable
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import SessionState
from klamm.store.serving.server import StoreServer
from klamm.store.zookeeper import ZooKeeperStore
from unit.store.serving.served import DIGEST, served

_SESSION_MS = 6_000


async def end_session(server: StoreServer, parts: Parts) -> None:
    """End a broker's session as the store does when it has not heard of it; it knows on return."""
    known = asyncio.Event()
    parts.session.watch_state(lambda now: known.set() if now is SessionState.EXPIRED else None)
    server.end_session(parts.session.id)
    await asyncio.wait_for(known.wait(), 20)


@pytest.mark.parametrize("when", ["logs are open", "at the gate"])
async def test_a_start_whose_session_ends_begins_again(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served() as (embedded, server):
        settings = BrokerSettings.parse(
            {
                "zookeeper.connect": server.address,
                "zookeeper.session.timeout.ms": str(_SESSION_MS),
            }
        )
        store = ZooKeeperStore(server.address, session_timeout_ms=_SESSION_MS, digest=DIGEST)
        broker = Broker(BrokerId(3), store=store, settings=settings, data_dir=tmp_path)
        set_aside = broker_server._set_strays_aside
        lost: list[int] = []
        passed = 0

        async def lose(parts: Parts) -> None:
            if not lost:
                lost.append(parts.session.id)
                await end_session(server, parts)

        async def lose_and_set_aside(parts: Parts, topics: frozenset[str]) -> None:
            if when != "at the gate":
                await lose(parts)
            await set_aside(parts, topics)

        async def gate() -> None:
            nonlocal passed
            passed += 1
            if when == "at the gate":
                await lose(broker.parts)

        monkeypatch.setattr(broker_server, "_set_strays_aside", lose_and_set_aside)
        try:
            await broker.start(gate)
            assert passed == 1, "a gate opens once"
            looking = await embedded.connect()
            node = await looking.get(layout.broker_path(BrokerId(3)))
            await looking.close()
            assert node is not None
            assert node.stat.ephemeral_owner == broker.parts.session.id not in lost
            assert not broker.stopped.is_set()
            await broker.stop()
        finally:
            await store.close()


async def registered_anew(embedded: EmbeddedStore, broker: Broker, *, before: set[int]) -> None:
    """Until the broker is registered by the session that it uses, which is none of these."""
    looking = await embedded.connect()
    try:
        async with asyncio.timeout(30):
            while True:
                node = await looking.get(layout.broker_path(broker.id))
                owner = node.stat.ephemeral_owner if node else 0
                if owner == broker.parts.session.id and owner not in before:
                    return
                await asyncio.sleep(0.05)
    finally:
        await looking.close()


async def test_a_session_that_ends_while_the_broker_registers_again_is_replaced_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that registered at once were in each other's way, and one was never missed again."""
    async with served() as (embedded, server):
        settings = BrokerSettings.parse({"zookeeper.connect": server.address})
        store = ZooKeeperStore(server.address, session_timeout_ms=_SESSION_MS, digest=DIGEST)
        broker = Broker(BrokerId(3), store=store, settings=settings, data_dir=tmp_path)
        try:
            await broker.start()
            parts, lost = broker.parts, {broker.parts.session.id}
            load = parts.dynamic_config.load

            async def lose_and_load() -> None:
                if len(lost) == 1:
                    lost.add(parts.session.id)
                    await end_session(server, parts)
                await load()

            monkeypatch.setattr(parts.dynamic_config, "load", lose_and_load)
            await end_session(server, parts)
            await registered_anew(embedded, broker, before=lost)
            assert len(lost) == 2

            lost.add(parts.session.id)
            await end_session(server, parts)
            await registered_anew(embedded, broker, before=lost)
            await broker.stop()
        finally:
            await store.close()


async def test_a_store_of_the_process_that_is_gone_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore.open(None)
    asked = 0

    async def refuse(*_: object) -> None:
        nonlocal asked
        asked += 1
        raise StoreUnavailable("it is lost")

    monkeypatch.setattr(broker_server, "_set_strays_aside", refuse)
    settings = BrokerSettings.parse({})
    broker = Broker(BrokerId(0), store=store, settings=settings, data_dir=tmp_path)
    with pytest.raises(StoreUnavailable, match="it is lost"):
        await broker.start()
    assert asked == 1
    await store.close()
