"""Lists the content of a log directory for a broker that opens it.

Every name is looked at once, every checkpoint read once; the logs themselves are left to `loading`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from klamm.log.disk import checkpoints, names
from klamm.log.disk.failure import LogRefused
from klamm.log.disk.files import remove_files
from klamm.log.recovery.loading import Known
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition, partition_fault


class Found(NamedTuple):
    """The directory of a log, or of a copy that is to become one."""

    partition: TopicPartition
    path: str
    is_future: bool


class Content(NamedTuple):
    """The entries of a log directory whose names a broker gives."""

    logs: list[Found]
    doomed: list[str]  # what was to be deleted
    not_logs: list[str]  # what looks as if it was to be deleted, and is no log
    put_aside: set[str]  # what was once called by these names


def look_into(path: str) -> Content:
    """The logs in their order, those to be deleted, and directories that are not ours."""
    logs: list[Found] = []
    doomed: list[str] = []
    not_logs: list[str] = []
    put_aside: set[str] = set()
    with os.scandir(path) as entries:
        for entry in entries:
            future = names.parse_future(entry.name)
            partition = future or names.parse_partition(entry.name)
            if partition is None and (former := names.parse_aside(entry.name)) is not None:
                put_aside.add(former)
            is_doomed = partition is None and names.is_doomed(entry.name)
            if not (partition or is_doomed) or not entry.is_dir():
                continue
            if partition is not None:
                logs.append(Found(partition, entry.path, is_future=future is not None))
            else:
                is_log = names.is_log(os.listdir(entry.path))
                (doomed if is_log else not_logs).append(entry.path)
    return Content(sorted(logs), doomed, not_logs, put_aside)


def place_of(directory: str, name: str, partition: TopicPartition) -> str:
    """The path of a log: right below its directory, whatever the partition is called."""
    fault = partition_fault(partition)
    path = os.path.join(directory, name)
    if fault is None and os.path.split(os.path.normpath(path)) != (directory, name):
        fault = f"{path} is not below {directory}"
    if fault is not None:
        raise LogRefused(f"no log can be made for {partition!r}: {fault}")
    return path


def remove_log(path: str) -> bool:
    """Remove a log's directory, and nothing that is not a log's; whether it is gone."""
    with contextlib.suppress(OSError):
        remove_files(
            os.path.join(path, name) for name in os.listdir(path) if names.is_of_a_log(name)
        )
        os.rmdir(path)
    return not os.path.lexists(path)


@dataclass(frozen=True, slots=True)
class Remembered:
    """The entries of a directory's checkpoints; one that makes no sense counts as empty."""

    is_clean: bool  # whether the last stop was a clean one; asking makes it so no longer
    extents: Mapping[TopicPartition, checkpoints.Extent]  # at that stop
    missing: Mapping[TopicPartition, int]  # ends that logs are known to have had before
    recovery_points: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]
    cleaned: Mapping[TopicPartition, int]

    @classmethod
    def read(cls, path: str) -> Remembered:
        stop = checkpoints.take_clean_shutdown(os.path.join(path, names.CLEAN_SHUTDOWN))
        return cls(
            stop is not None,
            _extents(path, stop),
            _offsets(path, names.MISSING),
            _offsets(path, names.RECOVERY_POINTS),
            _offsets(path, names.LOG_STARTS),
            _offsets(path, names.HIGH_WATERMARKS),
            _offsets(path, names.CLEANER_OFFSETS),
        )

    def of(self, partition: TopicPartition) -> Known:
        return Known(
            clean=self.is_clean,
            recovery_point=self.recovery_points.get(partition),
            log_start=self.starts.get(partition, 0),
            high_watermark=self.high_watermarks.get(partition, 0),
            extent=self.extents.get(partition),
            missed_end=self.missing.get(partition, 0),
        )

    def of_future(self, partition: TopicPartition) -> Known:
        """The same of a copy, which nobody counts on."""
        return replace(self.of(partition), extent=None, missed_end=0)

    def end_of(self, partition: TopicPartition) -> int:
        """The end that a log is known to have had."""
        return max(self.recovery_points.get(partition, 0), self.missing.get(partition, 0))

    def gone(self, content: Content, here: Container[TopicPartition]) -> dict[TopicPartition, int]:
        """The logs that there were when the checkpoints were written, with their ends, and are not.

        One that was put aside has left in good order.
        """
        return {
            partition: end
            for partition, end in {**self.recovery_points, **self.missing}.items()
            if partition not in here and str(partition) not in content.put_aside
        }


def _extents(
    path: str, stop: checkpoints.CleanStop | None
) -> Mapping[TopicPartition, checkpoints.Extent]:
    if stop is None or stop.broker_epoch is None:
        return {}
    try:
        return checkpoints.read_extents(os.path.join(path, names.EXTENTS), stop)
    except checkpoints.CheckpointCorrupt:
        return {}


def _offsets(path: str, name: str) -> Mapping[TopicPartition, int]:
    try:
        return checkpoints.read_offsets(os.path.join(path, name))
    except checkpoints.CheckpointCorrupt:
        return {}


def claim(path: str, broker_id: int, cluster_id: str) -> tuple[str, bool]:
    """Make sure that a directory is this broker's; its own id, and whether it was nobody's yet."""
    file = os.path.join(path, names.META_PROPERTIES)
    identity = checkpoints.read_identity(file)
    is_new = identity is None
    if identity is None:
        identity = checkpoints.DirectoryIdentity(
            broker_id, cluster_id, checkpoints.new_directory_id()
        )
        checkpoints.write_identity(file, identity)
    if identity.broker_id != broker_id:
        raise UsageError(
            f"{path} belongs to broker {identity.broker_id}, not to broker {broker_id}"
        )
    if identity.cluster_id != cluster_id:
        raise UsageError(
            f"{path} belongs to cluster {identity.cluster_id}, not to {cluster_id}: correct the "
            "store's address (zookeeper.connect), or use an empty directory (log.dirs)"
        )
    return identity.directory_id, is_new
