"""Bringing several logs of one directory to the disk: new ones, and all of them at a clean stop.

From a handful on, one sync of the whole file system is quicker than one of each file, where the
file system can be trusted with that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from klamm.log.files import sync_directory
from klamm.log.filesystem import Bulk, FileSystem
from klamm.log.partition import PartitionLog

_THREADS: Final = 16
_MANY: Final = 8


def sync_births(born: Sequence[PartitionLog], home: str, file_system: FileSystem) -> None:
    """Bring new logs' directories, and the files that say whose they are, to the disk."""
    for log in born:
        # Said first: a file that is made meanwhile takes it back.
        log.durability.names_synced = log.durability.home_synced = True
    if len(born) >= _MANY and file_system.can_sync:
        file_system.sync()
        return
    for log in born:
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            log.durability.sync_birth(log)
    sync_directory(home)


def settle_all(logs: Sequence[PartitionLog], file_system: FileSystem) -> None:
    """Leave nothing of these logs for a later start to find out."""
    if len(logs) < _MANY or not file_system.can_sync:
        # Several at a time, for most of it is waiting.
        with ThreadPoolExecutor(_THREADS, "klamm-close") as threads:
            for _ in threads.map(lambda log: log.settle(), logs):
                pass
        return
    bulk = Bulk(file_system)
    for log in logs:
        log.settle(bulk)
    bulk.finish()
    for log in logs:
        log.recovery_point = log.log_end_offset
