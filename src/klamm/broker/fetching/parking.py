"""A fetch that waits: woken by what it watches, at the latest when its time is over.

However many appends wake it in one turn of the loop, it looks again once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from klamm.broker.net.peer import Peer
from klamm.broker.net.promises import Promise
from klamm.broker.net.replies import Reply
from klamm.broker.replicas.partition import Partition, Watch

# Gives the reply; None when there is still too little and it was not the last time.
Look = Callable[[bool], Reply | None]

# How much later it may end: this part of its time, and no more than this.
_LATER_MAX: Final = 1 / 16
_LATER_MAX_MS: Final = 50


def _patience_s(timeout_ms: int) -> float:
    """So long a fetch waits: as long as it was told and a little longer, by chance.

    Idle fetches that begin together would end in the same moment, and begin together again for
    ever, as all brokers of a process share a loop. A client that waits for one connection after the
    other then waits for each in full.
    """
    later_ms = min(timeout_ms * _LATER_MAX, _LATER_MAX_MS) * random.random()
    return (timeout_ms + later_ms) / 1000


class Parked:
    """One waiting fetch; a `Watch`."""

    __slots__ = ("_alarm", "_is_over", "_look", "_loop", "_places", "_woken", "promise")

    def __init__(self, look: Look, timeout_ms: int, peer: Peer) -> None:
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._places: list[set[Watch]] = []
        self._woken = False
        self._is_over = False
        self._alarm = peer.alarm
        self._alarm.set(_patience_s(timeout_ms), self._time_is_over)
        self.promise = Promise(self._leave)

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
            self._loop.call_soon(self._look_again)

    def finish(self) -> None:
        """Answer with what there is now; whoever says so need not be the loop."""
        outcome = self._outcome(True)
        if outcome is not None:
            self._loop.call_soon(self.promise.keep, outcome)

    def _look_again(self) -> None:
        self._woken = False
        outcome = self._outcome(False)
        if outcome is not None:
            self.promise.keep(outcome)

    def _time_is_over(self) -> None:
        outcome = self._outcome(True)
        if outcome is not None:
            self.promise.keep(outcome)

    def _outcome(self, is_last: bool) -> Reply | Exception | None:
        if self._is_over:
            return None
        outcome: Reply | Exception | None
        try:
            outcome = self._look(is_last)
        except Exception as fault:  # noqa: BLE001 - the connection hears of it
            outcome = fault
        if outcome is not None:
            self._leave()
        return outcome

    def _leave(self) -> None:
        self._is_over = True
        self._alarm.stop(self._time_is_over)
        for place in self._places:
            place.discard(self)
