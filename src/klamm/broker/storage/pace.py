"""Limits how fast a worker thread goes through the disk.

The limit is looked at again and again while somebody waits, so a change of it counts at once; and
nobody waits any longer when the broker stops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

_NAP_S_MIN: Final = 0.05  # shorter naps are saved up: they would cost more than they wait
_NAP_S_MAX: Final = 0.5


class Pace:
    """Lets so many bytes a second pass. One thread at a time."""

    def __init__(self, rate: Callable[[], float], stopping: threading.Event) -> None:
        self._rate = rate
        self._stopping = stopping
        self._owed = 0.0  # bytes that passed without a wait

    def __call__(self, size: int) -> None:
        """So many bytes were read or written."""
        self._owed += size
        while (nap_s := self._owed / self._rate()) >= _NAP_S_MIN:
            nap_s = min(nap_s, _NAP_S_MAX)
            if self._stopping.wait(nap_s):
                return
            self._owed -= nap_s * self._rate()
