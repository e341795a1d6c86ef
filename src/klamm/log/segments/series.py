"""The segments of one log, oldest first, and those on their way out.

A segment that leaves the log is renamed at once and unlinked later: a reader that found it a
moment ago may still be sending from it, and an operator has a moment to regret.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from klamm.log.disk import names
from klamm.log.disk.files import FilePool, remove_files
from klamm.log.segments.segment import Segment


class _Doomed(NamedTuple):
    due_ms: int
    paths: list[str]


class SegmentList:
    """The live segments in order of their base offsets; the last one takes appends."""

    __slots__ = ("_bases", "_doomed", "_pool", "_segments")

    def __init__(self, pool: FilePool, segments: Sequence[Segment] = ()) -> None:
        self._pool = pool
        self._segments = list(segments)
        self._bases = [segment.base_offset for segment in segments]
        self._doomed: list[_Doomed] = []

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, place: int) -> Segment:
        return self._segments[place]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def closed(self) -> list[Segment]:
        return self._segments[:-1]

    @property
    def bases(self) -> list[int]:
        return self._bases

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def extent(self) -> tuple[tuple[int, int], ...]:
        """The base offsets and sizes of those that have records."""
        return tuple((s.base_offset, s.size) for s in self._segments if s.size)

    def add(self, segment: Segment) -> None:
        """Put a new active segment at the end."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segments that may hold this offset or later ones."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def after(self, segment: Segment) -> list[Segment]:
        """The segments behind one of them."""
        return self._segments[bisect_right(self._bases, segment.base_offset) :]

    def place_of(self, offset: int) -> int:
        """The place of the segment whose range holds this offset."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def end_of(self, place: int, log_end: int) -> int:
        """The offset after a segment's range: the next base, or the log's end."""
        return self._bases[place + 1] if place + 1 < len(self._bases) else log_end

    def retire(self, segments: Sequence[Segment], due_ms: int) -> None:
        """Take segments out of the log; their files are unlinked when they are due."""
        paths: list[str] = []
        for segment in segments:
            self.drop(segment)
            paths += rename_away(segment, self._pool)
        if paths:
            self._doomed.append(_Doomed(due_ms, paths))

    def drop(self, segment: Segment) -> None:
        """Take a segment out of the log and leave its files alone."""
        place = bisect_left(self._bases, segment.base_offset)
        assert self._segments[place] is segment, f"{segment} is not in this log"
        del self._segments[place]
        del self._bases[place]
        self._pool.forget(*segment.files)

    def exchange(self, old: Sequence[Segment], swap: Segment, due_ms: int) -> None:
        """Let a cleaned segment, whose files are called `.swap` by now, stand for some others."""
        place = bisect_left(self._bases, old[0].base_offset)
        self.retire(old, due_ms)
        for path in swap.files:
            final = path.removesuffix(names.CLEANED)
            with contextlib.suppress(FileNotFoundError):
                os.rename(final + names.SWAP, final)
        fresh = Segment(swap.directory, swap.base_offset, self._pool, size=swap.size)
        self._segments.insert(place, fresh)
        self._bases.insert(place, fresh.base_offset)

    def purge(self, now_ms: int) -> int:
        """Unlink what is due; how many files it was. May run in a worker thread."""
        due = [doomed for doomed in list(self._doomed) if doomed.due_ms <= now_ms]
        for doomed in due:
            remove_files(doomed.paths)
            self._doomed.remove(doomed)
        return sum(len(doomed.paths) for doomed in due)

    @property
    def next_purge_ms(self) -> int | None:
        return min((doomed.due_ms for doomed in self._doomed), default=None)


def rename_away(segment: Segment, pool: FilePool) -> list[str]:
    """Rename a segment's files so that no later start takes them for live ones."""
    renamed: list[str] = []
    for path in segment.files:
        pool.forget(path)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, path + names.DELETED)
            renamed.append(path + names.DELETED)
    return renamed
