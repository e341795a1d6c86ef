"""A fetch that waits: woken by what it watches, at the latest when its time is over.

However many appends wake it in one turn of the loop, it looks again once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from klamm.broker.connection import Reply
from klamm.broker.partition import Partition, Watch

# Gives the reply; None when there is still too little and it was not the last time.
Look = Callable[[bool], Reply | None]


class Parked:
    """One waiting fetch; a `Watch`."""

    __slots__ = ("_look", "_loop", "_places", "_timer", "_woken", "future")

    def __init__(self, look: Look, timeout_ms: int) -> None:
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._places: list[set[Watch]] = []
        self._woken = False
        self._timer = self._loop.call_later(timeout_ms / 1000, self.finish)
        # Cancelled when the client has gone.
        self.future: asyncio.Future[Reply] = self._loop.create_future()
        self.future.add_done_callback(self._leave)

    def watch(self, place: set[Watch]) -> None:
        """Be woken by what happens here."""
        place.add(self)
        self._places.append(place)

    def touched(self, partition: Partition) -> None:
        self.wake()

    def wake(self) -> None:
        """Look again soon."""
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._look_again, False)

    def finish(self) -> None:
        """Answer with what there is."""
        self._look_again(True)

    def _look_again(self, is_last: bool) -> None:
        self._woken = False
        if self.future.done():
            return
        try:
            answer = self._look(is_last)
        except Exception as fault:  # noqa: BLE001 - the connection hears of it
            self.future.set_exception(fault)
            return
        if answer is not None:
            self.future.set_result(answer)

    def _leave(self, _: asyncio.Future[Reply]) -> None:
        self._timer.cancel()
        for place in self._places:
            place.discard(self)
