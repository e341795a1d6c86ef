"""Makes a log with files, in a place where there may be one already."""

from __future__ import annotations

import os

from klamm.log.disk.failure import Health, LogRefused
from klamm.log.disk.files import FilePool
from klamm.log.paper import NewLog
from klamm.log.partition import PartitionLog
from klamm.log.recovery.loading import Known, load_log


def create_or_load(path: str, new: NewLog, pool: FilePool, health: Health) -> PartitionLog:
    """A new log, or the one that somebody has put there since we started: for what it is."""
    partition, topic_id, settings = new
    try:
        return PartitionLog.create(
            partition, path, settings, pool, topic_id=topic_id, health=health
        )
    except FileExistsError:
        if not os.path.isdir(path):
            raise LogRefused(f"{path} is no directory: move it out of the log directory") from None
        log = load_log(partition, path, settings, pool, Known(), health=health)
        log.durability.names_synced = log.durability.home_synced = False
        return log
