"""Caches the metadata of the whole cluster, as the controller sent it last.

Each UpdateMetadata makes a new snapshot; whoever holds one sees a single moment. Live brokers and
the controller are replaced by those of the request, which always lists them all; partitions are
merged. No epochs are compared here: requests of one controller arrive in order, and those of an
old one have been refused before.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar, cast

from klamm.model.brokers import SECURITY_PROTOCOL_IDS, Endpoint, Registration
from klamm.model.names import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    ZERO_ID,
    BrokerId,
    TopicPartition,
)
from klamm.protocol.messages import update_metadata

K = TypeVar("K")
V = TypeVar("V")

_PROTOCOL_NAMES = {number: name for name, number in SECURITY_PROTOCOL_IDS.items()}
_brokers: Final = cast(Callable[[Iterable[int]], tuple[BrokerId, ...]], tuple)


class PartitionInfo(NamedTuple):
    """One partition as clients are told of it."""

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...]
    partition_epoch: int


# Most partitions stand like many others, on every broker of the process: each way to stand is kept
# once. In a cluster where more come together than this, they are kept for themselves.
_ALIKE_MAX: Final = 10_000
_alike: Final[dict[PartitionInfo, PartitionInfo]] = {}


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """The cluster at one moment."""

    topics: Mapping[str, Mapping[int, PartitionInfo]] = field(default_factory=dict)
    topic_ids: Mapping[str, uuid.UUID] = field(default_factory=dict)
    topic_names: Mapping[uuid.UUID, str] = field(default_factory=dict)
    brokers: Mapping[BrokerId, Registration] = field(default_factory=dict)
    controller_id: BrokerId = NO_LEADER
    # Answers that were already encoded for this moment, by what was asked.
    encoded: dict[object, bytes] = field(default_factory=dict, compare=False)
    # The brokers that have a listener, by its name, as far as somebody has asked.
    _listening: dict[str, frozenset[BrokerId]] = field(default_factory=dict, compare=False)

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        found = self.topics.get(partition[0])
        return None if found is None else found.get(partition[1])

    def is_led(self, topic: str, count: int) -> bool:
        """Whether this many partitions of a topic are known and all have a leader."""
        partitions = self.topics.get(topic, {})
        return len(partitions) >= count and all(
            info.leader != NO_LEADER for info in partitions.values()
        )

    def listening(self, listener: str) -> frozenset[BrokerId]:
        """The live brokers that have this listener."""
        found = self._listening.get(listener)
        if found is None:
            having = (b for b, live in self.brokers.items() if live.endpoint(listener) is not None)
            found = self._listening[listener] = frozenset(having)
        return found

    def endpoint(self, broker: BrokerId, listener: str) -> Endpoint | None:
        """The address of a broker, if it is live and has this listener."""
        found = self.brokers.get(broker)
        return None if found is None else found.endpoint(listener)


Predicate = Callable[[MetadataSnapshot], bool]


class MetadataCache:
    """The newest snapshot, and who waits for a newer one."""

    def __init__(self) -> None:
        self.snapshot = MetadataSnapshot()
        self.is_introduced = False  # whether it has all topics of the store (`introduction.py`)
        self._waiting: dict[asyncio.Future[None], Predicate] = {}

    def apply(self, update: update_metadata.Request) -> frozenset[TopicPartition]:
        """Take over what the controller said; returns the partitions that are gone."""
        old = self.snapshot
        topics = _copied(old.topics)
        ids = _copied(old.topic_ids)
        names = _copied(old.topic_names)
        removed: set[TopicPartition] = set()

        dropped: dict[str, uuid.UUID] = {}

        def drop(topic: str) -> None:
            removed.update(TopicPartition(topic, index) for index in topics.pop(topic, ()))
            dropped[topic] = ids.pop(topic, ZERO_ID)
            if names.get(dropped[topic]) == topic:
                del names[dropped[topic]]

        for topic, topic_id, states in _by_topic(update):
            if topic_id != ZERO_ID:
                if ids.get(topic, topic_id) != topic_id:
                    drop(topic)  # another topic of that name: nothing of the earlier one stays
                ids[topic] = topic_id
                names[topic_id] = topic
            partitions = _copied(topics.get(topic, {}))
            for state in states:
                if state.leader == LEADER_DURING_DELETE:
                    if partitions.pop(state.partition_index, None) is not None:
                        removed.add(TopicPartition(topic, state.partition_index))
                else:
                    partitions[state.partition_index] = _info(state)
            if partitions:
                topics[topic] = MappingProxyType(partitions)
            else:
                topics.pop(topic, None)
                names.pop(ids.pop(topic, ZERO_ID), None)
        self.snapshot = MetadataSnapshot(
            MappingProxyType(topics),
            MappingProxyType(ids),
            MappingProxyType(names),
            MappingProxyType({BrokerId(live.id): _broker(live) for live in update.live_brokers}),
            BrokerId(update.controller_id),
        )
        self._wake()
        # A topic that goes on under another name is not gone: what is kept for its name stays.
        renamed = {topic for topic, topic_id in dropped.items() if topic_id in names}
        return frozenset(place for place in removed if place.topic not in renamed)

    def introduce(self) -> None:
        """From here on a topic that is not in the snapshot is one that there is not."""
        self.is_introduced = True
        self._wake()

    def forget(self, topics: Iterable[str]) -> frozenset[TopicPartition]:
        """Drop topics that the controller no longer speaks of; returns their partitions."""
        old = self.snapshot
        ended = {topic: old.topics[topic] for topic in topics if topic in old.topics}
        if not ended:
            return frozenset()
        self.snapshot = MetadataSnapshot(
            MappingProxyType({t: shown for t, shown in old.topics.items() if t not in ended}),
            MappingProxyType({t: id for t, id in old.topic_ids.items() if t not in ended}),
            MappingProxyType({id: t for id, t in old.topic_names.items() if t not in ended}),
            old.brokers,
            old.controller_id,
        )
        self._wake()
        return frozenset(TopicPartition(topic, i) for topic, known in ended.items() for i in known)

    async def wait_for(self, holds: Predicate, timeout_ms: int | None = None) -> bool:
        """Wait until a snapshot satisfies this; False when the time is over first."""
        if holds(self.snapshot):
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = holds
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await waiter
        except TimeoutError:
            return False
        else:
            return True
        finally:
            del self._waiting[waiter]

    def _wake(self) -> None:
        for waiter, holds in list(self._waiting.items()):
            if not waiter.done() and holds(self.snapshot):
                waiter.set_result(None)


def _copied(known: Mapping[K, V]) -> dict[K, V]:
    """A copy; what is behind a view is copied as a whole, and no key has to be hashed again."""
    return known.copy() if isinstance(known, MappingProxyType) else dict(known)


_States = Iterable[update_metadata.UpdateMetadataPartitionState]


def _by_topic(update: update_metadata.Request) -> Iterable[tuple[str, uuid.UUID, _States]]:
    for topic in update.topic_states:
        yield topic.topic_name, topic.topic_id, topic.partition_states
    # Before version 5 each state named its topic.
    flat: dict[str, list[update_metadata.UpdateMetadataPartitionState]] = {}
    for state in update.ungrouped_partition_states:
        flat.setdefault(state.topic_name, []).append(state)
    for name, states in flat.items():
        yield name, ZERO_ID, states


def _info(state: update_metadata.UpdateMetadataPartitionState) -> PartitionInfo:
    info = PartitionInfo(
        BrokerId(state.leader),
        state.leader_epoch,
        _brokers(state.isr),
        _brokers(state.replicas),
        _brokers(state.offline_replicas),
        state.zk_version,
    )
    if len(_alike) >= _ALIKE_MAX:
        _alike.clear()
    return _alike.setdefault(info, info)


def _broker(live: update_metadata.UpdateMetadataBroker) -> Registration:
    endpoints = [
        _endpoint(e.host, e.port, e.listener, e.security_protocol) for e in live.endpoints
    ] or [Endpoint(live.v0_host, live.v0_port)]
    return Registration(id=BrokerId(live.id), epoch=-1, endpoints=tuple(endpoints), rack=live.rack)


def _endpoint(host: str, port: int, listener: str, protocol: int) -> Endpoint:
    name = _PROTOCOL_NAMES.get(protocol, "")
    # Before version 3 a listener had no name but its protocol's.
    return Endpoint(host, port, listener or name, name)
