"""What a coordinator keeps is read back from its log without keeping everybody waiting."""

from __future__ import annotations

import asyncio
from time import perf_counter
from types import SimpleNamespace
from typing import Any, cast

from klamm.broker.coordinators.replicated import ReplicaJournal
from klamm.broker.replicas.hosting import Hosting
from klamm.model.names import TRANSACTION_STATE, TopicPartition
from klamm.protocol.batch import Record, encode_batch

AT = TopicPartition(TRANSACTION_STATE, 0)
BATCHES = 60
WORK_S = 0.001  # for each batch


class FakeLog:
    """Many small batches, all of which come in one piece."""

    log_start_offset = 0
    log_end_offset = BATCHES

    def read(self, offset: int, **_: Any) -> Any:
        batches = [
            encode_batch([Record(at, 0, b"key", b"value")], base_offset=at)
            for at in range(offset, BATCHES)
        ]
        return SimpleNamespace(read=lambda: b"".join(batches))


def journal() -> ReplicaJournal:
    led = SimpleNamespace(log=FakeLog())
    return ReplicaJournal(
        cast(Hosting, SimpleNamespace(replicas=SimpleNamespace(find_leader=lambda _: led)))
    )


async def test_many_small_batches_let_others_have_their_turn() -> None:
    turns, read = 0, 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.ensure_future(count_turns())
    await asyncio.sleep(0)
    async for _ in journal().batches(AT):
        read += 1
        until = perf_counter() + WORK_S
        while perf_counter() < until:
            pass  # somebody looks into it
    counting.cancel()
    assert read == BATCHES
    assert turns >= 5, "of some milliseconds each"
