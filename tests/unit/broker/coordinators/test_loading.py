"""Coordinators read back what they keep, whenever they hear of it and however often that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from klamm.broker.coordinators import journal as journals
from klamm.broker.coordinators.groups import GroupCoordinator
from klamm.broker.coordinators.transactions import TransactionCoordinator
from klamm.groups.classic.requests import GroupLimits
from klamm.groups.consumer.events import ConsumerLimits
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.model.names import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from unit.broker.journals import Clock, MemoryJournal, allowance

Coordinator = GroupCoordinator | TransactionCoordinator


class Stubborn(MemoryJournal):
    """A journal that cannot be read at first."""

    def __init__(self, *faults: Exception) -> None:
        super().__init__()
        self.faults = list(faults)

    async def batches(self, partition: TopicPartition) -> AsyncIterator[memoryview]:
        if self.faults:
            raise self.faults.pop()
        async for batch in super().batches(partition):
            yield batch


def groups(journal: MemoryJournal) -> GroupCoordinator:
    return GroupCoordinator(
        journal,
        Clock(),  # type: ignore[arg-type]
        allowance=allowance(),
        limits=GroupLimits(
            session_timeout_ms_min=1, session_timeout_ms_max=60_000, size_max=10, initial_delay_ms=0
        ),
        consumer_limits=ConsumerLimits(
            size_max=10, session_timeout_ms=45_000, heartbeat_interval_ms=5_000, assignors=()
        ),
        retention_ms=60_000,
        retention_check_ms=60_000,
        partition_count=lambda: 1,
        cluster_topics=lambda: None,
    )


def transactions(journal: MemoryJournal) -> TransactionCoordinator:
    async def never(*_: Any) -> Any:
        raise AssertionError("nothing is to be sent")

    return TransactionCoordinator(
        journal,
        Clock(),  # type: ignore[arg-type]
        allowance=allowance(),
        send_marker=never,
        fresh_producer_id=never,
        partition_count=lambda: 1,
        timeout_ms_max=60_000,
        expiration_ms=60_000,
        timeout_check_ms=60_000,
        expiration_check_ms=60_000,
    )


def is_loaded(coordinator: Coordinator) -> bool:
    return not isinstance(coordinator.shard("g"), ErrorCode)


CASES = pytest.mark.parametrize(
    ("make", "topic"), [(groups, CONSUMER_OFFSETS), (transactions, TRANSACTION_STATE)]
)
Make = Callable[[MemoryJournal], Coordinator]


async def loaded(coordinator: Coordinator) -> None:
    running = asyncio.ensure_future(coordinator.run())
    try:
        for _ in range(5_000):
            if is_loaded(coordinator):
                return
            await asyncio.sleep(0.001)
        pytest.fail("it was never loaded")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@CASES
async def test_what_is_led_before_the_coordinator_runs_is_loaded_too(
    make: Make, topic: str
) -> None:
    coordinator = make(MemoryJournal())
    coordinator.load(TopicPartition(topic, 0), 1)
    await loaded(coordinator)


@CASES
async def test_a_partition_that_cannot_be_read_is_read_again(
    make: Make, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_AGAIN_S", 0.01)
    coordinator = make(Stubborn(ProtocolError("not now"), ValueError("nobody thought of that")))
    coordinator.load(TopicPartition(topic, 0), 1)
    await loaded(coordinator)
