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
        host, _, port = cluster.bootstrap_servers.partition(":")
        opened = await Connection.open(host, int(port))
        try:
            yield opened
        finally:
            await opened.close()


async def produce(connection: Connection, count: int) -> None:
    for _ in range(count):
        request = ProduceRequest(topics=[TopicRecords("t", [PartitionRecords(0, BATCH)])])
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
    assert took_s >= 0.3 * 15 / 16, "it ends a little early by chance, and no more than that"
