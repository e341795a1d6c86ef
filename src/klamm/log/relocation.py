"""A log on its way to another directory.

The copy, called `-future` while it grows, follows the log it is to replace as a follower follows
its leader, only that nobody is in between: batches are taken over as they are, and leader epochs
tell where both agree after records were taken back. When it has everything it takes the log's name
in the new directory, and the old one is deleted.

Nothing of this is timed or undone by a crash. A copy that is found at a start goes on where it
ended. The copy has its new name on the disk before the old directory loses its own, so that the
worst a crash can leave is both; which of them holds more is then told by their epochs and ends.
"""

from __future__ import annotations

import os

from klamm.log.disk.files import sync_directory
from klamm.log.partition import PartitionLog


def align(copy: PartitionLog, original: PartitionLog) -> None:
    """Take back what the original does not have (any more), or has never had in this shape."""
    if copy.log_end_offset < original.log_start_offset:
        copy.restart_at(original.log_start_offset)
        return
    while copy.epochs.entries:
        epoch, end = original.epochs.end_offset_for(copy.epochs.latest)
        if epoch == copy.epochs.latest and end >= copy.log_end_offset:
            return
        if epoch < 0:
            copy.restart_at(original.log_start_offset)
            return
        _, copy_end = copy.epochs.end_offset_for(epoch)
        cut = min(end, copy_end)
        copy.truncate_to(cut)
        copy.epochs.truncate_end(cut)
    if copy.log_end_offset > original.log_end_offset or copy.size_bytes:
        # Without epochs nothing can be compared.
        copy.restart_at(original.log_start_offset)


def take(copy: PartitionLog, original: PartitionLog, batches: bytes, now_ms: int) -> None:
    """Append what was read from the original at the end of the copy; no bytes mean no records."""
    if batches:
        copy.append_as_follower(memoryview(batches), now_ms=now_ms)
    else:
        copy.skip_to(original.log_end_offset)
    copy.advance_high_watermark(original.high_watermark)
    copy.advance_log_start(original.log_start_offset)


def take_place(copy: PartitionLog, original: PartitionLog, directory: str) -> None:
    """Let a complete copy be the log, under the log's own name, and that for good."""
    assert copy.log_end_offset == original.log_end_offset, f"{copy} is not {original}"
    if copy.recovery_point < original.recovery_point:
        copy.flush()  # what was promised to be on a disk stays promised
    # All that a log knows besides its records. The producers' last batches, which a snapshot has
    # not got, let a retry be recognised also after the move.
    copy.settings = original.settings
    copy.history.know(original.producers)
    copy.epochs.take_over(original.epochs.entries)
    copy.advance_high_watermark(original.high_watermark)
    copy.advance_log_start(original.log_start_offset)
    copy.relocate(directory)
    sync_directory(os.path.dirname(directory))


def holds_more(one: PartitionLog, other: PartitionLog) -> bool:
    """Whether the first of two logs of a partition is the later one, or both are alike."""
    return _extent(one) >= _extent(other)


def _extent(log: PartitionLog) -> tuple[int, int]:
    return log.epochs.latest, log.log_end_offset
