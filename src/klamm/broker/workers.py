"""A broker's threads, for work that waits for a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from klamm.model.names import BrokerId

T = TypeVar("T")

_THREADS: Final = 8  # one a chore, so that a long compaction keeps nobody waiting


class Workers:
    """The worker threads of one broker."""

    def __init__(self, broker: BrokerId) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"klamm-{broker}-worker")

    async def run(self, work: Callable[[], T]) -> T:
        """Run blocking work on one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def shutdown(self, *, wait: bool = True) -> None:
        self._pool.shutdown(wait=wait)
