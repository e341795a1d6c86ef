"""Tracks which part of a log is on the disk, and not only in the cache.

The recovery point moves up only when all files below it are synced: records, the indexes of closed
segments, aborted transactions, epochs, and the names of new files. Names cost an fsync of their
directory, so it is remembered whether there are new ones.

A log that is cut below its recovery point goes on with a lower one, but the checkpoint of the
directory keeps the old one until it is written again. Recovery reads from the segment on that has
the recovery point, so until then no segment is closed unsynced: it would be taken on trust.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import Final, Protocol

from klamm.log.disk import names
from klamm.log.disk.checkpoints import write_epochs
from klamm.log.disk.failure import Health
from klamm.log.disk.files import replace_file, sync_directory, sync_file
from klamm.log.disk.filesystem import Bulk, Replace
from klamm.log.epochs import EpochCache
from klamm.log.producers.history import ProducerHistory
from klamm.log.segments.series import SegmentList
from klamm.log.settings import LogSettings


class DurableLog(Protocol):
    """A log, as far as it is brought to the disk."""

    directory: str
    topic_id: uuid.UUID | None
    settings: LogSettings
    segments: SegmentList
    epochs: EpochCache
    history: ProducerHistory
    health: Health
    log_end_offset: int
    recovery_point: int
    truncations: int
    is_open: bool

    @property
    def metadata_path(self) -> str: ...


# A log of up to this size is looked through at a start, where it has no files but its records.
BARE_MAX: Final = 4096


def _is_bare(log: DurableLog) -> bool:
    """Whether its few records tell all, and nothing was written down beside them yet."""
    active = log.segments.active
    if len(log.segments) != 1 or not 0 < active.size <= BARE_MAX or log.history.has_any:
        return False
    told = [start for _, start in log.epochs.entries]
    if told != [active.base_offset]:
        return False  # an epoch that began without records cannot be read from them
    beside = {*active.files, os.path.join(log.directory, names.EPOCHS)} - {active.path}
    return not any(map(os.path.exists, beside))


class Durability:
    """The part of one log that is safe from a loss of power."""

    __slots__ = ("_last_flush_ms", "home_synced", "is_cut", "names_synced", "promised", "rewrite")

    def __init__(self) -> None:
        self.names_synced = True  # whether the names of all its files are on the disk
        self.home_synced = True  # whether the directory's own name is
        self.is_cut = False  # whether records were taken back, and the disk may still have them
        self.promised = 0  # the recovery point that the checkpoint on the disk has
        # Writes the checkpoints of the directory, where one of them must not stay as it is.
        self.rewrite: Callable[[], None] = lambda: None
        self._last_flush_ms = 0

    def begin(self, flushed_ms: int) -> None:
        """The log has a directory, which no disk knows of yet; before it had nothing to flush."""
        self.names_synced = self.home_synced = False
        self._last_flush_ms = flushed_ms

    def is_due(self, log: DurableLog, now_ms: int) -> bool:
        """Whether a segment was closed, or `flush.ms` has passed, since the last flush."""
        if log.log_end_offset <= log.recovery_point:
            self._last_flush_ms = now_ms
            return False
        waited = now_ms - self._last_flush_ms
        return log.recovery_point < log.segments.active.base_offset or (
            waited >= log.settings.flush_ms
        )

    def flush(self, log: DurableLog, now_ms: int) -> None:
        """Bring everything appended so far to the disk."""
        log.health.check()
        if log.log_end_offset > log.recovery_point:
            self._bring(log, now_ms)

    def closed(self, log: DurableLog) -> None:
        """The active segment takes no more: sync it where no later flush or start looks at it."""
        if log.log_end_offset <= log.recovery_point:
            log.segments.active.sync()  # its records are on the disk, its indexes not yet
        elif self.promised > log.recovery_point:
            self.flush(log, 0)

    def _bring(self, log: DurableLog, now_ms: int) -> None:
        end, truncations = log.log_end_offset, log.truncations
        try:
            for segment in log.segments.from_offset(log.recovery_point):
                segment.sync()
            self._save_epochs(log)
            self._sync_names(log)
        except OSError as error:
            if not log.is_open:
                return  # deleted while we were at it
            raise log.health.failed(error) from error
        # Records that were taken back meanwhile may have been replaced by others since.
        if log.truncations == truncations:
            log.recovery_point = end
            self.is_cut = False
        self._last_flush_ms = now_ms or self._last_flush_ms

    def finalize(self, log: DurableLog, bulk: Bulk | None) -> None:
        """Leave nothing for a later start to find out, now or when the bulk is finished.

        Of many logs those with a few records are left bare: making three small files for each takes
        far longer than a look at its records when it is opened.
        """
        active = log.segments.active
        is_changed = active.trim()
        if bulk is not None and _is_bare(log):
            return
        if active.is_ahead_of_its_indexes:
            active.seal()
            is_changed = True
        replace = replace_file if bulk is None else bulk.replace
        if log.history.finalize(log.log_end_offset, log.segments.bases, replace):
            is_changed = True
        if bulk is not None:
            self._save_epochs(log, bulk.replace)
        elif is_changed or not self.is_whole(log):
            # Also where all records are on the disk already: a start is going to take on trust what
            # has been written just now, and the names of what was written since.
            self.names_synced = False
            self._bring(log, 0)

    def is_whole(self, log: DurableLog) -> bool:
        """Whether a loss of power would leave the log as it is."""
        is_told = self.names_synced and not self.is_cut and not log.epochs.is_dirty
        return is_told and log.log_end_offset <= log.recovery_point

    def sync_birth(self, log: DurableLog) -> None:
        """Bring the log's directory and what says whose it is to the disk; not its own name."""
        self.names_synced = True
        try:
            if log.topic_id is not None:
                sync_file(log.metadata_path)
            sync_directory(log.directory)
        except OSError:
            self.names_synced = False
            raise

    def _save_epochs(self, log: DurableLog, replace: Replace = replace_file) -> None:
        if log.epochs.is_dirty:
            log.epochs.is_dirty = self.names_synced = False
            path = os.path.join(log.directory, names.EPOCHS)
            try:
                write_epochs(path, log.epochs.entries, replace)
            except OSError:
                log.epochs.is_dirty = True
                raise

    def _sync_names(self, log: DurableLog) -> None:
        if self.names_synced:
            return
        # Said first: a file that is made meanwhile takes it back.
        home_synced, self.names_synced, self.home_synced = self.home_synced, True, True
        try:
            sync_directory(log.directory)
            if not home_synced:
                sync_directory(os.path.dirname(log.directory))
        except OSError:
            self.names_synced, self.home_synced = False, home_synced
            raise
