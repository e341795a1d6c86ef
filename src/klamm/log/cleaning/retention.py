"""Decides which segments a log no longer has to keep.

Always from the oldest on, never past the high watermark: what is not committed everywhere is not
ours to forget. The active segment may go too; whoever acts on this rolls it first, so that a log
always has a segment and knows where it ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from klamm.log.epochs import EpochCache
from klamm.log.producers.history import ProducerHistory
from klamm.log.segments.segment import Segment
from klamm.log.segments.series import SegmentList
from klamm.log.settings import LogSettings


def expendable(
    segments: SegmentList,
    settings: LogSettings,
    *,
    now_ms: int,
    log_start: int,
    log_end: int,
    high_watermark: int,
) -> list[Segment]:
    """The oldest segments that time, size or a deletion of records has released."""
    if settings.importing:
        return []  # what is as old as the log it comes from stays at least until it is there
    rules: list[Callable[[Segment, int], bool]] = [lambda _, end: end <= log_start]
    if settings.delete and settings.retention_ms >= 0:
        rules.append(lambda segment, _: now_ms - newest_ms(segment) > settings.retention_ms)
    found: list[Segment] = []
    excess = segments.size_bytes - settings.retention_bytes
    sized = settings.delete and settings.retention_bytes >= 0
    for place, segment in enumerate(segments):
        end = segments.end_of(place, log_end)
        if end > high_watermark or (end == log_end and not segment.size):
            break
        excess -= segment.size
        if not (any(rule(segment, end) for rule in rules) or (sized and excess >= 0)):
            break
        found.append(segment)
    return found


def newest_ms(segment: Segment) -> int:
    """The time of a segment's newest record; of its file where records have no time."""
    newest = segment.largest.timestamp
    return newest if newest >= 0 else int(os.stat(segment.path).st_mtime * 1000)


class RetainedLog(Protocol):
    """A log, as far as it lets go of segments."""

    segments: SegmentList
    settings: LogSettings
    history: ProducerHistory
    epochs: EpochCache
    log_start_offset: int
    log_end_offset: int
    high_watermark: int

    def roll(self, base_offset: int | None = None, *, now_ms: int = 0) -> None: ...


def let_go(log: RetainedLog, now_ms: int) -> int:
    """Take segments out of a log that are too old, too much or below its start; how many."""
    found = expendable(
        log.segments,
        log.settings,
        now_ms=now_ms,
        log_start=log.log_start_offset,
        log_end=log.log_end_offset,
        high_watermark=log.high_watermark,
    )
    if found and found[-1] is log.segments.active:
        log.roll(now_ms=now_ms)
    log.segments.retire(found, now_ms + log.settings.file_delete_delay_ms)
    if found:
        log.history.snapshots.prune(log.segments.bases)
    first = log.segments[0].base_offset
    if first > log.log_start_offset:
        log.log_start_offset = first
        log.epochs.truncate_start(first)
    return len(found)
