"""Connections from broker to broker, and who is at their other end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from klamm.broker import registration
from klamm.broker.net.proof import NotProven
from klamm.client.errors import ClientError
from klamm.model import brokers
from klamm.model.brokers import Endpoint
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import api_versions
from klamm.protocol.private import PrivateKey
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create, SetData
from unit.broker.brokers import produce, until, world

FOREIGN = BrokerId(7)


@contextlib.asynccontextmanager
async def listening(heard: bytearray) -> AsyncIterator[Endpoint]:
    """Somebody who takes everything and says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            heard.extend(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


async def test_the_secret_is_drawn_once_and_is_the_same_for_all(tmp_path: Path) -> None:
    store = EmbeddedStore.open(None)
    session = await store.connect()
    drawn = await asyncio.gather(*(registration.cluster_secret(session) for _ in range(3)))
    assert len({secret._key for secret in drawn}) == 1
    assert len(drawn[0]._key) == 32
    await session.multi([SetData(layout.CLUSTER_SECRET, b'{"version":1,"secret":"AAAA"}')])
    with pytest.raises(UsageError, match="is damaged"):
        await registration.cluster_secret(session)
    await store.close()


async def test_a_broker_proves_itself_and_may_ask_what_brokers_may(tmp_path: Path) -> None:
    async with world(tmp_path, count=2) as w:
        one, other = w.brokers[0], w.brokers[1]
        connection = await one.parts.peers.connect(other.id, other.endpoint, "test")
        body = {"controller": 0, "controller_epoch": -1, "broker_epoch": other.parts.epoch}
        answer = await connection.ask(PrivateKey.ROLL_CALL, body)
        assert answer["error_code"] == 11, "an old controller, but one that is heard"
        assert [c.is_broker for c in other.listeners.connections].count(True) >= 1
        await connection.close()


async def test_another_brokers_address_is_not_the_one_that_was_meant(tmp_path: Path) -> None:
    async with world(tmp_path, count=2) as w:
        with pytest.raises(NotProven):
            await w.brokers[0].parts.peers.connect(BrokerId(0), w.brokers[1].endpoint, "test")


async def test_a_broker_of_another_cluster_is_not_let_in(tmp_path: Path) -> None:
    async with world(tmp_path / "a", count=1) as one, world(tmp_path / "b", count=1) as other:
        with pytest.raises(NotProven, match="you are not of it"):
            await one.brokers[0].parts.peers.connect(BrokerId(0), other.brokers[0].endpoint, "test")


async def test_an_impostor_gets_no_data_and_no_order(tmp_path: Path) -> None:
    """A follower that is led to a stranger's port says nothing of what it has."""
    heard = bytearray()
    async with world(tmp_path, count=1) as w, listening(heard) as stranger:
        broker = w.brokers[0]
        broker.parts.peers._can_prove[FOREIGN] = True
        trying = asyncio.create_task(broker.parts.peers.connect(FOREIGN, stranger, "test"))
        await until(lambda: bool(heard), "it has introduced itself")
        trying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await trying
        assert int.from_bytes(heard[4:6], "big") == PrivateKey.PROVE
        assert len(heard) < 256


async def test_a_broker_that_registered_without_a_proof_is_asked_for_none(tmp_path: Path) -> None:
    """Apache Kafka's: it would hang up on an API that it does not know."""
    heard = bytearray()
    async with world(tmp_path, count=1) as w, listening(heard) as endpoint:
        broker = w.brokers[0]
        foreign = brokers.Registration(id=FOREIGN, epoch=0, endpoints=(endpoint,))
        data = layout.encode_broker(foreign, timestamp_ms=0)
        assert b"klamm" not in data
        await broker.parts.session.multi(
            [Create(layout.broker_path(FOREIGN), data, ephemeral=True)]
        )
        connection = await broker.parts.peers.connect(FOREIGN, endpoint, "test")
        assert not heard
        asking = asyncio.create_task(connection.request(18, 0, api_versions.Request()))
        await until(lambda: bool(heard), "the first request is a real one")
        assert int.from_bytes(heard[4:6], "big") == ApiKey.API_VERSIONS
        await connection.close()
        with contextlib.suppress(ClientError):
            await asking


async def test_what_nothing_is_known_of_has_to_prove_itself(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        broker = w.brokers[0]
        assert await broker.parts.peers.proves(BrokerId(99))
        store = broker.parts.session
        await store.close()
        assert await broker.parts.peers.proves(BrokerId(98)), "also while the store is away"


async def test_brokers_replicate_although_clients_have_filled_every_table(tmp_path: Path) -> None:
    settings = {
        "max_connections": "2",
        "max_connections_per_ip": "2",
        "max_connection_creation_rate": "1",
    }
    async with world(tmp_path, count=3, **settings) as w:
        crowd = [await w.connect(at) for at in (0, 0, 1, 1, 2, 2)]
        await w.create("t", (0, 1, 2))
        result = await produce(crowd[0], b"x")
        assert result.error_code == 0, "acks=all: every follower has it"
        partitions = [w.replica(at) for at in range(3)]
        assert [p.log and p.log.log_end_offset for p in partitions] == [1, 1, 1]
        # And a broker that comes back finds its way in.
        await w.kill(2)
        await w.start(2)
        at = TopicPartition("t", 0)
        await until(
            lambda: (
                len(w.leader().isr.committed) == 3 and at in w.brokers[2].parts.replicas.partitions
            ),
            "it is in sync again",
        )
        for connection in crowd:
            with contextlib.suppress(KlammError):
                await connection.close()
