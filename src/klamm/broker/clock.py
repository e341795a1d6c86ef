"""Time as the broker sees it, so that somebody else can own it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The source of time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as records and files carry them."""
        ...

    def elapsed_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
