"""Hostile record batches at the wire: refused, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from interop.wire import Wire
from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import HEADER_SIZE as H
from klamm.protocol.batch import MAGIC, BatchHeader, Codec, Record, compress, encode_batch, seal
from klamm.protocol.messages import create_topics, list_offsets, metadata, produce
from klamm.protocol.varint import varint

NOW = 1_700_000_000_000
MANY = 250_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as cluster:
        wire = Wire(cluster)
        for name in ("poisoned", "plain", "compacted", "ordered"):
            config = [create_topics.CreatableTopicConfig("cleanup.policy", "compact")]
            topic = create_topics.CreatableTopic(
                name, 1, 1, configs=config if name == "compacted" else []
            )
            assert wire.create(topic)[0].error_code == 0
            cluster.wait_for_topic(name)
        yield cluster


async def _connect(cluster: Cluster) -> Connection:
    endpoint = cluster._app.brokers[0].endpoint
    return await Connection.open(endpoint.host, endpoint.port, "stranger")


def batch(area: bytes, count: int, codec: int = 0, latest: int = NOW) -> bytes:
    header = BatchHeader(
        0, 0, -1, MAGIC, 0, codec, count - 1, NOW, latest, producer_id=-1,
        producer_epoch=-1, base_sequence=-1, record_count=count,
    )  # fmt: skip
    return seal(header, compress(codec, area) if codec else area)


def record(offset: int, time: int = 0) -> bytes:
    """A record without anything in it."""
    body = b"\0" + varint(time) + varint(offset) + b"\x01\x01\0"
    return varint(len(body)) + body


async def send(connection: Connection, topic: str, data: bytes) -> produce.PartitionProduceResponse:
    records = produce.PartitionProduceData(0, data)
    request = produce.Request(None, 1, 30_000, [produce.TopicProduceData(topic, [records])])
    response: produce.Response = await connection.request(ApiKey.PRODUCE, 9, request)
    return response.responses[0].partition_responses[0]


async def test_poison_is_refused_and_the_next_batch_gets_its_offset(cluster: Cluster) -> None:
    good = encode_batch([Record(0, NOW, b"k", b"v")])

    connection = await _connect(cluster)
    assert (await send(connection, "poisoned", good)).base_offset == 0
    for data in (
        batch(b"", (1 << 31) - 1),
        batch(b"\xff\x07garbage" * 9, 5),
        batch(b"\xff\x07garbage" * 9, 5, Codec.ZSTD),
        batch(good[H:] * 2, 2),
    ):
        result = await send(connection, "poisoned", data)
        assert result.error_code == ErrorCode.INVALID_RECORD
        assert result.error_message
    bomb = await send(
        connection,
        "poisoned",
        batch(b"\x0c\0\0\0\x01\x01\0" * 6_000_000, 6_000_000, Codec.ZSTD),
    )
    assert bomb.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await send(connection, "poisoned", good)).base_offset == 1
    await connection.close()


async def test_records_of_a_compacted_topic_are_named(cluster: Cluster) -> None:
    connection = await _connect(cluster)
    sent = encode_batch([Record(i, NOW, None if i % 2 else b"k", b"") for i in range(5000)])
    result = await send(connection, "compacted", sent)
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == list(range(1, 200, 2))
    await connection.close()


async def test_nobody_waits_for_a_look_into_very_many_records(cluster: Cluster) -> None:
    """Very many records, the time only in the last of them: others are served meanwhile."""
    area = b"".join(record(i) for i in range(MANY))
    sent = batch(area + record(MANY, 9), MANY + 1, Codec.ZSTD, latest=NOW + 9)
    wanted = list_offsets.ListOffsetsPartition(0, -1, NOW + 9)
    look_up = list_offsets.Request(
        replica_id=-1, isolation_level=0, topics=[list_offsets.ListOffsetsTopic("plain", [wanted])]
    )

    async def work() -> float:
        attackers = [await _connect(cluster) for _ in range(4)]
        healthy = await _connect(cluster)
        sending = asyncio.create_task(send(attackers[0], "plain", sent))
        waits = [await _ask(healthy) for _ in range(20)]
        assert (await sending).error_code == 0
        looking = asyncio.gather(
            *(each.request(ApiKey.LIST_OFFSETS, 7, look_up) for each in attackers)
        )
        while not looking.done():
            waits.append(await _ask(healthy))
        for response in await looking:
            # Without compiled loops the batch is answered as a whole.
            assert response.topics[0].partitions[0].offset in (0, MANY)
        for connection in (*attackers, healthy):
            await connection.close()
        return max(waits)

    assert await work() < 0.8


async def _ask(connection: Connection) -> float:
    began = time.perf_counter()
    await connection.request(ApiKey.METADATA, 9, metadata.Request(topics=[]))
    await asyncio.sleep(0.001)
    return time.perf_counter() - began


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_compressed_batches_keep_their_order(cluster: Cluster, codec: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "compression.type": codec,
            "acks": "all",
            "linger.ms": 2,
            "enable.idempotence": True,
        }
    )
    for number in range(3000):
        producer.produce("ordered", f"{codec} {number} {'x' * 200}", partition=0)
        producer.poll(0)
    assert producer.flush(20) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": codec,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["ordered"])
    found: list[int] = []
    while len(found) < 3000:
        message = consumer.poll(10)
        assert message is not None
        kind, number, _ = message.value().decode().split(" ")
        if kind == codec:
            found.append(int(number))
    consumer.close()
    assert found == list(range(3000))


@pytest.mark.parametrize(("version", "code"), [(4, 76), (7, 87), (9, 87)])
async def test_of_two_batches_the_codec_is_told_first(
    cluster: Cluster, version: int, code: int
) -> None:
    """A producer of a version without zstd hears of that, as from Kafka."""
    twice = 2 * batch(record(0), 1, Codec.ZSTD)
    records = produce.PartitionProduceData(0, twice)
    topics = [produce.TopicProduceData("plain", [records])]
    request = produce.Request(acks=-1, timeout_ms=20_000, topic_data=topics)
    connection = await _connect(cluster)
    try:
        response = await connection.request(ApiKey.PRODUCE, version, request)
    finally:
        await connection.close()
    assert response.responses[0].partition_responses[0].error_code == code
