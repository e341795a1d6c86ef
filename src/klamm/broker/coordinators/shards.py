"""Keeps the groups of one partition of the offsets topic, and reads them back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from klamm.broker.coordinators import consumer_records, records
from klamm.broker.coordinators.journal import partition_for
from klamm.broker.coordinators.portions import portions, tell
from klamm.groups.classic.group import Group
from klamm.groups.classic.requests import GroupLimits
from klamm.groups.consumer.sessions import MemberSessions
from klamm.groups.consumer.state import ConsumerGroup
from klamm.groups.offsets import CommittedOffset, GroupOffsets
from klamm.log.segments.batches import read_marker
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.model.names import TopicPartition
from klamm.protocol import internal, internal_consumer
from klamm.protocol.batch import Record, parse_header


@dataclass(slots=True)
class KeptGroup:
    """A consumer group of the new protocol, and what a coordinator needs beside it."""

    group: ConsumerGroup
    sessions: MemberSessions = field(default_factory=MemberSessions)
    # One event at a time: the next begins when what the last decided is durable.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    looked_at: object = None  # the picture of the cluster that the group was last compared with
    is_unsure: bool = False  # what it is has been appended, but not seen on all replicas


@dataclass(slots=True)
class Shard:
    """One partition of the offsets topic, led here. A group is in one of the two maps."""

    partition: TopicPartition
    epoch: int
    is_loading: bool = True
    groups: dict[str, Group] = field(default_factory=dict)
    consumers: dict[str, KeptGroup] = field(default_factory=dict)
    offsets: dict[str, GroupOffsets] = field(default_factory=dict)
    # The groups in whose offsets a producer's open transaction is, so that its end finds them.
    staged_by: dict[int, set[str]] = field(default_factory=dict)

    def offsets_of(self, group: str) -> GroupOffsets:
        return self.offsets.setdefault(group, GroupOffsets())

    def forget(self) -> None:
        """Begin anew, to be read back from the beginning."""
        self.groups.clear()
        self.consumers.clear()
        self.offsets.clear()
        self.staged_by.clear()

    def stage(
        self, group: str, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Offsets of a transaction are durable, but their transaction is still open."""
        self.offsets_of(group).stage(producer_id, offsets)
        self.staged_by.setdefault(producer_id, set()).add(group)

    def finish(self, producer_id: int, *, commit: bool) -> None:
        """A transaction has ended here."""
        for group in self.staged_by.pop(producer_id, ()):
            offsets = self.offsets.get(group)
            if offsets is not None:
                offsets.finish(producer_id, commit=commit)

    @property
    def weight(self) -> int:
        """About how many bytes of memory all of it takes."""
        return (
            sum(group.weight for group in self.groups.values())
            + sum(kept.group.weight for kept in self.consumers.values())
            + sum(offsets.weight for offsets in self.offsets.values())
        )

    @property
    def group_ids(self) -> set[str]:
        return self.groups.keys() | self.consumers.keys() | self.offsets.keys()

    def consumer(self, group: str) -> ConsumerGroup | None:
        """The group of the new protocol under this id, unless its first member is still coming."""
        kept = self.consumers.get(group)
        return kept.group if kept is not None and kept.group.epoch > 0 else None

    async def replay(self, batch: memoryview, limits: GroupLimits, now_ms: int) -> None:
        """Take over what a batch of the partition tells."""
        header = parse_header(batch, 0)
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None:
                self.finish(header.producer_id, commit=marker.committed)
            return
        producer = header.producer_id if header.is_transactional else None
        async for some in portions(self.partition, header, batch):
            for record in some:
                try:
                    self._replay_record(record, producer, limits, now_ms)
                except ProtocolError as fault:
                    tell(self.partition, record.offset, fault)

    def _replay_record(
        self, record: Record, producer: int | None, limits: GroupLimits, now_ms: int
    ) -> None:
        key = internal.decode_offsets_key(record.key or b"")
        match key:
            case internal.GroupKey(group):
                self._replay_group(group, record.value, limits, now_ms)
            case internal.OffsetKey():
                self._replay_offset(key, record, producer)
            case None:
                self._replay_consumer(record)

    def _replay_group(
        self, group: str, value: bytes | memoryview | None, limits: GroupLimits, now_ms: int
    ) -> None:
        if value is None:
            self.groups.pop(group, None)
        else:
            written = records.group_record(group, bytes(value))
            self.groups[group] = Group.restored(written, limits, now_ms)

    def _replay_offset(self, key: internal.OffsetKey, record: Record, producer: int | None) -> None:
        at = TopicPartition(key.topic, key.partition)
        if record.value is None:
            self.offsets_of(key.group).forget([at])
            return
        offset = records.committed_offset(bytes(record.value), record.offset)
        if producer is None:
            self.offsets_of(key.group).commit({at: offset})
        else:
            self.stage(key.group, producer, {at: offset})

    def _replay_consumer(self, record: Record) -> None:
        key = internal_consumer.decode_key(record.key or b"")
        if key is None:
            return
        kept = self.consumers.setdefault(key.group, KeptGroup(ConsumerGroup(key.group)))
        data = None if record.value is None else bytes(record.value)
        kept.group.apply(consumer_records.change(key, data))
        if key.kind is internal_consumer.RecordKind.GROUP_METADATA and data is None:
            del self.consumers[key.group]


class Shards:
    """The partitions of the offsets topic that are led here."""

    def __init__(self, partition_count: Callable[[], int]) -> None:
        self._partition_count = partition_count
        self.by_number: dict[int, Shard] = {}

    def __iter__(self) -> Iterator[Shard]:
        """Those that are loaded; the map may change meanwhile."""
        return iter([shard for shard in self.by_number.values() if not shard.is_loading])

    def of(self, group: str, *, nameless: bool = False) -> Shard | ErrorCode:
        """The shard that keeps a group here, or the reason why none does.

        A group with members has a name. Offsets may be kept without one, as old clients do.
        """
        if not group and not nameless:
            return ErrorCode.INVALID_GROUP_ID
        found = self.by_number.get(partition_for(group, self._partition_count()))
        if found is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if found.is_loading else found

    def keep(self, shard: Shard) -> bool:
        """Whether this is still what is kept of its partition, and nobody else's by now."""
        return self.by_number.get(shard.partition.partition) is shard

    @property
    def is_loading(self) -> bool:
        return any(shard.is_loading for shard in self.by_number.values())
