"""Large pieces of work on a loop that everybody shares."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from time import perf_counter

from klamm.broker.net.turns import Places, finished, in_parts, in_turns

BUSY_S = 0.002


def busy(seconds: float) -> None:
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


async def test_others_have_their_turn_between_slices_however_many_work() -> None:
    at_work = 0
    # What several that work did between two turns of somebody who only wants a word.
    done_between: list[int] = []

    async def work() -> None:
        nonlocal at_work
        async for _ in in_turns(range(20)):
            busy(BUSY_S)
            at_work += 1

    async def ask() -> None:
        while not all(worker.done() for worker in workers):
            before = at_work
            await asyncio.sleep(0)
            done_between.append(at_work - before)

    workers = [asyncio.ensure_future(work()) for _ in range(5)]
    await asyncio.sleep(0)  # all have begun, each with a first slice
    await ask()
    assert at_work == 5 * 20
    # One slice is two or three items; five at once would be ten and more.
    assert max(done_between) <= 5, done_between


async def test_work_in_steps_is_finished_and_others_are_let_in() -> None:
    async def run() -> None:
        others = 0

        def steps() -> Generator[None, None, str]:
            for _ in range(10):
                busy(BUSY_S)
                yield
            return "made"

        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        assert await finished(steps()) == "made"
        assert others >= 4
        task.cancel()

    await run()


async def test_one_that_gave_up_waiting_does_not_hold_up_the_others() -> None:
    async def run() -> None:
        async def work() -> int:
            count = 0
            async for _ in in_turns(range(6)):
                busy(BUSY_S)
                count += 1
            return count

        first, second = asyncio.ensure_future(work()), asyncio.ensure_future(work())
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 6

    await run()


async def test_places_are_taken_in_order_and_given_back() -> None:
    places = Places(100)
    assert places.weight(10**9) == 100
    await places.enter(60)
    order: list[str] = []

    async def enter(name: str, weight: int) -> None:
        await places.enter(weight)
        order.append(name)

    large = asyncio.ensure_future(enter("large", 100))
    small = asyncio.ensure_future(enter("small", 10))
    gone = asyncio.ensure_future(enter("gone", 10))
    await asyncio.sleep(0)
    assert order == [], "who comes later does not overtake"
    gone.cancel()
    places.leave(60)
    await large
    assert order == ["large"]
    places.leave(100)
    await small
    await places.enter(90)
    assert order == ["large", "small"]


def test_the_controller_is_asked_in_parts_and_always_once() -> None:
    assert list(in_parts(None)) == [None]
    assert list(in_parts([])) == [()]
    parts = [part or () for part in in_parts(range(2_500))]
    assert [len(part) for part in parts] == [1_000, 1_000, 500]
    assert [each for part in parts for each in part] == list(range(2_500))
