"""Work that goes on without the one who asked for it, and fails alone."""

from __future__ import annotations

import asyncio

import pytest

from klamm.broker.coordinators.completion import ToTheEnd


async def test_work_ends_without_the_one_who_asked() -> None:
    to_the_end, began, done = ToTheEnd(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.sleep(0)
        done.set()

    async with asyncio.TaskGroup() as tasks:
        to_the_end.tasks = tasks
        asking = tasks.create_task(to_the_end(work))
        await began.wait()
        asking.cancel()
    assert done.is_set()


async def test_a_failure_is_told_to_the_one_who_asked_and_spares_the_others() -> None:
    async def run() -> None:
        to_the_end = ToTheEnd()

        async def fail() -> None:
            await asyncio.sleep(0)
            raise ValueError("no")

        async def succeed() -> int:
            await asyncio.sleep(0)
            return 7

        async with asyncio.TaskGroup() as tasks:
            to_the_end.tasks = tasks
            with pytest.raises(ValueError, match="no"):
                await to_the_end(fail)
            assert await to_the_end(succeed) == 7

    await run()


async def test_an_owner_that_ends_leaves_nobody_waiting() -> None:
    to_the_end, began = ToTheEnd(), asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    async def own() -> None:
        async with asyncio.TaskGroup() as to_the_end.tasks:
            await asyncio.Event().wait()

    owner = asyncio.create_task(own())
    await asyncio.sleep(0)
    asking = asyncio.create_task(to_the_end(work))
    await began.wait()
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
