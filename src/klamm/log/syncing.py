"""Bringing several logs of one directory to the disk: new ones, and all of them at a clean stop.

Where the file system can be trusted with it, one sync of everything on it is quicker than one of
each file. It also waits for whatever others have written there, so it takes many logs to pay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from klamm.log.disk.files import sync_directory
from klamm.log.disk.filesystem import Bulk, FileSystem
from klamm.log.partition import PartitionLog

_THREADS: Final = 16
_MANY: Final = 64


def sync_births(born: Sequence[PartitionLog], home: str, file_system: FileSystem) -> None:
    """Bring new logs' directories, and the files that say whose they are, to the disk."""
    for log in born:
        # Said first: a file that is made meanwhile takes it back.
        log.durability.names_synced = log.durability.home_synced = True
    if len(born) >= _MANY and file_system.can_sync:
        file_system.sync()
        return
    _each(_sync_birth, born)
    sync_directory(home)


def _sync_birth(log: PartitionLog) -> None:
    with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
        log.durability.sync_birth(log)


def _each(work: Callable[[PartitionLog], None], logs: Sequence[PartitionLog]) -> None:
    """Several at a time, for most of it is waiting."""
    if len(logs) == 1:
        work(logs[0])
        return
    with ThreadPoolExecutor(_THREADS, "klamm-sync") as threads:
        for _ in threads.map(work, logs):
            pass


def finalize_all(logs: Sequence[PartitionLog], file_system: FileSystem) -> None:
    """Leave nothing of these logs for a later start to find out."""
    if len(logs) < _MANY or not file_system.can_sync:
        _each(PartitionLog.finalize, logs)
        return
    bulk = Bulk(file_system)
    for log in logs:
        log.finalize(bulk)
    bulk.finish()
    for log in logs:
        log.recovery_point = log.log_end_offset
