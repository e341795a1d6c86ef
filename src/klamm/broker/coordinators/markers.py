"""Sends the ends of transactions to the partitions they wrote to, until each has its marker.

Partitions move while markers are on their way: after a refusal the leader is looked up again. A
partition that is gone needs no marker. Only the end of the coordinator's term, or a newer
coordinator, ends the sending otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

from klamm.broker.coordinators.transactions import MarkerOrder
from klamm.broker.metadata_cache import MetadataCache
from klamm.model.errors import ErrorCode, KlammError
from klamm.model.names import NO_LEADER, BrokerId, TopicPartition
from klamm.protocol.messages import write_txn_markers as messages

log = logging.getLogger("klamm.transactions")

_RETRY_S: Final = 0.05
_PATIENCE_MS: Final = 1_000
# The partition is gone, or a newer coordinator or producer has had the last word.
_FINAL: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)

Ask = Callable[[BrokerId, messages.Request], Awaitable[messages.Response]]


class MarkerSender:
    """Brings markers to the leaders of partitions."""

    def __init__(self, metadata: MetadataCache, ask: Ask) -> None:
        self._metadata = metadata
        self._ask = ask

    async def send(self, marker: MarkerOrder) -> None:
        """Return when every partition has the marker or needs none."""
        missing = set(marker.partitions)
        while missing:
            by_leader = self._by_leader(missing)
            answers = await asyncio.gather(
                *(self._tell(leader, marker, told) for leader, told in by_leader.items())
            )
            for done in answers:
                missing -= done
            if missing:
                await self._wait_for_news(missing)

    def _by_leader(self, missing: set[TopicPartition]) -> dict[BrokerId, list[TopicPartition]]:
        snapshot = self._metadata.snapshot
        found: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
        for at in sorted(missing):
            info = snapshot.partition(at)
            if info is None:
                missing.discard(at)
            elif info.leader != NO_LEADER and info.leader in snapshot.brokers:
                found[info.leader].append(at)
        return dict(found)

    async def _tell(
        self, leader: BrokerId, marker: MarkerOrder, partitions: list[TopicPartition]
    ) -> set[TopicPartition]:
        topics: defaultdict[str, list[int]] = defaultdict(list)
        for at in partitions:
            topics[at.topic].append(at.partition)
        request = messages.Request(
            markers=[
                messages.WritableTxnMarker(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=marker.commit,
                    coordinator_epoch=marker.coordinator_epoch,
                    topics=[
                        messages.WritableTxnMarkerTopic(name=name, partition_indexes=numbers)
                        for name, numbers in topics.items()
                    ],
                )
            ]
        )
        try:
            response = await self._ask(leader, request)
        except (KlammError, OSError) as unreachable:
            log.info("marker not delivered", extra={"to": leader, "why": str(unreachable)})
            return set()
        return {
            TopicPartition(topic.name, partition.partition_index)
            for answer in response.markers
            for topic in answer.topics
            for partition in topic.partitions
            if partition.error_code in _FINAL
        }

    async def _wait_for_news(self, missing: set[TopicPartition]) -> None:
        """A change of any of the leaders is a reason to try at once; a little time is another."""
        await asyncio.sleep(_RETRY_S)
        before = self._metadata.snapshot
        known = {at: before.partition(at) for at in missing}
        if all(info is not None and info.leader in before.brokers for info in known.values()):
            return
        await self._metadata.wait_for(
            lambda now: any(now.partition(at) != info for at, info in known.items()),
            timeout_ms=_PATIENCE_MS,
        )
