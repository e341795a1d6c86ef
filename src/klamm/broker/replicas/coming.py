"""Partitions that everybody is told this broker leads, before it was ordered to.

The leaders of very many new partitions are shown as soon as they are stored, and the orders follow
(`broker/term/backlog.py`). Whoever comes before the order waits here, as long as it may.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from klamm.broker.ground import Ground
from klamm.broker.replicas.partition import Partition
from klamm.model.names import TopicPartition

_WAIT_MS_MAX: Final = 5_000  # an order that takes longer is in trouble, and the client looks again


class Coming:
    """The requests that wait for this broker to host what it is said to lead."""

    def __init__(
        self, ground: Ground, hosted: Callable[[TopicPartition], Partition | None]
    ) -> None:
        self._ground = ground
        self._hosted = hosted
        self._waiting: dict[TopicPartition, list[asyncio.Future[None]]] = {}

    def is_coming(self, topic_partition: TopicPartition) -> bool:
        """Whether clients are sent here for a partition that is not here yet."""
        if self._hosted(topic_partition) is not None:
            return False
        shown = self._ground.metadata.snapshot.partition(topic_partition)
        return shown is not None and shown.leader == self._ground.id

    async def arrival(self, awaited: Iterable[TopicPartition], wait_ms: int) -> None:
        """Until these are here, or the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + min(wait_ms, _WAIT_MS_MAX) / 1000
        for topic_partition in awaited:
            if not self.is_coming(topic_partition):
                continue
            here: asyncio.Future[None] = loop.create_future()
            self._waiting.setdefault(topic_partition, []).append(here)
            try:
                async with asyncio.timeout_at(end):
                    await here
            except TimeoutError:
                return
            finally:
                self._leave(topic_partition, here)

    def arrived(self, partition: Partition) -> None:
        """A role was taken: nobody needs to wait for it any more."""
        if self._waiting:
            for here in self._waiting.get(partition.topic_partition, ()):
                if not here.done():
                    here.set_result(None)

    def _leave(self, topic_partition: TopicPartition, here: asyncio.Future[None]) -> None:
        others = self._waiting[topic_partition]
        others.remove(here)
        if not others:
            del self._waiting[topic_partition]
