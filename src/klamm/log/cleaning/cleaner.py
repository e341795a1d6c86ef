"""Cleaning a compacted log.

Done in three steps, so that the loop never waits for it. `plan` looks at the log in the loop's
thread and says what to clean; `build` reads the old segments and writes new ones beside them, in a
worker thread; `install`, in the loop's thread again, puts the new ones in the place of the old.
When the log has changed in between (cut, restarted, its oldest segments gone), what was built
is thrown away: the next cleaning will do better.

A crash at any point leaves either the old segments or the new ones. New files are called
`.cleaned` while they are written, `.swap` once all of them are complete and on the disk; from then
on a start finishes the exchange instead of undoing it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.log.cleaning.compaction import AbortedRanges, LastOffsets, Raw, Sieve, raw_records
from klamm.log.disk import names
from klamm.log.disk.failure import is_shortage
from klamm.log.disk.files import FilePool, remove_files, sync_directory, syncing
from klamm.log.partition import PartitionLog
from klamm.log.reading import find_aborted
from klamm.log.segments.batches import whole_batches
from klamm.log.segments.segment import Segment
from klamm.log.segments.transactions import Aborted
from klamm.log.settings import LogSettings
from klamm.log.writing.records import Rest, area_of, rest
from klamm.protocol.batch import BatchHeader, parse_header

Pace = Callable[[int], None]

_UNCLEANED_MAX: Final = 10  # batches that are named
KEYS_MAX: Final = 1_000_000  # of one cleaning; what does not fit waits for the next


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    """The plan of one cleaning, with all it has to know of the log."""

    log: PartitionLog
    segments: tuple[Segment, ...]  # all that are rewritten
    first_dirty: int  # below, every key is there once
    end: int  # from here on nothing may be cleaned yet
    dirty_ratio: float
    overdue: bool  # max.compaction.lag.ms has passed
    aborted: tuple[Aborted, ...]
    last_of_producer: dict[int, tuple[int, int]]
    truncations: int  # of the log, when this was planned
    now_ms: int

    @property
    def is_worthwhile(self) -> bool:
        """Whether the topic's settings ask for a cleaning."""
        return self.overdue or self.dirty_ratio >= self.log.settings.min_cleanable_dirty_ratio


@dataclass(frozen=True, slots=True)
class Cleaned:
    """New segments, complete and on the disk, each with those it is to replace."""

    replacements: tuple[tuple[tuple[Segment, ...], Segment], ...]
    end: int  # every key below it is there once
    uncleaned: tuple[int, ...] = ()  # first offsets of batches that could not be looked through


def plan(log: PartitionLog, now_ms: int) -> CleaningPlan | None:
    """The cleaning that a log needs; None if it needs none."""
    settings = log.settings
    if not settings.compact or settings.importing or len(log.segments) == 1:
        return None
    end = _cleanable_end(log, now_ms)
    first_dirty = log.cleaned_to
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    segments = tuple(s for s in log.segments.closed if s.base_offset < end)
    dirty = segments[log.segments.place_of(first_dirty) :]
    if not dirty or first_dirty >= end:
        return None
    total = sum(segment.size for segment in segments)
    age = now_ms - dirty[0].first_timestamp if dirty[0].first_timestamp >= 0 else 0
    return CleaningPlan(
        log=log,
        segments=segments,
        first_dirty=first_dirty,
        end=end,
        dirty_ratio=sum(segment.size for segment in dirty) / total if total else 0.0,
        overdue=age > settings.max_compaction_lag_ms,
        aborted=tuple(find_aborted(log.segments, segments[0].base_offset, end)),
        last_of_producer=log.producers.last_offsets(),
        truncations=log.truncations,
        now_ms=now_ms,
    )


def most_needed(logs: Iterable[PartitionLog], now_ms: int) -> CleaningPlan | None:
    """The plan for the log that needs compaction most; None if no log needs any."""
    plans = [found for log in logs if (found := plan(log, now_ms)) is not None]
    due = [each for each in plans if each.is_worthwhile]
    return max(due, key=lambda each: (each.overdue, each.dirty_ratio), default=None)


def _cleanable_end(log: PartitionLog, now_ms: int) -> int:
    end = min(log.segments.active.base_offset, log.last_stable_offset)
    lag = log.settings.min_compaction_lag_ms
    if lag > 0:
        for segment in log.segments.closed:
            if segment.largest.timestamp > now_ms - lag:
                return min(end, segment.base_offset)
    return end


class _Stopped(Exception):
    """Nobody wants the log cleaned any more."""


