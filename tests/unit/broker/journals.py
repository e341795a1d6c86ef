"""A partition of an internal topic in memory, and a clock that is set by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from klamm.broker.coordinators.allowance import Allowance
from klamm.broker.coordinators.journal import AppendResult
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition


class Clock:
    """A time that stands still until it is set."""

    def __init__(self) -> None:
        self.time_ms = 0

    def now_ms(self) -> int:
        return self.time_ms


def allowance(most: int = 1 << 30, count: Callable[[], int] = lambda: 0) -> Allowance:
    """Room for whatever a test keeps."""
    return Allowance(most, Clock(), count)  # type: ignore[arg-type]


class MemoryJournal:
    """A partition in memory. Appends end as they are told to, the next ones well."""

    def __init__(self) -> None:
        self.batches_: list[bytes] = []
        self.next_ends: list[tuple[ErrorCode, bool]] = []  # the error, and whether it was appended
        self.began = asyncio.Event()
        self.tried = asyncio.Semaphore(0)

    async def append(self, partition: TopicPartition, batch: bytes) -> AppendResult:
        self.began.set()
        await asyncio.sleep(0)
        error, appended = self.next_ends.pop(0) if self.next_ends else (ErrorCode.NONE, True)
        if appended:
            self.batches_.append(batch)
        self.tried.release()
        return AppendResult(error, len(self.batches_) if appended else -1)

    async def batches(self, partition: TopicPartition) -> AsyncIterator[memoryview]:
        for batch in self.batches_:
            yield memoryview(batch)


def at_once(work: Coroutine[Any, Any, None]) -> None:
    """Carry out what never waits for anything, such as reading a small batch back."""
    with contextlib.suppress(StopIteration):
        work.send(None)
        raise AssertionError("it waits")
