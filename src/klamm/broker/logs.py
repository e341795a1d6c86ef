"""All logs of a broker, whichever of its directories they are in."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

from klamm.log.directory import LogDirectory
from klamm.log.files import FilePool
from klamm.log.partition import LogDirectoryFailed, PartitionLog
from klamm.log.settings import LogSettings
from klamm.model.errors import InvariantBroken, UsageError
from klamm.model.names import BrokerId, TopicPartition

Progress = Callable[[int, int], None]


class Logs:
    """The log directories of one broker."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self.directories = tuple(directories)

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
        """Claim and load every directory. Blocking: recovery reads what a crash left behind."""
        pool = FilePool()
        opened: list[LogDirectory] = []
        try:
            for path in paths:
                opened.append(
                    LogDirectory.open(
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
                )
        except OSError as fault:
            _close(opened)
            raise UsageError(f"cannot use log directory {path}: {fault.strerror}") from fault
        except BaseException:
            _close(opened)
            raise
        return cls(opened)

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
        """The log of a partition; a new one goes where the fewest are."""
        online = [directory for directory in self.directories if directory.is_online]
        if not online:
            raise self._failure()
        return min(online, key=len).create(partition, topic_id, settings)

    def schedule_delete(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Put logs aside; they are removed when their delay has passed."""
        doomed = list(partitions)
        for directory in self.directories:
            mine = [partition for partition in doomed if directory.get(partition) is not None]
            if mine:
                directory.schedule_delete(mine, now_ms)

    def set_aside(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep the records of these logs, but not as logs."""
        for partition in partitions:
            for directory in self.directories:
                if directory.get(partition) is not None:
                    directory.set_aside(partition)

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


def _close(directories: Iterable[LogDirectory]) -> None:
    for directory in directories:
        directory.close(clean=False)
