"""Real brokers on real sockets, with their insides in reach."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from klamm.broker.replicas.partition import Partition
from klamm.broker.server import Broker
from klamm.client.aio.connection import Connection
from klamm.model.assignment import Assignment
from klamm.model.names import BrokerId, TopicPartition
from klamm.model.settings import BrokerSettings
from klamm.protocol.batch import Record, decode_records, encode_batch, iter_batches
from klamm.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from klamm.protocol.produce import (
    PartitionRecords,
    PartitionResult,
    ProduceRequest,
    TopicRecords,
)
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create, SetData

QUICK: Mapping[str, str] = {
    # Long enough for a machine that stalls: only who is told to hang falls behind.
    "replica.lag.time.max.ms": "20000",
    "replica.fetch.wait.max.ms": "100",
    "controlled.shutdown.enable": "false",
}


@dataclass
class World:
    """Some brokers on one store."""

    store: EmbeddedStore
    data: Path
    settings: Mapping[str, str]
    racks: Sequence[str]
    brokers: dict[int, Broker]

    async def start(self, broker_id: int) -> Broker:
        broker = Broker(
            BrokerId(broker_id),
            store=self.store,
            settings=BrokerSettings.parse({**QUICK, **self.settings}),
            data_dir=self.data / f"broker-{broker_id}",
            rack=self.racks[broker_id] if self.racks else None,
        )
        await broker.start()
        self.brokers[broker_id] = broker
        return broker

    async def kill(self, broker_id: int) -> None:
        await self.brokers.pop(broker_id).kill()

    async def create(
        self, topic: str, *assignment: tuple[int, ...], configs: Mapping[str, str] | None = None
    ) -> None:
        """A topic with this assignment; returns when all its replicas are in sync."""
        any_broker = next(iter(self.brokers.values()))
        node = layout.TopicNode(
            uuid.uuid4(),
            {at: Assignment(tuple(map(BrokerId, r))) for at, r in enumerate(assignment)},
        )
        config = layout.encode_config(dict(configs or {}))
        await any_broker.parts.session.multi([Create(layout.topic_config_path(topic), config)])
        await any_broker.parts.session.multi(
            [Create(layout.topic_path(topic), layout.encode_topic(node))]
        )
        for broker in self.brokers.values():
            known = await broker.parts.metadata.wait_for(
                lambda s: len(s.topics.get(topic, ())) == len(assignment), 10_000
            )
            assert known, f"broker {broker.id} never heard of {topic}"

    def leader(self, topic: str = "t", index: int = 0) -> Partition:
        """The partition where it is led."""
        for broker in self.brokers.values():
            partition = broker.parts.replicas.partition(TopicPartition(topic, index))
            if partition is not None and partition.is_leader:
                return partition
        raise AssertionError(f"nobody leads {topic}-{index}")

    def replica(self, broker: int, topic: str = "t", index: int = 0) -> Partition:
        partition = self.brokers[broker].parts.replicas.partition(TopicPartition(topic, index))
        assert partition is not None
        return partition

    async def connect(self, broker: int) -> Connection:
        endpoint = self.brokers[broker].endpoint
        return await Connection.open(endpoint.host, endpoint.port, "test")

    async def connect_as_broker(self, broker: int) -> Connection:
        """A connection on which we have proven to be a broker of this cluster."""
        known = self.brokers[broker]
        return await known.parts.peers.connect(known.id, known.endpoint, "test")

    async def elect(self, epoch: int) -> None:
        """Write down an epoch as an election would."""
        session = next(iter(self.brokers.values())).parts.session
        data = layout.encode_controller_epoch(epoch)
        await session.multi([SetData(layout.CONTROLLER_EPOCH, data)])


@contextlib.asynccontextmanager
async def world(
    path: Path, count: int = 3, *, racks: Sequence[str] = (), **settings: str
) -> AsyncIterator[World]:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    made = World(EmbeddedStore.open(None), path, dotted, racks, {})
    try:
        await asyncio.gather(*(made.start(at) for at in range(count)))
        yield made
    finally:
        for broker in list(made.brokers.values()):
            await broker.kill()
        await made.store.close()


async def until(holds: Callable[[], bool], what: str, timeout_s: float = 15.0) -> None:
    """Wait for what no single event tells; what is asked must be cheap."""
    async with asyncio.timeout(timeout_s):
        for _ in iter(int, 1):
            try:
                if holds():
                    return
            except AssertionError:
                pass
            await asyncio.sleep(0.005)
    raise AssertionError(what)


async def produce(
    connection: Connection, *values: bytes, acks: int = -1, timeout_ms: int = 5_000
) -> PartitionResult:
    records = [Record(at, 1_000 + at, None, value) for at, value in enumerate(values)]
    batch = memoryview(encode_batch(records))
    topics = [TopicRecords("t", [PartitionRecords(0, batch)])]
    response = await connection.produce(11, ProduceRequest(None, acks, timeout_ms, topics))
    assert response is not None
    return response.topics[0].partitions[0]


async def fetch(
    connection: Connection, offset: int, *, rack: str = "", max_wait_ms: int = 0
) -> PartitionData:
    wanted = FetchPartition(0, -1, offset)
    request = FetchRequest(
        max_wait_ms=max_wait_ms, topics=[FetchTopic("t", uuid.UUID(int=0), [wanted])], rack_id=rack
    )
    response = await connection.fetch(12, request)
    return response.topics[0].partitions[0]


def values(data: PartitionData) -> list[bytes]:
    assert isinstance(data.records, bytes | memoryview)
    return [
        record.value or b""
        for _, batch in iter_batches(data.records)
        for record in decode_records(batch)
    ]


def log_values(partition: Partition) -> list[bytes]:
    """All records a replica holds."""
    assert partition.log is not None
    found: list[bytes] = []
    offset = partition.log.log_start_offset
    while offset < partition.log.log_end_offset:
        part = partition.log.read(offset, max_bytes=1 << 20)
        assert not isinstance(part, int)
        for header, batch in iter_batches(part.read()):
            found += [record.value or b"" for record in decode_records(batch)]
            offset = header.last_offset + 1
    return found
