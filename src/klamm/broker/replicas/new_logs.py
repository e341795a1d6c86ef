"""Makes new logs, and brings them to the disk, while others are served.

Whoever calls holds the lock of the broker's partitions: nobody else makes or removes logs now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from klamm.broker.ground import Ground
from klamm.broker.storage.logs import Logs
from klamm.log.directory import LogDirectory
from klamm.log.disk.failure import StorageShortage, StorageTrouble
from klamm.log.paper import NewLog
from klamm.model.names import TopicPartition

# So few new logs have their directories at once: people look for them there, as with Kafka.
_FILED_AT_ONCE_MAX: Final = 50


class NewLogs:
    """The logs that an order of the controller needs and that are not there yet."""

    def __init__(self, ground: Ground, logs: Logs) -> None:
        self._ground = ground
        self._logs = logs

    async def make(self, wanted: Sequence[NewLog]) -> Mapping[TopicPartition, StorageTrouble]:
        """Makes logs that are about to be needed; what could not be made, and why."""
        troubles: dict[TopicPartition, StorageTrouble] = {}
        if not wanted or not self._logs.online:
            return troubles
        homes: dict[LogDirectory, list[NewLog]] = {}
        for directory, new in self._logs.homes_for(wanted):
            homes.setdefault(directory, []).append(new)
        for directory, mine in homes.items():
            try:
                taken = directory.taken([new.partition for new in mine])
                fresh = [new for new in mine if new.partition not in taken]
                directory.put_on_paper(fresh)
                if len(fresh) <= _FILED_AT_ONCE_MAX:
                    directory.begin([new.partition for new in fresh])
            except StorageTrouble as trouble:
                troubles |= dict.fromkeys([new.partition for new in mine], trouble)
                continue
            for new in mine:
                if new.partition in taken:
                    await self._take_over(directory, new, troubles)
        return troubles

    async def _take_over(
        self,
        directory: LogDirectory,
        new: NewLog,
        troubles: dict[TopicPartition, StorageTrouble],
    ) -> None:
        """Take a log that somebody has put there for what it is; it may have to be recovered."""
        try:
            directory.adopt(await self._ground.in_worker(partial(directory.make, *new)))
        except StorageTrouble as trouble:
            troubles[new.partition] = trouble

    async def sync(self, *, remember: bool) -> AbstractSet[TopicPartition]:
        """Brings new logs to the disk, so that no loss of power undoes what the controller hears.

        Returns what could not be brought there now; it is tried again with the next order.
        """
        unsynced: set[TopicPartition] = set()
        for directory, born in self._logs.take_new().items():
            try:
                await self._ground.in_worker(partial(directory.sync_new, born, remember=remember))
            except StorageTrouble as trouble:
                self._ground.storage_trouble(trouble)
                if isinstance(trouble, StorageShortage):
                    directory.not_synced(born)
                    unsynced.update(local.topic_partition for local in born)
        return unsynced
