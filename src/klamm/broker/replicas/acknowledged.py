"""One append that waits for all replicas in sync."""

from __future__ import annotations

import asyncio

from klamm.broker.replicas.partition import Partition
from klamm.model.errors import ErrorCode


class Acknowledged:
    """The acknowledgement of an append (an `AckWaiter`), to be awaited."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    @property
    def is_over(self) -> bool:
        return self.future.done()

    def acknowledged(self, partition: Partition, code: ErrorCode) -> None:
        if not self.future.done():
            self.future.set_result(code)


async def acknowledged(partition: Partition, offset_end: int, timeout_s: float) -> ErrorCode:
    """Wait until all replicas in sync have what is below an offset; the code of the outcome."""
    waiter = Acknowledged()
    partition.await_acks(offset_end, waiter)
    try:
        async with asyncio.timeout(timeout_s):
            return await waiter.future
    except TimeoutError:
        return ErrorCode.REQUEST_TIMED_OUT
