from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from klamm.broker.net.promises import Alarm, Promise, Receipt
from klamm.broker.net.replies import Reply


class Rings:
    """Notes which alarms rang."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._rang = asyncio.Event()

    def __call__(self, name: str) -> Callable[[], None]:
        def ring() -> None:
            self.heard.append(name)
            self._rang.set()

        return ring

    async def wait(self) -> None:
        async with asyncio.timeout(10):
            await self._rang.wait()
            self._rang.clear()


async def test_an_alarm_rings_each_bell_when_its_time_has_come() -> None:
    alarm, rings = Alarm(asyncio.get_running_loop()), Rings()
    late, later, soon = rings("late"), rings("later"), rings("soon")
    alarm.set(0.004, late)
    alarm.set(0.02, later)
    alarm.set(0.001, soon)
    time.sleep(0.03)  # noqa: ASYNC251 - a loop that is busy finds all of them due at once
    while len(rings.heard) < 3:
        await rings.wait()
    assert rings.heard == ["soon", "late", "later"]


async def test_a_bell_rings_as_it_was_set_last() -> None:
    alarm, rings = Alarm(asyncio.get_running_loop()), Rings()
    moved, other = rings("moved"), rings("other")
    alarm.set(0.001, moved)
    alarm.set(60, moved)
    alarm.set(0.01, other)
    await rings.wait()
    assert rings.heard == ["other"]
    alarm.set(0.001, moved)
    await rings.wait()
    assert rings.heard == ["other", "moved"]


async def test_a_bell_that_was_stopped_does_not_ring_and_can_be_set_again() -> None:
    loop, rings = asyncio.get_running_loop(), Rings()
    alarm, other = Alarm(loop), Alarm(loop)
    bell = rings("bell")
    alarm.set(0.001, bell)
    alarm.stop(bell)
    other.set(0.01, rings("other"))
    await rings.wait()
    assert rings.heard == ["other"]
    alarm.set(0.001, bell)
    await rings.wait()
    assert rings.heard == ["other", "bell"]
    alarm.set(0.001, bell)
    alarm.close()
    other.set(0.01, rings("last"))
    await rings.wait()
    assert rings.heard == ["other", "bell", "last"]


def test_a_promise_is_kept_once_or_dropped() -> None:
    heard: list[object] = []
    kept = Promise(lambda: heard.append("dropped"))
    kept.then(heard.append)
    kept.when_over(lambda: heard.append("over"))
    reply = Reply((b"x",))
    kept.keep(reply)
    kept.keep(reply)
    kept.cancel()
    assert heard == ["over", reply]
    dropped = Promise(lambda: heard.append("dropped"))
    dropped.then(heard.append)
    dropped.cancel()
    dropped.keep(reply)
    assert heard == ["over", reply, "dropped"]


def test_a_receipt_remembers_what_it_was_kept_with() -> None:
    heard: list[object] = []
    receipt = Receipt(lambda: heard.append("dropped"))
    receipt.then(heard.append)
    assert receipt.kept is None
    reply = Reply((b"x",))
    receipt.keep(reply)
    receipt.keep(Reply((b"y",)))
    receipt.cancel()
    assert receipt.kept is reply
    assert heard == [reply]


async def test_a_task_may_wait_for_a_promise() -> None:
    dropped: list[bool] = []
    promise = Promise(lambda: dropped.append(True))
    waiting = asyncio.create_task(promise.outcome())
    await asyncio.sleep(0)
    promise.keep(Reply((b"x",)))
    assert (await waiting).parts == (b"x",)
    failing = Promise(lambda: dropped.append(True))
    waiting = asyncio.create_task(failing.outcome())
    await asyncio.sleep(0)
    failing.keep(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        await waiting
    assert not dropped
    waiting = asyncio.create_task(Promise(lambda: dropped.append(True)).outcome())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert dropped == [True]
