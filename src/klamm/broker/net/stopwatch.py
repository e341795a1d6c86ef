"""Measures how long a request used the loop, without the time it waited.

Kafka counts the time of the thread that serves a request. Here all requests share one loop, so
what counts is the time between the loop's giving a request a turn and its giving the turn back.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Stopwatch:
    """Adds up turns."""

    __slots__ = ("_since", "_spent_s", "began")

    def __init__(self) -> None:
        self.began = self._since = time.perf_counter()
        self._spent_s = 0.0

    def start(self) -> None:
        self._since = time.perf_counter()

    def stop(self) -> None:
        self._spent_s += time.perf_counter() - self._since
        self._since = 0.0

    @property
    def busy_s(self) -> float:
        """The turns so far, the one under way included."""
        return self._spent_s + (time.perf_counter() - self._since if self._since else 0.0)

    @property
    def total_s(self) -> float:
        """Since the request came."""
        return time.perf_counter() - self.began


class Timed(Generic[T]):
    """A coroutine to await whose turns are counted."""

    def __init__(self, work: Coroutine[Any, Any, T], watch: Stopwatch) -> None:
        self._work = work
        self._watch = watch

    def __await__(self) -> Generator[Any, Any, T]:
        fault: BaseException | None = None
        while True:
            self._watch.start()
            try:
                waited_for = self._work.send(None) if fault is None else self._work.throw(fault)
            except StopIteration as end:
                value: T = end.value
                return value
            finally:
                self._watch.stop()
            fault = None
            try:
                yield waited_for
            except BaseException as thrown:  # noqa: BLE001  (a cancellation is the work's to take)
                fault = thrown
