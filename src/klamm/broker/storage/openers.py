"""Threads that open batches: two for those of an ordinary size, one for the large.

A few kilobytes may expand to as much as `klamm.batch.expanded.bytes.max` and hold millions of
records. Whoever opens a batch tries it with little room first; what does not fit waits for the one
thread that has more, so that hostile batches wait for each other and not the others for them, and
no more than one of them takes memory at a time. All brokers of a process share the threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from klamm.protocol.compression import ExpandsTooFar

T = TypeVar("T")

_ROOM: Final = 1 << 20  # bytes that the records of most batches need at most

_few: Final = ThreadPoolExecutor(2, thread_name_prefix="klamm-opener")
_many: Final = ThreadPoolExecutor(1, thread_name_prefix="klamm-large-opener")


async def opened(work: Callable[[int | None], T]) -> T:
    """The result of work that opens a batch within so many bytes; None is all that is allowed."""
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(_few, work, _ROOM)
    except ExpandsTooFar:
        return await loop.run_in_executor(_many, work, None)
