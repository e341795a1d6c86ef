"""How long a fetch waits for the bytes it asked for."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest_asyncio

from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.model.names import ZERO_ID
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.produce import PartitionRecords, ProduceRequest, TopicRecords

LONG_MS = 20_000
BATCH = encode_batch([Record(0, 0, None, bytes(16_000))])
FETCH, PRODUCE = 12, 9


@pytest_asyncio.fixture
async def connection() -> AsyncIterator[Connection]:
    async with Cluster(1) as cluster:
        await cluster.create_topic("t", 1, 1, configs={"segment.bytes": "20000"})
        await cluster.create_topic("two", 2, 1)
        host, _, port = cluster.bootstrap_servers.partition(":")
        opened = await Connection.open(host, int(port))
        try:
            yield opened
        finally:
            await opened.close()


async def produce(
    connection: Connection, count: int, topic: str = "t", partition: int = 0, batch: bytes = BATCH
) -> None:
    for _ in range(count):
        records = [PartitionRecords(partition, batch)]
        request = ProduceRequest(topics=[TopicRecords(topic, records)])
        await connection.produce(PRODUCE, request)


async def timed_fetch(connection: Connection, *, max_wait_ms: int) -> tuple[int, float]:
    partition = FetchPartition(0, fetch_offset=0)
    topics = [FetchTopic("t", ZERO_ID, [partition])]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=50_000, topics=topics)
    begun = time.monotonic()
    response = await connection.fetch(FETCH, request)
    (topic,) = response.topics
    return len(topic.partitions[0].records), time.monotonic() - begun


async def test_the_rest_of_an_older_segment_is_answered_at_once(connection: Connection) -> None:
    """An answer ends with its segment: more in later ones will not make it any larger."""
    await produce(connection, 4)
    size, took_s = await timed_fetch(connection, max_wait_ms=LONG_MS)
    assert size == len(BATCH)
    assert took_s < LONG_MS / 1000 / 4


async def test_too_little_in_the_last_segment_is_waited_for(connection: Connection) -> None:
    await produce(connection, 1)
    size, took_s = await timed_fetch(connection, max_wait_ms=300)
    assert size == len(BATCH)
    assert took_s >= 0.3, "there are tests of clients that count on it"


async def test_a_batch_without_room_beside_others_is_left_to_the_next_answer(
    connection: Connection,
) -> None:
    """A reader that gets the beginning of a batch and nothing else takes its log for broken."""
    small = encode_batch([Record(0, 0, None, bytes(100))])
    await produce(connection, 1, "two", 1, small)
    await produce(connection, 1, "two", 0)
    wanted = [FetchPartition(index, fetch_offset=0) for index in (1, 0)]
    request = FetchRequest(
        max_wait_ms=LONG_MS,
        min_bytes=1,
        max_bytes=len(small) + 70,
        topics=[FetchTopic("two", ZERO_ID, wanted)],
    )
    response = await connection.fetch(FETCH, request)
    sizes = [len(data.records) for data in response.topics[0].partitions]
    assert sizes == [len(small), 0]


async def test_what_is_full_but_for_a_part_of_a_batch_is_answered_at_once(
    connection: Connection,
) -> None:
    """Neither what is left out of an answer nor more will make it any larger."""
    await produce(connection, 4, "two")
    whole = 3 * len(BATCH) + 100
    request = FetchRequest(
        max_wait_ms=LONG_MS,
        min_bytes=whole,
        max_bytes=whole,
        topics=[FetchTopic("two", ZERO_ID, [FetchPartition(0, fetch_offset=0)])],
    )
    begun = time.monotonic()
    response = await connection.fetch(FETCH, request)
    assert len(response.topics[0].partitions[0].records) == 3 * len(BATCH)
    assert time.monotonic() - begun < LONG_MS / 1000 / 4
