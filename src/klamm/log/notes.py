"""Writes the files in which a log directory keeps what its logs do not say themselves."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence

from klamm.log.disk import checkpoints, names
from klamm.log.disk.failure import Health
from klamm.log.partition import PartitionLog
from klamm.model.names import TopicPartition


class Notes:
    """The checkpoints of one directory. For worker threads, of which there may be several."""

    def __init__(self, path: str, health: Health) -> None:
        self._path = path
        self._health = health
        self._writing = threading.Lock()

    def write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Write one of the files with an offset for each partition."""
        self._health.check()
        with self._health.watched(), self._writing:
            checkpoints.write_offsets(os.path.join(self._path, name), offsets)

    def write_points(self, logs: Sequence[PartitionLog]) -> None:
        """Write recovery points and log starts."""
        points = {log.topic_partition: log.recovery_point for log in logs}
        self.write(names.RECOVERY_POINTS, points)
        for log in logs:
            log.durability.promised = points[log.topic_partition]
        starts = {
            log.topic_partition: log.log_start_offset
            for log in logs
            if log.log_start_offset > log.segments[0].base_offset
        }
        self.write(names.LOG_STARTS, starts)

    def write_stop(self, broker_epoch: int, logs: Sequence[PartitionLog]) -> None:
        """Say that everything is on the disk, and what everything is."""
        extents = {log.topic_partition: log.segments.extent for log in logs}
        checkpoints.write_extents(os.path.join(self._path, names.EXTENTS), broker_epoch, extents)
        path = os.path.join(self._path, names.CLEAN_SHUTDOWN)
        checkpoints.write_clean_shutdown(path, broker_epoch)
