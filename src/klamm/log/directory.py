"""A broker's directory of logs.

It belongs to one broker of one cluster, and to one process at a time. It knows its logs by
partition, keeps their checkpoints, and looks after what is on its way out. When the disk fails
once, the directory is offline for good: every log in it refuses to work, because nobody can say
any more what is on the disk and what is not; a failed fsync in particular is never tried again,
since the kernel may have dropped the pages that it could not write.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from klamm.log import checkpoints, names
from klamm.log.files import FILES_LIMIT, FilePool, sync_directory
from klamm.log.loading import Known, load_log
from klamm.log.partition import LogDirectoryFailed, PartitionLog
from klamm.log.settings import LogSettings
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition

DELETE_DELAY_MS: Final = 60_000

# Locks of the operating system do not hold between two users in one process; this set does.
_held: set[str] = set()


def _default_settings(topic: str) -> LogSettings:
    return LogSettings()


class LogDirectory:
    """The logs below one path."""

    def __init__(
        self,
        path: str,
        *,
        pool: FilePool,
        settings_for: Callable[[str], LogSettings],
        delete_delay_ms: int,
        on_offline: Callable[[LogDirectory], None] | None,
    ) -> None:
        self.path = path
        self.pool = pool
        self.directory_id = ""
        self.delete_delay_ms = delete_delay_ms
        self.failure: LogDirectoryFailed | None = None
        self._settings_for = settings_for
        self._on_offline = on_offline
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._doomed: list[tuple[int, str]] = []
        self._lock = -1

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        broker_id: int,
        cluster_id: str,
        *,
        settings_for: Callable[[str], LogSettings] = _default_settings,
        pool: FilePool | None = None,
        files_limit: int = FILES_LIMIT,
        delete_delay_ms: int = DELETE_DELAY_MS,
        now_ms: int = 0,
        progress: Callable[[int, int], None] | None = None,
        on_offline: Callable[[LogDirectory], None] | None = None,
    ) -> LogDirectory:
        """Claim a directory, making it when it is not there, and load every log in it.

        `settings_for` gives the settings of a topic; `progress` is told (logs loaded, all logs);
        `on_offline` is told once, when the disk fails. Raises UsageError when the directory is
        another broker's, or in use.
        """
        directory = cls(
            os.path.abspath(os.fspath(path)),
            pool=pool or FilePool(files_limit),
            settings_for=settings_for,
            delete_delay_ms=delete_delay_ms,
            on_offline=on_offline,
        )
        os.makedirs(directory.path, exist_ok=True)
        directory._take_lock()
        try:
            directory._claim(broker_id, cluster_id)
            directory._load(now_ms, progress)
        except BaseException:
            directory._drop_lock()
            raise
        return directory

    # The logs

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(partition)

    def create(
        self, partition: TopicPartition, topic_id: uuid.UUID | None, settings: LogSettings
    ) -> PartitionLog:
        """The log of a partition, made when there is none."""
        existing = self._logs.get(partition)
        if existing is not None:
            return existing
        self._check_online()
        try:
            log = PartitionLog.create(
                partition,
                os.path.join(self.path, str(partition)),
                settings,
                self.pool,
                topic_id=topic_id,
                on_failure=self.fail,
            )
        except OSError as error:
            raise self.fail(error) from error
        self._logs[partition] = log
        return log

    def schedule_delete(self, partitions: Iterable[TopicPartition], now_ms: int = 0) -> None:
        """Take logs away: renamed now, removed when the delay has passed."""
        self._put_aside(partitions, names.DOOMED, now_ms)

    def set_aside(self, partition: TopicPartition) -> None:
        """Keep the records of a log that belongs to no topic any more, but not as a log."""
        self._put_aside([partition], names.STRAY, 0)

    def _put_aside(self, partitions: Iterable[TopicPartition], suffix: str, now_ms: int) -> None:
        found = [log for p in partitions if (log := self._logs.pop(p, None)) is not None]
        if not found:
            return
        self._check_online()
        try:
            for log in found:
                log.close(clean=False)
                aside = os.path.join(self.path, names.aside_name(log.topic_partition, suffix))
                os.rename(log.directory, aside)
                if suffix == names.DOOMED:
                    self._doomed.append((now_ms + self.delete_delay_ms, aside))
            sync_directory(self.path)
            self.checkpoint()
        except OSError as error:
            raise self.fail(error) from error

    def purge_due(self, now_ms: int) -> int:
        """Remove directories and files whose delay has passed; how many directories it was."""
        due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
        self._doomed = [entry for entry in self._doomed if entry[0] > now_ms]
        for path in due:
            shutil.rmtree(path, ignore_errors=True)
        for log in self:
            log.segments.purge(now_ms)
        return len(due)

    # Checkpoints

    def checkpoint(self) -> None:
        """Write recovery points and log starts."""
        logs = list(self._logs.values())
        self._write(names.RECOVERY_POINTS, {g.topic_partition: g.recovery_point for g in logs})
        starts = {
            g.topic_partition: g.log_start_offset
            for g in logs
            if g.log_start_offset > g.segments[0].base_offset
        }
        self._write(names.LOG_STARTS, starts)

    def checkpoint_high_watermarks(self) -> None:
        logs = list(self._logs.values())
        self._write(names.HIGH_WATERMARKS, {g.topic_partition: g.high_watermark for g in logs})

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        self._check_online()
        try:
            checkpoints.write_offsets(os.path.join(self.path, name), offsets)
        except OSError as error:
            raise self.fail(error) from error

    # Failing and closing

    def fail(self, error: OSError) -> LogDirectoryFailed:
        """The disk has failed: offline from now on. The first failure is the one that counts."""
        if self.failure is None:
            self.failure = LogDirectoryFailed(self.path, error)
            if self._on_offline is not None:
                self._on_offline(self)
        return self.failure

    def _check_online(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Stop. A clean stop flushes and says so; an unclean one leaves all as after a crash."""
        try:
            if clean and self.is_online:
                for log in self:
                    log.close(clean=True)
                self.checkpoint()
                self.checkpoint_high_watermarks()
                checkpoints.write_clean_shutdown(
                    os.path.join(self.path, names.CLEAN_SHUTDOWN), broker_epoch
                )
        finally:
            self._logs.clear()
            self.pool.clear()
            self._drop_lock()

    # Opening

    def _load(self, now_ms: int, progress: Callable[[int, int], None] | None) -> None:
        clean = checkpoints.take_clean_shutdown(os.path.join(self.path, names.CLEAN_SHUTDOWN))
        recovery_points = self._read(names.RECOVERY_POINTS)
        starts = self._read(names.LOG_STARTS)
        watermarks = self._read(names.HIGH_WATERMARKS)
        found: list[tuple[TopicPartition, str]] = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(names.DOOMED):
                    self._doomed.append((now_ms + self.delete_delay_ms, entry.path))
                elif (partition := names.parse_partition(entry.name)) and entry.is_dir():
                    found.append((partition, entry.path))
        for count, (partition, path) in enumerate(sorted(found), 1):
            known = Known(
                clean=clean,
                recovery_point=recovery_points.get(partition),
                log_start=starts.get(partition, 0),
                high_watermark=watermarks.get(partition, 0),
            )
            self._logs[partition] = load_log(
                partition,
                path,
                self._settings_for(partition.topic),
                self.pool,
                known,
                on_failure=self.fail,
            )
            if progress is not None:
                progress(count, len(found))

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(os.path.join(self.path, name))
        except checkpoints.CheckpointCorrupt:
            return {}

    def _claim(self, broker_id: int, cluster_id: str) -> None:
        path = os.path.join(self.path, names.META_PROPERTIES)
        identity = checkpoints.read_identity(path)
        if identity is None:
            identity = checkpoints.DirectoryIdentity(
                broker_id, cluster_id, checkpoints.new_directory_id()
            )
            checkpoints.write_identity(path, identity)
        if identity.broker_id != broker_id:
            raise UsageError(
                f"{self.path} belongs to broker {identity.broker_id}, not to broker {broker_id}"
            )
        if identity.cluster_id != cluster_id:
            raise UsageError(
                f"{self.path} belongs to cluster {identity.cluster_id}, not to {cluster_id}"
            )
        self.directory_id = identity.directory_id

    def _take_lock(self) -> None:
        if self.path in _held:
            raise UsageError(f"{self.path} is in use by another broker of this process")
        self._lock = os.open(
            os.path.join(self.path, names.LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise UsageError(f"{self.path} is in use by another process") from error
        _held.add(self.path)

    def _drop_lock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            _held.discard(self.path)
