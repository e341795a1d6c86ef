"""Taking records back: cutting a log at an offset, beginning anew, skipping what is not there.

What was cut leaves the log at once, and where that took away whole segments, their names leave the
disk: they would otherwise be back after a loss of power, behind what was written in their place.
Whoever works on a log in several steps compares `truncations` to see whether records may have been
replaced by others meanwhile.
"""

from __future__ import annotations

from typing import Protocol

from klamm.log.disk.files import syncing
from klamm.log.durability import Durability, DurableLog


class CuttableLog(DurableLog, Protocol):
    """A log, as far as records are taken back from it."""

    log_start_offset: int
    high_watermark: int
    cleaned_to: int
    durability: Durability

    def roll(self, base_offset: int | None = None, *, now_ms: int = 0) -> None: ...

    def start_segment(self, base_offset: int, now_ms: int = 0) -> None: ...


def truncate(log: CuttableLog, offset: int) -> int:
    """Drop everything from an offset on; where the log ends now."""
    if offset >= log.log_end_offset:
        return log.log_end_offset
    if offset < log.segments[0].base_offset:
        restart(log, offset)
        return offset
    try:
        kept = log.segments[log.segments.place_of(offset)]
        later = log.segments.after(kept)
        cut = kept.find_cut(offset)
        end = offset if cut is None else min(offset, cut.header.base_offset)
        with syncing(log.directory) as sync_names:
            log.truncations += 1
            log.segments.retire(later, 0)
            if cut is not None:
                if later and kept.aborted.reaches(end):
                    sync_names()  # the cut is synced as well, and must not leave a hole
                kept.truncate(cut)
            log.durability.is_cut = True
            log.history.cut(end)
            if later:
                sync_names()
    except OSError as error:
        raise log.health.failed(error) from error
    log.log_end_offset = end
    log.epochs.truncate_end(end)
    log.high_watermark = min(log.high_watermark, end)
    log.recovery_point = min(log.recovery_point, end)
    log.cleaned_to = min(log.cleaned_to, end)
    _begin_at(log, min(log.log_start_offset, end))
    return end


def restart(log: CuttableLog, offset: int) -> None:
    """Drop everything and go on at an offset, as an empty log."""
    try:
        old = list(log.segments)
        with syncing(log.directory) as sync_names:
            log.truncations += 1
            log.segments.retire(old, 0)
            log.history.clear()
            log.start_segment(offset)
            if old:
                sync_names()
    except OSError as error:
        raise log.health.failed(error) from error
    log.log_end_offset = log.high_watermark = offset
    log.recovery_point = log.cleaned_to = offset
    log.epochs.clear()
    _begin_at(log, offset)


def _begin_at(log: CuttableLog, offset: int) -> None:
    is_earlier = offset < log.log_start_offset
    log.log_start_offset = offset
    if is_earlier:
        # A start would otherwise hide what is written from here to where the log began before.
        log.durability.rewrite()


def skip(log: CuttableLog, offset: int) -> None:
    """Go on at a later offset, with nothing in between."""
    try:
        if log.segments.active.size:
            log.roll(offset)
        else:
            log.segments.retire([log.segments.active], 0)
            log.start_segment(offset)
    except OSError as error:
        raise log.health.failed(error) from error
    log.log_end_offset = offset
