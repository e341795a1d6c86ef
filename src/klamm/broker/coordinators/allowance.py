"""Bounds the memory of what clients leave with the coordinators of a broker.

Members, committed offsets and transactional ids stay when the request that brought them is long
answered, members for as long as the session that they asked for. What comes is added up, what goes
is not: when the sum reaches the bound, everything is counted anew, now and then. What is there
already is served on; what would need more is asked to come again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from klamm.broker.clock import Clock
from klamm.repeats import limited

log = limited(logging.getLogger(__name__))

_COUNT_EVERY_MS: Final = 10_000  # counting takes some milliseconds in the worst case


class Allowance:
    """So much memory as clients may make the coordinators of a broker keep."""

    def __init__(self, most: int, clock: Clock, count: Callable[[], int]) -> None:
        self._most = most
        self._clock = clock
        self._count = count
        self._taken = 0
        self._counted_ms: int | None = None

    def take(self, more: int) -> bool:
        """Whether there is room for so many bytes more; they count as taken then."""
        if more <= 0:
            return True
        if self._taken + more > self._most:
            self._count_again()
        if self._taken + more > self._most:
            log.warning(
                "groups and transactions take all the memory that they may: what is new is refused;"
                " klamm.coordinator.memory.max.bytes is the bound",
                extra={"bytes": self._taken},
            )
            return False
        self._taken += more
        return True

    def _count_again(self) -> None:
        now_ms = self._clock.now_ms()
        if self._counted_ms is None or now_ms - self._counted_ms >= _COUNT_EVERY_MS:
            self._counted_ms = now_ms
            self._taken = self._count()
