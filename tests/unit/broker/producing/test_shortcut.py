"""A Produce that begins as one before is answered as the first one of a connection is."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from klamm.broker.replicas.partition import Partition
from klamm.client.aio.connection import Connection
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import CRC_AT, Record, encode_batch
from klamm.protocol.produce import (
    PartitionRecords,
    PartitionResult,
    ProduceRequest,
    TopicRecords,
)
from unit.broker.brokers import World, until, world

BATCH: Final = encode_batch([Record(0, 1_000, b"k", b"value")])


def _damaged() -> bytes:
    batch = bytearray(BATCH)
    struct.pack_into(">I", batch, CRC_AT, 7)
    return bytes(batch)


def _of_producer(sequence: int, *, is_transactional: bool = False) -> bytes:
    return encode_batch(
        [Record(0, 1_000, b"k", b"value")],
        producer_id=77,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


async def _send(
    connection: Connection, batch: bytes, acks: int, *, timeout_ms: int = 5_000
) -> PartitionResult:
    records = memoryview(bytearray(batch))
    topics = [TopicRecords("t", [PartitionRecords(0, records)])]
    response = await connection.produce(11, ProduceRequest(None, acks, timeout_ms, topics))
    assert response is not None
    assert response.throttle_time_ms == 0
    return response.topics[0].partitions[0]


async def _twice(
    w: World, leader: int, batch: bytes, acks: int
) -> tuple[PartitionResult, PartitionResult]:
    """The answers on a connection that has said this before, and on one that has said nothing."""
    used, fresh = await w.connect(leader), await w.connect(leader)
    assert (await _send(used, BATCH, acks)).error_code == 0
    answers = await _send(used, batch, acks), await _send(fresh, batch, acks)
    await used.close()
    await fresh.close()
    return answers


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (BATCH, ErrorCode.NONE),
        (_damaged(), ErrorCode.CORRUPT_MESSAGE),
        (BATCH[:50], ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (BATCH + BATCH, ErrorCode.INVALID_RECORD),
        (encode_batch([Record(0, 1_000, None, bytes(2_000))]), ErrorCode.MESSAGE_TOO_LARGE),
        (_of_producer(5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (
            _of_producer(0, is_transactional=True),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
    ids=["good", "damaged", "cut", "none", "two", "large", "gap", "transactional"],
)
async def test_the_answer_is_the_same(
    tmp_path: Path, acks: int, batch: bytes, code: ErrorCode
) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,), configs={"max.message.bytes": "1000"})
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            first = await w.connect(0)
            assert (await _send(first, _of_producer(0), acks)).error_code == 0
            await first.close()
        again, plain = await _twice(w, 0, batch, acks)
        assert again.error_code == code
        if code is ErrorCode.NONE:
            assert plain.base_offset == again.base_offset + 1
            plain = plain._replace(base_offset=again.base_offset)
        assert again == plain


async def test_a_batch_sent_again_has_the_offset_it_had(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        connection = await w.connect(0)
        offsets = [
            (await _send(connection, _of_producer(sequence), 1)).base_offset
            for sequence in (0, 1, 1, 2, 0)
        ]
        assert offsets == [0, 1, 1, 2, 0]
        await connection.close()


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Partition.stop, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Partition.fail, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
async def test_who_leads_is_asked_each_time(
    tmp_path: Path, acks: int, change: Callable[[Partition], None], code: ErrorCode
) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        used, fresh = await w.connect(0), await w.connect(0)
        assert (await _send(used, BATCH, acks)).error_code == 0
        change(w.leader())
        again, plain = await _send(used, BATCH, acks), await _send(fresh, BATCH, acks)
        assert again == plain
        assert again.error_code == code
        w.brokers[0].parts.replicas.partitions.clear()
        # It is waited for, in case it comes.
        again, plain = [await _send(who, BATCH, acks, timeout_ms=50) for who in (used, fresh)]
        assert again == plain
        assert again.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await used.close()
        await fresh.close()


async def _send_in_time(connection: Connection, timeout_ms: int) -> PartitionResult:
    topics = [TopicRecords("t", [PartitionRecords(0, memoryview(bytearray(BATCH)))])]
    response = await connection.produce(11, ProduceRequest(None, -1, timeout_ms, topics))
    assert response is not None
    return response.topics[0].partitions[0]


async def test_what_followers_do_not_confirm_in_time_is_said_to_be_late(tmp_path: Path) -> None:
    async with world(tmp_path, count=2) as w:
        await w.create("t", (0, 1))
        used, fresh = await w.connect(0), await w.connect(0)
        assert (await _send_in_time(used, 300)).error_code == 0
        await w.brokers[1].parts.fetchers.stop()
        again, plain = await asyncio.gather(
            *(_send_in_time(connection, 300) for connection in (used, fresh))
        )
        assert again.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert {again.base_offset, plain.base_offset} == {1, 2}
        assert again == plain._replace(base_offset=again.base_offset)
        await used.close()
        await fresh.close()


@pytest.mark.parametrize("is_lost", [False, True])
async def test_many_wait_for_the_followers_at_once(tmp_path: Path, is_lost: bool) -> None:
    async with world(tmp_path, count=2) as w:
        await w.create("t", (0, 1))
        connection = await w.connect(0)
        assert (await _send_in_time(connection, 20_000)).error_code == 0
        await w.brokers[1].parts.fetchers.stop()
        async with asyncio.TaskGroup() as group:
            sent = [group.create_task(_send_in_time(connection, 20_000)) for _ in range(20)]
            local = w.leader().log
            assert local is not None
            await until(lambda: local.log_end_offset == 21, "all are appended")
            assert not any(task.done() for task in sent)
            if is_lost:
                w.leader().stop()
            else:
                w.brokers[1].parts.fetchers.add(w.replica(1))
                w.brokers[1].parts.fetchers.apply()
        results = [task.result() for task in sent]
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_lost else ErrorCode.NONE
        assert [(r.error_code, r.base_offset) for r in results] == [
            (code, offset) for offset in range(1, 21)
        ]
        await connection.close()


@pytest.mark.parametrize("acks", [1, -1])
async def test_each_is_counted_where_requests_are_timed(tmp_path: Path, acks: int) -> None:
    async with world(tmp_path, count=2, klamm_metrics_port="0") as w:
        await w.create("t", (0, 1))
        connection = await w.connect(0)
        for _ in range(5):
            assert (await _send(connection, BATCH, acks)).error_code == 0
        assert w.brokers[0].parts.metrics.requests[ApiKey.PRODUCE].count == 5
        assert w.brokers[0].parts.metrics.messages_in == 5
        await connection.close()
