"""Plans which records go where, and in which order they are written: plain arithmetic.

The same plan is made on every attempt, so that the record with number k of a target is the same on
every attempt as well. That is what makes a copy that was broken off go on where the target ends.

A target is fed by windows of sources, one after the other. Within one source they come in the order
of their offsets, which keeps the order of every key; over several sources they come about in the
order of time, so that time indexes and retention make sense of the copy.

Where one count divides the other nothing has to be sorted to its target: growing by a factor, each
source feeds targets of its own; shrinking by one, each target is fed by whole sources.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

WINDOW_OFFSETS: Final = 1 << 16
_WINDOW_OFFSETS_MIN: Final = 1 << 9
_WINDOW_BYTES: Final = 16 << 20  # of one window, about
_RUN: Final = 1024  # records without a key stay together for so many offsets
GRID_MAX: Final = 500


class Way(StrEnum):
    """The ways of records to their targets."""

    GROW = "grow"  # by a factor: each source has targets of its own
    SHRINK = "shrink"  # by a factor: each target has sources of its own
    SHUFFLE = "shuffle"  # each source may feed each target


@dataclass(frozen=True, slots=True)
class Reshaping:
    """The counts of partitions before and after, and the way from one to the other."""

    sources: int
    targets: int
    way: Way

    def target_of(self, source: int, hashes: Any, offsets: Any, has_key: Any) -> Any:
        """The target of every record; raises `StrangeKey` where a key is not where it should be."""
        turns = offsets // _RUN
        if self.way is Way.GROW:
            keyless = source + self.sources * (turns % (self.targets // self.sources))
        elif self.way is Way.SHRINK:
            keyless = np.full(len(offsets), source % self.targets, np.int64)
        else:
            keyless = (source * 31 + turns) % self.targets
        found = np.where(has_key, hashes % self.targets, keyless)
        if self.way is not Way.SHUFFLE:
            factor = min(self.sources, self.targets)
            if (found % factor != source % factor).any():
                raise StrangeKey(f"partition {source} has keys that belong to others")
        return found

    def tasks(self, sources: Sequence[int]) -> list[tuple[int, ...]]:
        """The sources that are read by each task, where nothing is sorted to its target."""
        if self.way is Way.GROW:
            return [(source,) for source in sources]
        return [
            tuple(s for s in sources if s % self.targets == target)
            for target in range(self.targets)
        ]


class StrangeKey(Exception):
    """A key is in a partition that its hash does not lead to."""


def way_of(sources: int, targets: int, *, is_orderly: bool) -> Way:
    """The way from one count to another; orderly keys are in the partitions of their hashes."""
    if is_orderly and targets % sources == 0:
        return Way.GROW
    if is_orderly and sources % targets == 0:
        return Way.SHRINK
    return Way.SHUFFLE


class Stretch(NamedTuple):
    """One window of a source, and when it is its turn."""

    time: int
    source: int
    first: int
    stop: int


def fitting_window(bytes_per_offset: float) -> int:
    """The number of offsets of a window, a power of two, so that it fits well into memory."""
    size = WINDOW_OFFSETS
    while size > _WINDOW_OFFSETS_MIN and size * bytes_per_offset > _WINDOW_BYTES:
        size //= 2
    return size


def stretches(
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    size: int,
    borders: Mapping[int, Sequence[int]],
) -> list[Stretch]:
    """The windows of a run in the order in which they are written.

    Windows are cut at multiples of their size. `borders` are, for each source, the first offsets
    with at least certain times; they cannot go down, and so neither can a window's time.
    """
    found = []
    for source, start in starts.items():
        edges = [start, *range((start // size + 1) * size, ends[source], size), ends[source]]
        for first, stop in pairwise(edges):
            if stop > first:
                time = bisect_right(borders.get(source, ()), first)
                found.append(Stretch(time, source, first, stop))
    return sorted(found)


def grid(oldest: int, newest: int, windows: int) -> list[int]:
    """Times at which the sources are asked for their offsets; more for more windows."""
    count = min(GRID_MAX, 2 * windows)
    if windows < 2 or newest <= oldest:
        return []
    return [oldest + (newest - oldest) * n // count for n in range(1, count + 1)]


def monotonic(offsets: Sequence[int], end: int) -> list[int]:
    """Offsets of ascending times, -1 meaning behind the last record, as borders."""
    found: list[int] = []
    for offset in offsets:
        found.append(max(found[-1] if found else 0, end if offset < 0 else offset))
    return found
