"""The fetchers of one broker: which partition is fetched by which, and which of them run."""

from __future__ import annotations

import asyncio

from klamm.broker.ground import Ground
from klamm.broker.replicas.fetcher import Fetcher
from klamm.broker.replicas.partition import Partition
from klamm.broker.tasks import Tasks
from klamm.model.names import BrokerId, TopicPartition


class Fetchers:
    """The fetchers of one broker, by leader."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._by_leader: dict[BrokerId, Fetcher] = {}
        self._running: dict[BrokerId, asyncio.Task[None]] = {}
        self._where: dict[TopicPartition, Fetcher] = {}
        self._tasks = Tasks()

    def add(self, partition: Partition) -> None:
        """Follow the leader that the partition names; takes effect with `apply`."""
        self.remove(partition.topic_partition)
        fetcher = self._by_leader.get(partition.leader)
        if fetcher is None:
            fetcher = self._by_leader[partition.leader] = Fetcher(self._ground, partition.leader)
        fetcher.add(partition)
        self._where[partition.topic_partition] = fetcher

    def remove(self, topic_partition: TopicPartition) -> None:
        fetcher = self._where.pop(topic_partition, None)
        if fetcher is not None:
            fetcher.remove(topic_partition)

    def apply(self) -> None:
        """Start the fetchers that have something to do, and end the others."""
        for leader, fetcher in list(self._by_leader.items()):
            if fetcher.following and leader not in self._running:
                name = f"broker-{self._ground.id}-fetcher-{leader}"
                self._running[leader] = self._tasks.start(fetcher.run(), name)
            elif not fetcher.following:
                del self._by_leader[leader]
                task = self._running.pop(leader, None)
                if task is not None:
                    task.cancel()

    def begin_sessions(self) -> None:
        """Ask for everything anew: partitions have other names now."""
        for fetcher in self._by_leader.values():
            fetcher.begin_session()

    def log_moved(self, partition: Partition) -> None:
        """The partition's log is another one, with the same records."""
        fetcher = self._where.get(partition.topic_partition)
        following = fetcher.following.get(partition.topic_partition) if fetcher else None
        if following is not None and partition.log is not None:
            following.log = partition.log

    def of(self, topic_partition: TopicPartition) -> Fetcher | None:
        """The fetcher of this partition."""
        return self._where.get(topic_partition)

    async def stop(self) -> None:
        await self._tasks.cancel()
        self._by_leader.clear()
        self._running.clear()
        self._where.clear()
