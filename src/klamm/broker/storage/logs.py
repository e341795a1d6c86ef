"""All logs of a broker, whichever of its directories they are in."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from klamm import gc_pause
from klamm.log.directory import LogDirectory
from klamm.log.disk.failure import DirectoryUnusable
from klamm.log.disk.files import FilePool
from klamm.log.disk.names import between_names
from klamm.log.paper import NewLog
from klamm.log.partition import LogDirectoryFailed, PartitionLog
from klamm.log.relocation import holds_more
from klamm.log.renaming import begin_all, rename_all
from klamm.log.settings import LogSettings
from klamm.model.errors import InvariantBroken
from klamm.model.names import ZERO_ID, BrokerId, TopicPartition

log = logging.getLogger(__name__)

# Wishes for logs that may never be made; the oldest are forgotten first.
_PREFERRED_MAX: Final = 10_000

Progress = Callable[[int, int], None]


class Logs:
    """The log directories of one broker."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self.directories = tuple(directories)
        # Where logs that are not there yet are to be made, as somebody has asked.
        self._preferred: dict[TopicPartition, LogDirectory] = {}

    @classmethod
    def open(
        cls,
        paths: Sequence[str],
        broker_id: BrokerId,
        cluster_id: str,
        *,
        settings_for: Callable[[str], LogSettings],
        delete_delay_ms: int,
        now_ms: int,
        progress: Progress | None,
        on_offline: Callable[[LogDirectory], None],
    ) -> Logs:
        """Claim and load every directory. Blocking: recovery reads what a crash left behind.

        A directory whose disk fails is offline from the start, unless there is no other.
        """
        pool = FilePool()
        opened: list[LogDirectory] = []

        def open_one(path: str) -> LogDirectory:
            return LogDirectory.open(
                path,
                broker_id,
                cluster_id,
                settings_for=settings_for,
                pool=pool,
                delete_delay_ms=delete_delay_ms,
                now_ms=now_ms,
                progress=progress,
                on_offline=on_offline,
            )

        faults: list[DirectoryUnusable] = []
        try:
            with gc_pause.paused():
                for path in paths:
                    try:
                        opened.append(open_one(path))
                    except DirectoryUnusable as fault:
                        faults.append(fault)
                        opened.append(LogDirectory.offline(fault))
        except BaseException:
            _close(opened)
            raise
        if len(faults) == len(opened):
            raise faults[0]
        logs = cls(opened)
        logs._find_elsewhere()
        logs._resolve_relocations(now_ms)
        return logs

    def __iter__(self) -> Iterator[PartitionLog]:
        for directory in self.directories:
            yield from directory

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        for directory in self.directories:
            found = directory.get(partition)
            if found is not None:
                return found
        return None

    def create(
        self, partition: TopicPartition, topic_id: uuid.UUID, settings: LogSettings
    ) -> PartitionLog:
        """The log of a partition; a new one goes where it was asked for, or the fewest are."""
        ((chosen, _),) = self.homes_for([NewLog(partition, topic_id, settings)])
        return chosen.create(partition, topic_id, settings)

    def homes_for(self, wanted: Iterable[NewLog]) -> list[tuple[LogDirectory, NewLog]]:
        """The directories of new logs: where it was asked for, or where the fewest logs are."""
        online = self.online
        if not online:
            raise self._failure()
        burdens = {directory: directory.burden for directory in online}
        homes: list[tuple[LogDirectory, NewLog]] = []
        for new in wanted:
            wished = self._preferred.pop(new.partition, None)
            is_usable = wished is not None and wished.is_online
            chosen = (
                wished
                if wished is not None and is_usable
                else min(burdens, key=burdens.__getitem__)
            )
            burdens[chosen] += 1
            homes.append((chosen, new))
        return homes

    def take_new(self) -> dict[LogDirectory, list[PartitionLog]]:
        """The logs made since this was last asked, where there are any."""
        return {directory: new for directory in self.online if (new := directory.take_new())}

    # Logs that are not what they were

    def missed_end(self, partition: TopicPartition) -> int | None:
        """The former end of a log that is gone or shorter now; None if nothing is missing."""
        ends = [d.missing[partition] for d in self.directories if partition in d.missing]
        return max(ends, default=None)

    def made_up_for(self, partition: TopicPartition) -> None:
        """Nobody counts any more on what a log has lost."""
        for directory in self.directories:
            directory.made_up_for(partition)

    @property
    def any_new(self) -> bool:
        """Whether a directory was nobody's before this start."""
        return any(directory.is_new for directory in self.directories)

    def _find_elsewhere(self) -> None:
        """Looks for logs that moved from one directory to another."""
        for directory in self.directories:
            for partition, end in list(directory.missing.items()):
                found = [log for d in self.directories if (log := d.get(partition)) is not None]
                if any(log.log_end_offset >= end for log in found):
                    directory.made_up_for(partition)

    def schedule_delete(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Put logs aside; they are removed when their delay has passed."""
        doomed = list(partitions)
        for partition in doomed:
            self.made_up_for(partition)
        for directory in self.directories:
            mine = [p for p in doomed if directory.get(p) or p in directory.futures]
            if mine:
                directory.schedule_delete(mine, now_ms)

    def set_aside(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep the records of these logs, but not as logs."""
        for partition in partitions:
            for directory in self.directories:
                if directory.get(partition) or partition in directory.futures:
                    directory.set_aside(partition)

    # Logs that are called otherwise

    def renames(
        self, wanted: Mapping[tuple[uuid.UUID, int], TopicPartition]
    ) -> dict[TopicPartition, TopicPartition]:
        """The new names of logs that are here under others than wanted, by ids of their topics.

        Whoever has a name that is wanted makes room for it. One that moves to another directory
        stays what it is until it is there.
        """
        moves = {
            log.topic_partition: name
            for log in self
            if log.topic_id is not None
            and (name := wanted.get((log.topic_id, log.topic_partition.partition))) is not None
            and name != log.topic_partition
        }
        for name in list(moves.values()):
            there = self.get(name)
            if there is not None and name not in moves:
                moves[name] = between_names(there.topic_id, name.partition)
        return {} if any(self.future_home(old) for old in moves) else moves

    def rename(self, moves: Mapping[TopicPartition, TopicPartition], *, begin: bool) -> None:
        """Let logs have a directory (`begin`); then, in a worker thread, go on under new names."""
        for directory in self.online:
            (begin_all if begin else rename_all)(directory, moves)

    # Logs that move from one directory to another

    def directory_at(self, path: str) -> LogDirectory | None:
        return next((d for d in self.directories if d.path == os.path.normpath(path)), None)

    def future_home(self, partition: TopicPartition) -> LogDirectory | None:
        """The directory that a partition's log is being moved to."""
        return next((d for d in self.directories if partition in d.futures), None)

    def prefer(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Remember where a log is to be made, should it ever be."""
        self._preferred.pop(partition, None)
        self._preferred[partition] = directory
        while len(self._preferred) > _PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def replace(self, partition: TopicPartition, now_ms: int) -> PartitionLog:
        """Let the complete copy of a log stand in its place, and delete the original."""
        source = next(d for d in self.directories if d.get(partition) is not None)
        target = self.future_home(partition)
        original = source.get(partition)
        assert target is not None, f"{partition} does not move"
        assert original is not None, f"{partition} is not here"
        copy = target.promote(original)
        source.schedule_delete([partition], now_ms)
        return copy

    def _resolve_relocations(self, now_ms: int) -> None:
        """Finish relocations that a crash has interrupted; what cannot go on is put away."""
        for directory in self.directories:
            for partition in list(directory.futures):
                homes = [d for d in self.directories if d.has_whole(partition)]
                if not homes and self.any_failed:
                    # Its log may be on the disk that cannot be read: both wait for a better day.
                    directory.drop_future(partition)
                elif not homes:
                    # A part of a log whose whole is not here: no log, but not ours to destroy.
                    log.warning("a copy without its log", extra={"partition": str(partition)})
                    directory.set_aside(partition)
                elif not _is_copy(directory.futures[partition], homes[0].get(partition)):
                    # A long name is cut where a suffix must fit, and may then be another's.
                    log.warning("a copy of another log", extra={"partition": str(partition)})
                    directory.set_aside(partition)
                elif homes == [directory]:
                    directory.delete_future(partition, now_ms)
        if len(self.directories) > 1:
            for partition in {found.topic_partition for found in self}:
                self._resolve_twins(partition, now_ms)

    def _resolve_twins(self, partition: TopicPartition, now_ms: int) -> None:
        """Of two logs of a partition, which a move leaves that crashed at its end, keep one."""
        twins = [(d, found) for d in self.directories if (found := d.get(partition)) is not None]
        while len(twins) > 1:
            is_first = holds_more(twins[0][1], twins[1][1])
            directory, lesser = twins.pop(1 if is_first else 0)
            log.warning(
                "a log is here twice",
                extra={"partition": str(partition), "kept": twins[0][0].path},
            )
            if lesser.log_end_offset <= twins[0][1].log_end_offset:
                directory.schedule_delete([partition], now_ms)
            else:
                directory.set_aside(partition)  # it has records that the other has not

    def directory_of(self, log: PartitionLog) -> LogDirectory | None:
        return next((d for d in self.directories if d.get(log.topic_partition) is log), None)

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.is_online]

    @property
    def any_failed(self) -> bool:
        return any(not directory.is_online for directory in self.directories)

    def close(self, *, clean: bool, broker_epoch: int = -1) -> None:
        for directory in self.directories:
            directory.close(clean=clean, broker_epoch=broker_epoch)

    def _failure(self) -> LogDirectoryFailed:
        for directory in self.directories:
            if directory.failure is not None:
                return directory.failure
        raise InvariantBroken("a broker without log directories")


def _is_copy(copy: PartitionLog, original: PartitionLog | None) -> bool:
    """Whether nothing says that a copy is one of another topic."""
    ids = {log.topic_id for log in (copy, original) if log is not None}
    return len(ids - {None, ZERO_ID}) <= 1


def _close(directories: Iterable[LogDirectory]) -> None:
    for directory in directories:
        directory.close(clean=False)
