"""Wakes groups when they want to hear of the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from klamm.broker.clock import Clock


class Alarms:
    """At most one alarm a group.

    An alarm that is set too early is left: it finds nothing to do and is set again. So the many
    heartbeats that only push a deadline back cost nothing here.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def arm(self, group: str, deadline_ms: int | None, ring: Callable[[], None]) -> None:
        """Make sure that `ring` is called at the deadline or before."""
        if deadline_ms is None:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(0, deadline_ms - self._clock.now_ms()) / 1000
        armed = self._timers.get(group)
        if armed is not None and not armed.cancelled() and armed.when() <= due:
            return
        if armed is not None:
            armed.cancel()
        self._timers[group] = loop.call_at(due, self._rings, group, ring)

    def _rings(self, group: str, ring: Callable[[], None]) -> None:
        self._timers.pop(group, None)
        ring()

    def cancel(self, group: str) -> None:
        timer = self._timers.pop(group, None)
        if timer is not None:
            timer.cancel()

    def cancel_all(self) -> None:
        for group in list(self._timers):
            self.cancel(group)
