"""What of a log is on the disk, and not only in its cache.

The recovery point moves up only when all files below it are synced: records, aborted transactions,
epochs, and the names of new files. Names cost an fsync of their directory, so it is remembered
whether there are new ones.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from klamm.log import names
from klamm.log.checkpoints import write_epochs
from klamm.log.files import sync_directory

if TYPE_CHECKING:
    from klamm.log.partition import PartitionLog


class Durability:
    """How much of one log is safe from a loss of power."""

    __slots__ = ("_last_flush_ms", "home_synced", "names_synced")

    def __init__(self) -> None:
        self.names_synced = True  # whether the names of all its files are on the disk
        self.home_synced = True  # whether the directory's own name is
        self._last_flush_ms = 0

    def is_due(self, log: PartitionLog, now_ms: int) -> bool:
        """Whether a segment was closed, or `flush.ms` has passed, since the last flush."""
        if log.log_end_offset <= log.recovery_point:
            self._last_flush_ms = now_ms
            return False
        waited = now_ms - self._last_flush_ms
        return log.recovery_point < log.segments.active.base_offset or (
            waited >= log.settings.flush_ms
        )

    def flush(self, log: PartitionLog, now_ms: int) -> None:
        """Bring everything appended so far to the disk."""
        log.health.check()
        end, truncations = log.log_end_offset, log.truncations
        if end <= log.recovery_point:
            return
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
        self._last_flush_ms = now_ms or self._last_flush_ms

    def _save_epochs(self, log: PartitionLog) -> None:
        if log.epochs.is_dirty:
            log.epochs.is_dirty = self.names_synced = False
            write_epochs(os.path.join(log.directory, names.EPOCHS), log.epochs.entries)

    def _sync_names(self, log: PartitionLog) -> None:
        if self.names_synced:
            return
        self.names_synced = True
        sync_directory(log.directory)
        if not self.home_synced:
            self.home_synced = True
            sync_directory(os.path.dirname(log.directory))
