"""Telling how far a job is: records, bytes, rate and time left.

Tasks report what they have done through Spark's accumulators, which arrive when a task ends; a
thread of the driver shows them. A job that is not watched pays nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from klamm.pipelines.session.lazily import announce, is_remote, is_small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REFRESH_SECONDS = 0.2


class Progress(Protocol):
    """Whoever wants to know."""

    def begin(self, what: str, total: int) -> None:
        """A step with so many records to do starts."""

    def reached(self, records: int, size: int) -> None:
        """So many records and bytes of the step are done."""

    def end(self) -> None:
        """The step is over."""


class Silent:
    """Nobody wants to know."""

    def begin(self, what: str, total: int) -> None:
        """Nothing."""

    def reached(self, records: int, size: int) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The counter that tasks add to."""

    records: Any
    bytes: Any

    def add(self, records: int, size: int) -> None:
        """One task is done."""
        self.records.add(records)
        self.bytes.add(size)


def _unheard(_records: int, _size: int) -> None:
    """Reports progress to nobody."""


@contextlib.contextmanager
def _unwatched(progress: Progress, what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Spark Connect has no accumulators: what was reached is known at the end."""
    progress.begin(what, total)
    try:
        yield _unheard
        progress.reached(total, 0)
    finally:
        progress.end()


@contextlib.contextmanager
def _shown_here(progress: Progress, what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Work of this very process."""
    reached = [0, 0]

    def report(records: int, size: int) -> None:
        reached[0] += records
        reached[1] += size
        progress.reached(*reached)

    progress.begin(what, total)
    try:
        yield report
        progress.reached(total, reached[1])
    finally:
        progress.end()


@contextlib.contextmanager
def watched(
    spark: SparkSession, progress: Progress, what: str, total: int
) -> Iterator[Callable[[int, int], None]]:
    """A function for tasks to report with, shown while the block runs."""
    announce(spark, total)
    if is_small(spark):
        with _shown_here(progress, what, total) as report:
            yield report
        return
    if is_remote(spark):
        with _unwatched(progress, what, total) as report:
            yield report
        return
    context = spark.sparkContext
    tally = Tally(context.accumulator(0), context.accumulator(0))
    stop = threading.Event()

    def show() -> None:
        while not stop.wait(_REFRESH_SECONDS):
            progress.reached(tally.records.value, tally.bytes.value)

    progress.begin(what, total)
    thread = threading.Thread(target=show, name="klamm-progress", daemon=True)
    thread.start()
    try:
        yield tally.add
        progress.reached(total, tally.bytes.value)
    finally:
        stop.set()
        thread.join()
        progress.end()
