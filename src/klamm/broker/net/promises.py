"""Replies that come later, and until when they are waited for.

Thousands of requests a second wait for a moment: followers for records, producers for all
replicas. A future each would cost them two more turns of the loop, and a timer each would nearly
always be cancelled long before it rings. A promise is heard of by a plain call, and a connection
needs one alarm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.broker.net.replies import Reply


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
        """Sets the listener for the result."""
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


class Receipt(Promise):
    """The reply to a request that has been carried out, and waits for nothing but confirmation.

    Its frame is not needed any more, and requests behind it need not wait for it; only their
    replies do. It may be kept in the middle of anything: whoever waits for it only takes note.
    """

    __slots__ = ("kept",)

    def __init__(self, on_dropped: Callable[[], None]) -> None:
        super().__init__(on_dropped)
        self.kept: Reply | Exception | None = None

    def keep(self, outcome: Reply | Exception) -> None:
        if not self.is_over:
            self.kept = outcome
        super().keep(outcome)


class Alarm:
    """Rings each bell once, when its time has come, unless it was stopped before.

    Stopping touches no timer, and setting hardly ever does: there is one, for the earliest time
    there was, which is looked at when it comes, and runs on if nothing is due by then.
    """

    __slots__ = ("_due", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[Callable[[], None], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def set(self, after_s: float, ring: Callable[[], None]) -> None:
        """Have this called in so many seconds, and not when it was set to before."""
        due = self._due[ring] = self._loop.time() + after_s
        timer = self._timer
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timer = self._loop.call_at(due, self._came)

    def stop(self, ring: Callable[[], None]) -> None:
        self._due.pop(ring, None)

    def close(self) -> None:
        """It is not needed any more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _came(self) -> None:
        self._timer = None
        now = self._loop.time()
        rings = [ring for ring, due in self._due.items() if due <= now]
        rings.sort(key=self._due.__getitem__)  # a busy loop may find several, in any order
        for ring in rings:
            del self._due[ring]
        if self._due:
            self._timer = self._loop.call_at(min(self._due.values()), self._came)
        for ring in rings:
            ring()