def build(
    what: CleaningPlan,
    keys_max: int = KEYS_MAX,
    pace: Pace = lambda _: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Cleaned | None:
    """Write the new segments. For a worker thread; None when the log changed, or it is to stop.

    `pace` is told of all that is read and written, and takes the time that it should take.
    """
    log = what.log

    def pause() -> None:
        rest()
        if is_stopping():
            raise _Stopped

    try:
        return _build(what, keys_max, pace, pause)
    except (FileNotFoundError, _Stopped):
        discard(log)
        return None
    except OSError as error:
        if is_shortage(error):
            discard(log)
        raise log.health.failed(error) from error


def _build(what: CleaningPlan, keys_max: int, pace: Pace, pause: Rest) -> Cleaned:
    aborted = AbortedRanges(what.aborted)
    uncleaned: list[int] = []
    last_offsets = _survey(what, aborted, keys_max, pace, pause, uncleaned)
    sieve = Sieve(
        last_offsets,
        aborted,
        what.last_of_producer,
        what.now_ms,
        what.log.settings.delete_retention_ms,
        what.log.settings.expanded_size_max,
        pause,
    )
    # Nothing but these files is written here, and nobody else opens them: a pool of their own.
    pool = FilePool(limit=8)
    replacements = []
    for group in _groups(what, last_offsets.end):
        fresh = _sift_group(group, sieve, what, pool, pace)
        replacements.append((group, fresh))
    sync_directory(what.segments[0].directory)
    pool.clear()
    return Cleaned(tuple(replacements), last_offsets.end, tuple(uncleaned))


def _survey(
    what: CleaningPlan,
    aborted: AbortedRanges,
    keys_max: int,
    pace: Pace,
    pause: Rest,
    uncleaned: list[int],
) -> LastOffsets:
    """First pass: where the last record of each key is, in the part that was never cleaned."""
    last_offsets = LastOffsets(what.first_dirty, keys_max)
    for segment, after in _with_ends(what.segments, what.end):
        if after <= what.first_dirty:
            continue
        for header, batch in _batches(segment, pace):
            if header.base_offset >= what.end or last_offsets.is_full:
                return last_offsets
            if header.last_offset < what.first_dirty:
                continue
            skipped = header.is_control or aborted.holds(header)
            records = () if skipped else _records(header, batch, what.log.settings, pause)
            if not last_offsets.add(header, records) and len(uncleaned) < _UNCLEANED_MAX:
                uncleaned.append(header.base_offset)
    return last_offsets


def _records(
    header: BatchHeader, batch: memoryview, settings: LogSettings, pause: Rest
) -> Iterator[Raw]:
    yield from raw_records(area_of(batch, header, settings.expanded_size_max), header, pause)


def _with_ends(segments: Sequence[Segment], end: int) -> Iterator[tuple[Segment, int]]:
    """Each segment with the offset that it ends before."""
    yield from zip(segments, [*(s.base_offset for s in segments[1:]), end], strict=True)


def _groups(what: CleaningPlan, end: int) -> Iterator[tuple[Segment, ...]]:
    """Neighbours that fit into one segment together, as far as the survey went."""
    group: list[Segment] = []
    size = 0
    for segment, after in _with_ends(what.segments, what.end):
        if segment.base_offset >= end:
            break
        fits = size + segment.size <= what.log.settings.segment_bytes
        if group and not (fits and group[0].can_hold(after)):
            yield tuple(group)
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield tuple(group)


def _sift_group(
    group: tuple[Segment, ...], sieve: Sieve, what: CleaningPlan, pool: FilePool, pace: Pace
) -> Segment:
    """Second pass: write what is left of some segments into one new one."""
    first = group[0]
    fresh = Segment(first.directory, first.base_offset, pool, suffix=names.CLEANED)
    remove_files(fresh.files)
    fresh.start(on_disk=True)
    interval = what.log.settings.index_interval_bytes
    aborts = {entry.last_offset: entry for entry in what.aborted}
    for segment in group:
        for header, batch in _batches(segment, pace):
            left = sieve.sift(header, batch)
            if left is None:
                continue
            pace(len(left))
            kept = header if left is batch else parse_header(left)
            fresh.append(left, header.base_offset, header.last_offset, kept.max_timestamp, interval)
            if header.is_control and header.base_offset in aborts:
                fresh.aborted.append(aborts[header.base_offset])
    fresh.seal()
    fresh.sync()
    modified = os.stat(group[-1].path).st_mtime
    os.utime(fresh.path, (modified, modified))
    return fresh


def _batches(segment: Segment, pace: Pace) -> Iterator[tuple[BatchHeader, memoryview]]:
    handle = segment.handle()
    for _, header, batch in whole_batches(handle.fileno(), 0, segment.size):
        pace(len(batch))
        yield header, batch


def install(what: CleaningPlan, cleaned: Cleaned) -> bool:
    """Put the new segments in place; False when the log has changed since it was planned."""
    log = what.log
    live = set(map(id, log.segments))
    same = log.is_open and log.truncations == what.truncations
    if not same or any(id(segment) not in live for segment in what.segments):
        discard(log)
        return False
    try:
        _exchange(log, cleaned, what.now_ms)
    except OSError as error:
        raise log.health.failed(error) from error
    log.cleaned_to = cleaned.end
    return True


def _exchange(log: PartitionLog, cleaned: Cleaned, now_ms: int) -> None:
    with syncing(log.directory) as sync_names:
        for _, fresh in cleaned.replacements:
            for path in fresh.files:
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path, path.removesuffix(names.CLEANED) + names.SWAP)
        # From here on the decision stands: a start finds the new files complete.
        sync_names()
        due_ms = now_ms + log.settings.file_delete_delay_ms
        for group, fresh in cleaned.replacements:
            log.segments.exchange(group, fresh, due_ms)
        sync_names()


def discard(log: PartitionLog) -> None:
    """Remove what was built and cannot be used; the directory may be gone as well."""
    # Whatever stays is written anew by the next cleaning, and removed by the next start.
    with contextlib.suppress(OSError):
        left = [name for name in os.listdir(log.directory) if name.endswith(names.CLEANED)]
        remove_files(os.path.join(log.directory, name) for name in left)


def clean(log: PartitionLog, now_ms: int) -> bool:
    """All three steps at once, whether it is worthwhile or not; for tests and tools."""
    what = plan(log, now_ms)
    if what is None:
        return False
    cleaned = build(what)
    return cleaned is not None and install(what, cleaned)
