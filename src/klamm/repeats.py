"""Log lines that say the same again and again, told a few times and then counted.

A stranger can make a broker complain as often as it likes: about bytes that make no sense, about a
port that speaks no TLS, about topics that cannot be made. The first few lines of a kind are
written; of the rest, one line a minute says how many there were. A kind is a logger, a level and a
message: what differs from one to the next is in the fields. Only warnings and errors are limited:
who asks to hear of everything hears everything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

_WINDOW_S: Final = 60.0
_FIRST: Final = 5  # so many of a kind are written in each window
_KINDS_MAX: Final = 1000


class _Kind:
    """The lines of one kind in the present window."""

    __slots__ = ("began", "seen")

    def __init__(self, began: float) -> None:
        self.began = began
        self.seen = 0


class Repeats(logging.Filter):
    """Lets the first few lines of each kind through, and counts the others."""

    def __init__(
        self,
        *,
        first: int = _FIRST,
        window_s: float = _WINDOW_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._first = first
        self._window_s = window_s
        self._clock = clock
        self._kinds: dict[tuple[int, str], _Kind] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line is written; the first of a new window tells what was left out."""
        if not logging.WARNING <= record.levelno < logging.CRITICAL:
            return True
        now = self._clock()
        with self._lock:
            kind = self._kind(record, now)
            left_out = 0
            if now - kind.began >= self._window_s:
                left_out = max(kind.seen - self._first, 0)
                kind.began, kind.seen = now, 0
            kind.seen += 1
            seen = kind.seen
        if left_out:
            record.msg = f"{record.msg} ({left_out} more like this in the last {self._span})"
        elif seen == self._first:
            record.msg = f"{record.msg} (more like this are only counted for {self._span})"
        return seen <= self._first

    def forget(self) -> None:
        """Begin anew, as if nothing had been written yet."""
        with self._lock:
            self._kinds.clear()

    def _kind(self, record: logging.LogRecord, now: float) -> _Kind:
        key = (record.levelno, str(record.msg))
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _KINDS_MAX:
                self._kinds.clear()
            kind = self._kinds[key] = _Kind(now)
        return kind

    @property
    def _span(self) -> str:
        return f"{self._window_s:g} s"


def limited(log: logging.Logger, *, first: int = _FIRST) -> logging.Logger:
    """The same logger, which no stranger can make write without end."""
    if not any(isinstance(each, Repeats) for each in log.filters):
        log.addFilter(Repeats(first=first))
    return log
