"""A broker's directory of logs.

It belongs to one broker of one cluster, and to one process at a time. It knows its logs by
partition, keeps their checkpoints, and looks after what is on its way out. When the disk fails
once, the directory is offline for good, and every log in it refuses to work (`failure`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from klamm.log.cleaning import cleaner
from klamm.log.disk import names
from klamm.log.disk.failure import (
    DirectoryUnusable,
    Health,
    LogDirectoryFailed,
    StorageShortage,
    StorageTrouble,
    unusable,
)
from klamm.log.disk.files import FilePool, make_directory, sync_directory, tighten_below
from klamm.log.disk.filesystem import FileSystem
from klamm.log.disk.lock import DirectoryLock
from klamm.log.notes import Notes
from klamm.log.paper import NewLog, Papers
from klamm.log.partition import PartitionLog
from klamm.log.recovery.loading import load_log
from klamm.log.recovery.making import create_or_load
from klamm.log.recovery.opening import Found, Remembered, claim, look_into, place_of, remove_log
from klamm.log.recovery.stock import take_stock
from klamm.log.relocation import take_place
from klamm.log.settings import LogSettings
from klamm.log.syncing import finalize_all, sync_births
from klamm.model.names import TopicPartition

DELETE_DELAY_MS: Final = 60_000
# Up to so many directories for each new log, one listing is quicker than a look for each.
_LISTED_MAX: Final = 20


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
        self._filed: dict[TopicPartition, PartitionLog] = {}  # those with files: not on paper
        self._papers = Papers(path, self.health, pool, self._filed)
        self.futures: dict[TopicPartition, PartitionLog] = {}  # copies of logs that come here
        self._doomed: list[tuple[int, str]] = []
        self._lock = DirectoryLock(path)
        self._notes = Notes(path, self.health)
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
        settings_for: Callable[[str], LogSettings] = lambda _: LogSettings(),
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
            settings_for=lambda _: LogSettings(),
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

    def with_files(self) -> list[PartitionLog]:
        return list(self._filed.values())

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
        if self.taken([partition]):
            self.adopt(self.make(partition, topic_id, settings))
        else:
            self.put_on_paper([NewLog(partition, topic_id, settings)])
        return self._logs[partition]

    def taken(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """The new partitions whose place somebody has put something in since we started."""
        self.health.check()
        with self.health.watched():
            if len(self._filed) < _LISTED_MAX * len(partitions):
                found = frozenset(os.listdir(self.path))
                return {partition for partition in partitions if str(partition) in found}
            return {p for p in partitions if os.path.lexists(os.path.join(self.path, str(p)))}

    def put_on_paper(self, wanted: Sequence[NewLog]) -> None:
        """Take up new logs whose places are free, without a file for any of them."""
        self.health.check()
        for partition, _, _ in wanted:
            place_of(self.path, str(partition), partition)
        fresh = self._papers.put_down(wanted)
        self._logs.update((log.topic_partition, log) for log in fresh)
        self._born += fresh

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Make the directories of logs on paper that nobody has written to, where that is easy."""
        self._papers.begin([self._logs[partition] for partition in partitions])

    def make(
        self, partition: TopicPartition, topic_id: uuid.UUID | None, settings: LogSettings
    ) -> PartitionLog:
        """A log in a place that is taken, for `adopt`. For a worker thread: it may be long."""
        self.health.check()
        return self._make(str(partition), NewLog(partition, topic_id, settings))

    def adopt(self, log: PartitionLog) -> None:
        """Let a log that was made be one of this directory's."""
        self._logs[log.topic_partition] = self._filed[log.topic_partition] = log
        self._born.append(log)

    def _make(self, name: str, new: NewLog) -> PartitionLog:
        path = place_of(self.path, name, new.partition)
        with self.health.watched():
            log = create_or_load(path, new, self.pool, self.health)
        log.durability.rewrite = self._write_points
        return log

    # Logs that are relocated here

    def create_future(self, original: PartitionLog) -> PartitionLog:
        """An empty copy of a log of another directory."""
        self.health.check()
        partition = original.topic_partition
        name = names.aside_name(partition, names.FUTURE)
        copy = self._make(name, NewLog(partition, original.topic_id, original.settings))
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
        self._logs[partition] = self._filed[partition] = self.futures.pop(partition)
        self._is_stale = True
        return copy

    def drop_future(self, partition: TopicPartition) -> None:
        """Do not use a copy any more; its files stay."""
        if (copy := self.futures.pop(partition, None)) is not None:
            copy.close(clean=False)

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
        for log in found:
            log.is_open = False
        self._papers.strike(found)
        filed = [log for log in found if not log.is_on_paper]
        if not filed:
            return
        with self.health.watched():
            self.pool.forget_under(*(log.directory for log in filed))
            for log in filed:
                if self._filed.get(log.topic_partition) is log:
                    del self._filed[log.topic_partition]
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
        # Before the register: were that to tell of a lost directory, records would be missed.
        filed = [log for log in born if not log.is_on_paper]
        alone = [log for log in filed if not self._papers.is_registered(log)]
        if filed:
            self._papers.write_ids()
            with self.health.watched():
                if alone:
                    sync_births(alone, self.path, self._file_system)
                else:  # what is inside of them can wait: the register answers for it
                    sync_directory(self.path)
            for log in filed:
                log.durability.home_synced = True
        self._papers.sync()
        if remember and alone:
            self._write_points()

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
        for log in self.with_files():
            log.segments.purge(now_ms)
        return len(due)

    def next_purge_ms(self) -> int | None:
        """The time at which there is something to remove next."""
        times = [due_ms for due_ms, _ in self._doomed]
        found = (log.segments.next_purge_ms for log in self.with_files())
        times += [due for due in found if due is not None]
        return min(times, default=None)

    def apply_retention(self, now_ms: int) -> int:
        """Let go of what no log has to keep; how many segments it was."""
        return sum(log.apply_retention(now_ms) for log in self.with_files())

    def flush_due(self, now_ms: int) -> int:
        """Flush logs that closed a segment or whose `flush.ms` has passed. For a worker thread.

        Once logs were put aside, the checkpoints are written without them.
        """
        self._forget_those_put_aside()
        self._papers.look(now_ms)
        due = [log for log in self.with_files() if log.needs_flush(now_ms)]
        for log in due:
            log.flush(now_ms)
        return len(due)

    def _forget_those_put_aside(self) -> None:
        if self._is_stale:
            self._is_stale = False
            try:
                self._write_points()
                self.checkpoint_high_watermarks()
                self.checkpoint_cleaned()
            except StorageTrouble:
                self._is_stale = True
                raise

    def expire_producers(self, before_ms: int) -> int:
        """Forget producers silent since then, in every log."""
        return sum(log.expire_producers(before_ms) for log in self.with_files())

    def has_whole(self, partition: TopicPartition) -> bool:
        """Whether a log is here, and not only the line of one that is gone."""
        is_gone = partition in self.missing and partition not in self._filed
        return partition in self._logs and not is_gone

    def made_up_for(self, partition: TopicPartition) -> None:
        """Nobody counts any more on what a log has lost."""
        if self.missing.pop(partition, None) is not None:
            self._is_stale = True  # the file is left to the next `flush_due`

    def _write_missing(self) -> None:
        missing = dict(self.missing)
        if missing != self._missing_written:
            self._notes.write(names.MISSING, missing)
            self._missing_written = missing

    def checkpoint(self) -> None:
        """Write recovery points and log starts. For a worker thread.

        Logs that were on paper before are brought to the disk, and leave the register.
        """
        assert self._file_system is not None, f"{self.path} is not open"
        begun = self._papers.bring_to_disk(self._file_system)
        self._write_points()
        self._papers.strike_begun(begun, self)

    def _write_points(self) -> None:
        self._write_missing()
        self._notes.write_points([*self.with_files(), *list(self.futures.values())])

    def checkpoint_high_watermarks(self) -> None:
        """Write down how far consumers could see. For a worker thread."""
        marks = {log.topic_partition: log.high_watermark for log in self.with_files()}
        self._notes.write(names.HIGH_WATERMARKS, marks)

    def plan_cleaning(self, now_ms: int) -> cleaner.CleaningPlan | None:
        """The log most in need of compaction, if one is: build it in a thread, then install."""
        return cleaner.most_needed((g for g in self.with_files() if not g.is_relocating), now_ms)

    def checkpoint_cleaned(self) -> None:
        """Write down up to where logs are compacted. For a worker thread."""
        logs = [log for log in self.with_files() if log.settings.compact]
        self._notes.write(names.CLEANER_OFFSETS, {g.topic_partition: g.cleaned_to for g in logs})

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
            self._papers.close()
            for logs in (self._logs, self._filed, self.futures):
                logs.clear()
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
            finalize_all([*self.with_files(), *self.futures.values()], self._file_system)
            self.checkpoint()
            self.checkpoint_high_watermarks()
            self._notes.write_stop(broker_epoch, self.with_files())

    # Opening

    def _load(self, now_ms: int, progress: Callable[[int, int], None] | None) -> None:
        remembered = Remembered.read(self.path)
        registered = self._papers.read()
        content = look_into(self.path)
        # What was to be deleted when we stopped still is.
        self._doomed += [(now_ms + self.delete_delay_ms, path) for path in content.doomed]
        stock = take_stock(
            content, registered, remembered, partial(self._load_one, remembered), progress
        )
        self._logs, self.futures, self.not_logs = stock.logs, stock.futures, stock.not_logs
        self._filed.update(stock.logs)
        for partition, entry in stock.on_paper.items():
            settings = self._settings_for(partition.topic)
            self._logs[partition] = self._papers.log(NewLog(partition, entry.topic_id, settings))
        self.missing = stock.missing
        self._missing_written = dict(remembered.missing)
        # Before anything else is: a start that crashes must not be the last that knew.
        self._write_missing()
        self._papers.take_up(registered, self._logs)

    def _load_one(self, remembered: Remembered, found: Found) -> PartitionLog:
        partition, path, is_future = found
        settings = self._settings_for(partition.topic)
        known = (remembered.of_future if is_future else remembered.of)(partition)
        log = load_log(partition, path, settings, self.pool, known, health=self.health)
        tighten_below(path)
        log.cleaned_to = min(remembered.cleaned.get(partition, 0), log.log_end_offset)
        log.durability.rewrite = self._write_points
        return log
