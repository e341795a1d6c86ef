"""Whoever comes for a partition before its broker was ordered to lead it waits, and fails not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from klamm.broker.replicas.replicas import ReplicaManager
from klamm.client.aio.connection import Connection
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import list_offsets
from unit.broker.brokers import World, fetch, produce, until, values, world

MANY = 60  # more than are ordered before they are shown
PLACE = TopicPartition("t", 0)


@contextlib.asynccontextmanager
async def shown_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[World, asyncio.Event]]:
    """A broker that shows many partitions as led and obeys when the event says so."""
    may_obey = asyncio.Event()
    obey = ReplicaManager.obey

    async def obey_later(self: ReplicaManager, request: object) -> object:
        await may_obey.wait()
        return await obey(self, request)  # type: ignore[arg-type]

    async with world(path, count=1) as w:
        monkeypatch.setattr(ReplicaManager, "obey", obey_later)
        try:
            await w.create("t", *[(0,)] * MANY)
            assert w.brokers[0].parts.replicas.partition(PLACE) is None
            yield w, may_obey
        finally:
            may_obey.set()


async def waits(w: World, work: asyncio.Future[object]) -> None:
    """See that a request has come and is not answered."""
    coming = w.brokers[0].parts.replicas.coming
    await until(lambda: bool(coming._waiting), "the request waits")
    assert not work.done()


@pytest.mark.parametrize("acks", [-1, 1])
async def test_a_record_that_comes_early_is_taken_when_the_log_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    async with shown_only(tmp_path, monkeypatch) as (w, may_obey):
        early = await w.connect(0)
        work = asyncio.ensure_future(produce(early, b"one", acks=acks, timeout_ms=30_000))
        await waits(w, work)
        may_obey.set()
        result = await work
        assert (result.error_code, result.base_offset) == (0, 0)
        assert values(await fetch(early, 0, max_wait_ms=10_000)) == [b"one"], "once"
        assert not w.brokers[0].parts.replicas.coming._waiting, "nobody is remembered"
        await early.close()


async def test_a_fetch_and_a_look_for_offsets_that_come_early_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown_only(tmp_path, monkeypatch) as (w, may_obey):
        reader, looker, writer = [await w.connect(0) for _ in range(3)]
        read = asyncio.ensure_future(fetch(reader, 0, max_wait_ms=30_000))
        await waits(w, read)
        looked = asyncio.ensure_future(offsets(looker))
        may_obey.set()
        assert (await looked).error_code == 0
        assert (await produce(writer, b"one")).error_code == 0
        assert values(await read) == [b"one"], "woken by the first record"
        for connection in (reader, looker, writer):
            await connection.close()


async def test_nobody_waits_longer_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown_only(tmp_path, monkeypatch) as (w, _):
        early = await w.connect(0)
        assert (await produce(early, b"one", timeout_ms=20)).error_code == (
            ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert (await fetch(early, 0, max_wait_ms=20)).error_code == (
            ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert (await fetch(early, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not w.brokers[0].parts.replicas.coming._waiting
        await early.close()


async def test_what_was_only_shown_survives_the_end_of_its_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown_only(tmp_path, monkeypatch) as (w, _):
        await w.kill(0)
        monkeypatch.undo()
        await w.start(0)
        replicas = w.brokers[0].parts.replicas
        await until(lambda: len(replicas.partitions) == MANY, "its replicas are made")
        writer = await w.connect(0)
        assert (await produce(writer, b"one", timeout_ms=30_000)).error_code == 0
        await writer.close()


async def offsets(connection: Connection) -> list_offsets.ListOffsetsPartitionResponse:
    topic = list_offsets.ListOffsetsTopic("t", [list_offsets.ListOffsetsPartition(0)])
    asked = list_offsets.Request(replica_id=-1, topics=[topic])
    response = await connection.request(ApiKey.LIST_OFFSETS, 6, asked)
    found: list_offsets.ListOffsetsPartitionResponse = response.topics[0].partitions[0]
    return found
