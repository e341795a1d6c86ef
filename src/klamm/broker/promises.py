"""Replies that come later, and until when they are waited for.

Thousands of requests a second wait for a moment: followers for records, producers for all
replicas. A future each would cost them two more turns of the loop, and a timer each would nearly
always be cancelled long before it rings. A promise is heard of by a plain call, and a connection,
which serves one request at a time, needs one alarm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.broker.replies import Reply


class Promise:
    """One reply to come."""

    __slots__ = ("_on_dropped", "_on_over", "_take", "is_over")

    def __init__(self, on_dropped: Callable[[], None]) -> None:
        self.is_over = False
        self._on_dropped = on_dropped
        self._on_over: Callable[[], None] | None = None
        self._take: Callable[[Reply | Exception], None] | None = None

    def when_over(self, call: Callable[[], None]) -> None:
        """Have this called when it is kept or nobody waits any longer."""
        self._on_over = call

    def then(self, take: Callable[[Reply | Exception], None]) -> None:
        """Who is to hear of it."""
        self._take = take

    def keep(self, outcome: Reply | Exception) -> None:
        """Here it is, or why it will not come. To be called by the loop itself: the next request is
        served from within, and would meet whoever called half-way through what it does."""
        if not self.is_over:
            self._end()
            assert self._take is not None, "nobody waits for this"
            self._take(outcome)

    async def outcome(self) -> Reply:
        """The reply, for those who wait for it in a task."""
        future: asyncio.Future[Reply | Exception] = asyncio.get_running_loop().create_future()
        self.then(lambda outcome: None if future.done() else future.set_result(outcome))
        try:
            outcome = await future
        finally:
            self.cancel()  # the task may have been, and then nobody waits
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def cancel(self) -> None:
        """Nobody waits any longer."""
        if not self.is_over:
            self._end()
            self._on_dropped()

    def _end(self) -> None:
        self.is_over = True
        if self._on_over is not None:
            self._on_over()


class Alarm:
    """Rings once, at the time it was last set to, unless it was stopped.

    Stopping it and setting it to a later time touch no timer: the one that runs is looked at when
    it comes, and runs on if it came too early.
    """

    __slots__ = ("_due", "_loop", "_ring", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due = 0.0
        self._ring: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, after_s: float, ring: Callable[[], None]) -> None:
        """Have it ring in so many seconds."""
        self._due = self._loop.time() + after_s
        self._ring = ring
        timer = self._timer
        if timer is not None:
            if timer.when() <= self._due:
                return
            timer.cancel()
        self._timer = self._loop.call_at(self._due, self._came)

    def stop(self) -> None:
        self._ring = None

    def close(self) -> None:
        """It is not needed any more."""
        self._ring = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _came(self) -> None:
        self._timer = None
        ring = self._ring
        if ring is None:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._came)
        else:
            self._ring = None
            ring()
