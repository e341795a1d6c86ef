"""Completes work that has begun, even if the client that asked for it has gone.

A request that is dropped between an append and what follows from it in memory would leave memory
behind the log. So such work is done by a task of the coordinator; the request only waits for it.
What goes wrong is the request's affair: it ends neither the coordinator nor the work of others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

log = logging.getLogger("klamm.groups")
_T = TypeVar("_T")


class ToTheEnd:
    """Does work as a task of its owner, who lends its task group while it runs."""

    def __init__(self) -> None:
        self.tasks: asyncio.TaskGroup | None = None

    async def __call__(self, work: Callable[[], Awaitable[_T]]) -> _T:
        if self.tasks is None:
            return await work()  # nobody is served any more, or not yet
        outcome: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self.tasks.create_task(_do(work, outcome))
        return await outcome


async def _do(work: Callable[[], Awaitable[_T]], outcome: asyncio.Future[_T]) -> None:
    try:
        result = await work()
    except Exception as fault:
        if outcome.done():
            log.exception("work that nobody waits for any more failed")
        else:
            outcome.set_exception(fault)
    else:
        if not outcome.done():
            outcome.set_result(result)
    finally:
        outcome.cancel()  # the coordinator ends before the work does
