"""A broker's directory of logs.

It belongs to one broker of one cluster, and to one process at a time. It knows its logs by
partition, keeps their checkpoints, and looks after what is on its way out. When the disk fails
once, the directory is offline for good, and every log in it refuses to work (`failure`).
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from klamm.log.cleaning import cleaner
from klamm.log.disk import checkpoints, names
from klamm.log.disk.failure import (
    DirectoryUnusable,
    Health,
    LogDirectoryFailed,
    LogRefused,
    StorageShortage,
    StorageTrouble,
    unusable,
)
from klamm.log.disk.files import FilePool, make_directory, tighten_below
from klamm.log.disk.filesystem import FileSystem
from klamm.log.disk.lock import DirectoryLock
from klamm.log.partition import PartitionLog
from klamm.log.recovery.loading import Known, load_log
from klamm.log.recovery.opening import Remembered, claim, look_into, place_of, remove_log
from klamm.log.relocation import take_place
from klamm.log.renaming import rename_all
from klamm.log.settings import LogSettings
from klamm.log.syncing import finalize_all, sync_births
from klamm.model.names import TopicPartition

DELETE_DELAY_MS: Final = 60_000


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
        self.health = Health(path, lambda: on_offline(self) if on_offline else None)
        self._settings_for = settings_for
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[
            TopicPartition, PartitionLog
        ] = {}  # copies of logs that are relocated here
        self._doomed: list[tuple[int, str]] = []
        self._lock = DirectoryLock(path)
        # Checkpoints are written by worker threads, of which there may be several.
        self._writing = threading.Lock()
        self._file_system: FileSystem | None = None  # while the directory is ours
        self._born: list[PartitionLog] = []  # made since the last `take_new`
        self._is_stale = False  # whether checkpoints still tell of logs that were put aside
        self.is_new = False  # whether it was nobody's before this start
        # Ends of logs that were here before this start and are not, as far as nobody has made up
        # for them since; told to the controller, and kept over restarts until then.
        self.missing: dict[TopicPartition, int] = {}
        self._missing_written: dict[TopicPartition, int] = {}
        self.not_logs: list[str] = []  # what has a log's name, is none, and is left alone

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        broker_id: int,
        cluster_id: str,
        *,
        settings_for: Callable[[str], LogSettings] = _default_settings,
        pool: FilePool | None = None,
        delete_delay_ms: int = DELETE_DELAY_MS,
        now_ms: int = 0,
        progress: Callable[[int, int], None] | None = None,
        on_offline: Callable[[LogDirectory], None] | None = None,
    ) -> LogDirectory:
        """Claim a directory, making it when it is not there, and load every log in it.

        `settings_for` gives the settings of a topic; `progress` is told (logs loaded, all logs);
        `on_offline` is told once, when the disk fails, in the thread that met the failure. Raises
        UsageError when the directory is another broker's, in use, or not usable at all, which is
        then a DirectoryUnusable.
        """
        directory = cls(
            os.path.abspath(os.fspath(path)),
            pool=pool or FilePool(),
            settings_for=settings_for,
            delete_delay_ms=delete_delay_ms,
            on_offline=on_offline,
        )
        try:
            make_directory(directory.path)
            directory._lock.take()
            directory._file_system = FileSystem(directory.path)
            tighten_below(directory.path)
            identity, is_new = claim(directory.path, broker_id, cluster_id)
            directory.directory_id, directory.is_new = identity, is_new
            directory._load(now_ms, progress)
        except OSError as error:
            directory._let_go()
            raise unusable(directory.path, error) from error
        except (LogDirectoryFailed, StorageShortage) as trouble:
            directory._let_go()
            raise unusable(directory.path, trouble.cause) from trouble
        except BaseException:
            directory._let_go()
            raise
        return directory

    @classmethod
    def offline(cls, fault: DirectoryUnusable) -> LogDirectory:
        """A stand-in for a directory that cannot be used: empty, and nothing can be made in it."""
        directory = cls(
            fault.path,
            pool=FilePool(),
            settings_for=_default_settings,
            delete_delay_ms=DELETE_DELAY_MS,
            on_offline=None,
        )
        directory.health.in_doubt(fault.cause)
        return directory

    # The logs

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def is_online(self) -> bool:
        return self.health.failure is None

    @property
    def failure(self) -> LogDirectoryFailed | None:
        """The reason why the directory is offline."""
        return self.health.failure

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(partition)

    @property
    def burden(self) -> int:
        """The number of logs there are, or will be."""
        return len(self._logs) + len(self.futures)

    def create(
        self, partition: TopicPartition, topic_id: uuid.UUID | None, settings: LogSettings
    ) -> PartitionLog:
        """The log of a partition, made when there is none.

        Raises LogRefused when the name is not a partition's, or its place is taken by a directory
        that is no log.
        """
        existing = self._logs.get(partition)
        if existing is not None:
            return existing
        log = self.make(partition, topic_id, settings)
        self.adopt(log)
        return log

    def make(
        self, partition: TopicPartition, topic_id: uuid.UUID | None, settings: LogSettings
    ) -> PartitionLog:
        """The files of a new log, for `adopt`. For a worker thread: making files takes its time."""
        self.health.check()
        return self._make(str(partition), partition, topic_id, settings)

    def adopt(self, log: PartitionLog) -> None:
        """Let a log that was made be one of this directory's."""
        self._logs[log.topic_partition] = log
        self._born.append(log)

    def _make(
        self,
        name: str,
        partition: TopicPartition,
        topic_id: uuid.UUID | None,
        settings: LogSettings,
    ) -> PartitionLog:
        path = place_of(self.path, name, partition)
        with self.health.watched():
            log = self._new_or_found(path, partition, topic_id, settings)
        log.durability.rewrite = self.checkpoint
        return log

    def _new_or_found(
        self,
        path: str,
        partition: TopicPartition,
        topic_id: uuid.UUID | None,
        settings: LogSettings,
    ) -> PartitionLog:
        try:
            return PartitionLog.create(
                partition, path, settings, self.pool, topic_id=topic_id, health=self.health
            )
        except FileExistsError:
            if not os.path.isdir(path):
                raise LogRefused(
                    f"{path} is no directory: move it out of the log directory"
                ) from None
            # Somebody has put it there since we started: take it for what it is, or not at all.
            log = load_log(partition, path, settings, self.pool, Known(), health=self.health)
            log.durability.names_synced = log.durability.home_synced = False
            return log

    # Logs that are relocated here

    def create_future(self, original: PartitionLog) -> PartitionLog:
        """An empty copy of a log of another directory."""
        self.health.check()
        partition = original.topic_partition
        name = names.aside_name(partition, names.FUTURE)
        copy = self._make(name, partition, original.topic_id, original.settings)
        # What has been compacted before is copied compacted.
        copy.cleaned_to = original.cleaned_to
        self._born.append(copy)
        self.futures[partition] = copy
        return copy

    def promote(self, original: PartitionLog) -> PartitionLog:
        """Let the copy of a log stand in its place; the original is still where it was."""
        self.health.check()
        partition = original.topic_partition
        copy = self.futures[partition]
        with self.health.watched():
            take_place(copy, original, os.path.join(self.path, str(partition)))
        self._logs[partition] = self.futures.pop(partition)
        self._is_stale = True
        return copy

    def drop_future(self, partition: TopicPartition) -> None:
        """Do not use a copy any more; its files stay."""
        copy = self.futures.pop(partition, None)
        if copy is not None:
            copy.close(clean=False)

    # Logs that are called otherwise

    def rename(self, moves: Mapping[TopicPartition, TopicPartition]) -> None:
        """Let logs go on under other names, which may be those of each other."""
        rename_all(self, self._logs, moves)

    # Logs that leave

    def schedule_delete(self, partitions: Iterable[TopicPartition], now_ms: int = 0) -> None:
        """Take logs away: renamed now, removed when the delay has passed."""
        gone = list(partitions)
        self._put_aside(self._logs, gone, names.DOOMED, now_ms)
        self._put_aside(self.futures, gone, names.DOOMED, now_ms)

    def delete_future(self, partition: TopicPartition, now_ms: int = 0) -> None:
        """Give up a copy."""
        self._put_aside(self.futures, [partition], names.DOOMED, now_ms)

    def set_aside(self, partition: TopicPartition) -> None:
        """Keep the records of a log that belongs to no topic any more, but not as a log."""
        self._put_aside(self._logs, [partition], names.STRAY, 0)
        self._put_aside(self.futures, [partition], names.STRAY, 0)

    def _put_aside(
        self,
        logs: dict[TopicPartition, PartitionLog],
        partitions: Iterable[TopicPartition],
        suffix: str,
        now_ms: int,
    ) -> None:
        self.health.check()
        partitions = list(partitions)
        for partition in partitions:
            self.made_up_for(partition)
        found = [log for p in partitions if (log := logs.pop(p, None)) is not None]
        if not found:
            return
        with self.health.watched():
            for log in found:
                log.close(clean=False)
                aside = os.path.join(self.path, names.aside_name(log.topic_partition, suffix))
                os.rename(log.directory, aside)
                if suffix == names.DOOMED:
                    self._doomed.append((now_ms + self.delete_delay_ms, aside))
        # Requests wait for this, so the disk is left to the next `flush_due`.
        self._is_stale = True

    # What the broker does from time to time

    def not_synced(self, born: list[PartitionLog]) -> None:
        """These could not be brought to the disk yet: `take_new` gives them once more."""
        for log in born:
            log.durability.names_synced = log.durability.home_synced = False
        self._born += born

    def take_new(self) -> list[PartitionLog]:
        """The logs that were made since this was last asked, for `sync_new`."""
        born, self._born = [log for log in self._born if log.is_open], []
        return born

    def sync_new(self, born: list[PartitionLog], *, remember: bool = False) -> None:
        """Bring new logs' directories, and whose they are, to the disk. For a worker thread.

        Where they are to be remembered, a later start misses them if they are gone by then.
        """
        self.health.check()
        assert self._file_system is not None, f"{self.path} is not open"
        # A log of the same name may have been here, and what was said of it is not true of this.
        self._forget_those_put_aside()
        with self.health.watched():
            sync_births(born, self.path, self._file_system)
        if remember:
            self.checkpoint()

    def purge_due(self, now_ms: int) -> int:
        """Remove directories and files whose delay has passed; how many directories it was.

        May run in a worker thread.
        """
        due = [entry for entry in list(self._doomed) if entry[0] <= now_ms]
        if due:
            self._forget_those_put_aside()
        for entry in due:
            remove_log(entry[1])
            self._doomed.remove(entry)
        for log in self:
            log.segments.purge(now_ms)
        return len(due)

    def next_purge_ms(self) -> int | None:
        """The time at which there is something to remove next."""
        times = [due_ms for due_ms, _ in self._doomed]
        times += [due for log in self if (due := log.segments.next_purge_ms) is not None]
        return min(times, default=None)

    def apply_retention(self, now_ms: int) -> int:
        """Let go of what no log has to keep; how many segments it was."""
        return sum(log.apply_retention(now_ms) for log in self)

    def flush_due(self, now_ms: int) -> int:
        """Flush logs that closed a segment or whose `flush.ms` has passed. For a worker thread.

        Once logs were put aside, the checkpoints are written without them.
        """
        self._forget_those_put_aside()
        due = [log for log in self if log.needs_flush(now_ms)]
        for log in due:
            log.flush(now_ms)
        return len(due)

    def _forget_those_put_aside(self) -> None:
        if self._is_stale:
            self._is_stale = False
            try:
                self.checkpoint()
                self.checkpoint_high_watermarks()
                self.checkpoint_cleaned()
            except StorageTrouble:
                self._is_stale = True
                raise

    def expire_producers(self, before_ms: int) -> int:
        """Forget producers silent since then, in every log."""
        return sum(log.expire_producers(before_ms) for log in self)

    def made_up_for(self, partition: TopicPartition) -> None:
        """Nobody counts any more on what a log has lost."""
        if self.missing.pop(partition, None) is not None:
            self._is_stale = True  # the file is left to the next `flush_due`

    def _write_missing(self) -> None:
        missing = dict(self.missing)
        if missing != self._missing_written:
            self._write(names.MISSING, missing)
            self._missing_written = missing

    def checkpoint(self) -> None:
        """Write recovery points and log starts. For a worker thread."""
        self._write_missing()
        logs = [*self, *list(self.futures.values())]
        points = {g.topic_partition: g.recovery_point for g in logs}
        self._write(names.RECOVERY_POINTS, points)
        for log in logs:
            log.durability.promised = points[log.topic_partition]
        starts = {
            g.topic_partition: g.log_start_offset
            for g in logs
            if g.log_start_offset > g.segments[0].base_offset
        }
        self._write(names.LOG_STARTS, starts)

    def checkpoint_high_watermarks(self) -> None:
        """Write down how far consumers could see. For a worker thread."""
        self._write(names.HIGH_WATERMARKS, {g.topic_partition: g.high_watermark for g in self})

    def plan_cleaning(self, now_ms: int) -> cleaner.CleaningPlan | None:
        """The log most in need of compaction, if one is: build it in a thread, then install."""
        return cleaner.most_needed((log for log in self if not log.is_relocating), now_ms)

    def checkpoint_cleaned(self) -> None:
        """Write down up to where logs are compacted. For a worker thread."""
        offsets = {g.topic_partition: g.cleaned_to for g in self if g.settings.compact}
        self._write(names.CLEANER_OFFSETS, offsets)

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        self.health.check()
        with self.health.watched(), self._writing:
            checkpoints.write_offsets(os.path.join(self.path, name), offsets)

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Stop. A clean stop flushes and says so; an unclean one leaves all as after a crash."""
        try:
            if clean and self.is_online:
                self._finalize(broker_epoch)
        except StorageTrouble:
            pass  # it was told when it happened; the next start finds no marker, and recovers
        finally:
            for log in [*self, *self.futures.values()]:
                log.is_open = False
            self._logs.clear()
            self.futures.clear()
            self.pool.clear()
            self._let_go()

    def _let_go(self) -> None:
        self._lock.drop()
        if self._file_system is not None:
            self._file_system.close()

    def _finalize(self, broker_epoch: int) -> None:
        """Bring all logs to the disk, and then say so."""
        assert self._file_system is not None, f"{self.path} is not open"
        with self.health.watched():
            finalize_all([*self, *self.futures.values()], self._file_system)
            self.checkpoint()
            self.checkpoint_high_watermarks()
            extents = {log.topic_partition: log.segments.extent for log in self}
            checkpoints.write_extents(os.path.join(self.path, names.EXTENTS), broker_epoch, extents)
            path = os.path.join(self.path, names.CLEAN_SHUTDOWN)
            checkpoints.write_clean_shutdown(path, broker_epoch)

    # Opening

    def _load(self, now_ms: int, progress: Callable[[int, int], None] | None) -> None:
        remembered = Remembered.read(self.path)
        content = look_into(self.path)
        found, doomed, self.not_logs, _ = content
        # What was to be deleted when we stopped still is.
        self._doomed += [(now_ms + self.delete_delay_ms, path) for path in doomed]
        for count, (partition, path, is_future) in enumerate(found, 1):
            try:
                log = self._load_one(partition, path, remembered, is_future=is_future)
            except LogRefused:
                self.not_logs.append(path)
                continue
            (self.futures if is_future else self._logs)[partition] = log
            if log.damage is not None and log.damage.at_rest and not is_future:
                self.missing[partition] = log.damage.log_end + log.damage.missing
            if progress is not None:
                progress(count, len(found))
        self.missing |= remembered.gone(content)
        self._missing_written = dict(remembered.missing)
        # Before anything else is: a start that crashes must not be the last that knew.
        self._write_missing()

    def _load_one(
        self, partition: TopicPartition, path: str, remembered: Remembered, *, is_future: bool
    ) -> PartitionLog:
        settings = self._settings_for(partition.topic)
        known = (remembered.of_future if is_future else remembered.of)(partition)
        log = load_log(partition, path, settings, self.pool, known, health=self.health)
        tighten_below(path)
        log.cleaned_to = min(remembered.cleaned.get(partition, 0), log.log_end_offset)
        log.durability.rewrite = self.checkpoint
        return log
