"""Tasks with an owner: whoever started them ends them, and hears when one fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)


class Tasks:
    """The tasks of one owner whose life is longer than a `with` block.

    A task that fails ends its role; `on_failure` tells the owner, who decides what follows.
    """

    def __init__(self, on_failure: Callable[[str, BaseException], None] | None = None) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._on_failure = on_failure

    def start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Run this until it ends or the owner does."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def cancel(self) -> None:
        """End all of them and wait until they are gone."""
        mine = asyncio.current_task()
        running = [task for task in self._running if task is not mine]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is None:
            return
        log.error("a task failed", extra={"task": task.get_name()}, exc_info=fault)
        if self._on_failure is not None:
            self._on_failure(task.get_name(), fault)
