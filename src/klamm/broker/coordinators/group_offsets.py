"""Keeps the offsets of all groups of this broker, and the groups that are nothing but offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from klamm.broker.clock import Clock
from klamm.broker.coordinators import records
from klamm.broker.coordinators.allowance import Allowance
from klamm.broker.coordinators.completion import ToTheEnd
from klamm.broker.coordinators.consumer_groups import ConsumerGroups
from klamm.broker.coordinators.journal import Journal, told_to_clients
from klamm.broker.coordinators.shards import Shard, Shards
from klamm.groups.classic.group import Group
from klamm.groups.classic.requests import GroupLimits, GroupState
from klamm.groups.offsets import CommittedOffset, GroupOffsets, expired, expired_unread
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol import internal


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as it is shown in a list."""

    id: str
    type: str
    state: str
    protocol_type: str


class OffsetKeeper:
    """The offsets kept by this broker."""

    def __init__(
        self,
        shards: Shards,
        consumers: ConsumerGroups,
        journal: Journal,
        clock: Clock,
        *,
        allowance: Allowance,
        limits: GroupLimits,
        retention_ms: int,
        empty_for_ms: int,
        to_the_end: ToTheEnd,
    ) -> None:
        self._shards = shards
        self._consumers = consumers
        self._journal = journal
        self._clock = clock
        self._allowance = allowance
        self._limits = limits
        self._retention_ms = retention_ms
        self._empty_for_ms = empty_for_ms
        self._to_the_end = to_the_end

    async def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        producer: tuple[int, int] | None = None,
    ) -> ErrorCode:
        """Make offsets durable; inside a transaction they count when it commits."""
        shard = self._shards.of(group_id, nameless=True)
        if isinstance(shard, ErrorCode):
            return shard
        if not offsets:
            return ErrorCode.NONE
        kept = shard.offsets.get(group_id) or GroupOffsets()
        if not self._allowance.take(kept.more_for(offsets, stage=producer is not None)):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return await self._to_the_end(lambda: self._commit(shard, group_id, offsets, producer))

    async def _commit(
        self,
        shard: Shard,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        producer: tuple[int, int] | None,
    ) -> ErrorCode:
        producer_id, producer_epoch = producer or (-1, -1)
        batch = records.batch_of(
            records.offset_pairs(group_id, offsets),
            now_ms=self._clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=producer is not None,
        )
        written = await self._journal.append(shard.partition, batch)
        if written.error is not ErrorCode.NONE:
            return told_to_clients(written.error, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        placed = {
            at: replace(offset, log_offset=written.base_offset + i)
            for i, (at, offset) in enumerate(offsets.items())
        }
        if producer is None:
            shard.offsets_of(group_id).commit(placed)
        else:
            shard.stage(group_id, producer_id, placed)
        return ErrorCode.NONE

    def finish_transaction(
        self, partition: TopicPartition, producer_id: int, *, commit: bool
    ) -> None:
        """A marker has arrived in a partition of the offsets topic."""
        shard = self._shards.by_number.get(partition.partition)
        if shard is not None:
            shard.finish(producer_id, commit=commit)

    async def forget_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Topics are gone: so are the offsets in them."""
        gone = set(partitions)
        for shard in self._shards:
            for group_id, offsets in list(shard.offsets.items()):
                dead = [at for at in offsets.committed if at in gone]
                if dead:
                    await self.delete(shard, group_id, dead)

    async def delete(
        self, shard: Shard, group_id: str, partitions: Iterable[TopicPartition]
    ) -> ErrorCode:
        """Write tombstones, then forget."""
        tombstones: dict[TopicPartition, CommittedOffset | None] = dict.fromkeys(partitions)
        if not tombstones:
            return ErrorCode.NONE
        return await self._to_the_end(lambda: self._forget(shard, group_id, tombstones))

    async def _forget(
        self,
        shard: Shard,
        group_id: str,
        tombstones: Mapping[TopicPartition, CommittedOffset | None],
    ) -> ErrorCode:
        batch = records.batch_of(
            records.offset_pairs(group_id, tombstones), now_ms=self._clock.now_ms()
        )
        written = await self._journal.append(shard.partition, batch)
        if written.error is ErrorCode.NONE:
            shard.offsets_of(group_id).forget(tombstones)
        return told_to_clients(written.error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Remove a group that has no members, with all its offsets."""
        return await self._to_the_end(lambda: self._delete_group(group_id))

    async def _delete_group(self, group_id: str) -> ErrorCode:
        shard = self._shards.of(group_id, nameless=True)
        if isinstance(shard, ErrorCode):
            return shard
        group, offsets = shard.groups.get(group_id), shard.offsets.get(group_id)
        tombstones: dict[TopicPartition, CommittedOffset | None] = dict.fromkeys(
            offsets.committed if offsets is not None else ()
        )
        pairs = records.offset_pairs(group_id, tombstones)
        if shard.consumer(group_id) is not None:
            fault = await self._consumers.delete(shard, group_id, pairs)
            if fault is not None:
                return fault
        elif group is None and (offsets is None or offsets.is_empty):
            return ErrorCode.GROUP_ID_NOT_FOUND
        elif group is not None and group.members:
            return ErrorCode.NON_EMPTY_GROUP
        else:
            pairs.append(records.group_tombstone(group_id))
            batch = records.batch_of(pairs, now_ms=self._clock.now_ms())
            written = await self._journal.append(shard.partition, batch)
            if written.error is not ErrorCode.NONE:
                return told_to_clients(written.error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)
            if group is not None and not group.members:
                group.state = GroupState.DEAD
                shard.groups.pop(group_id, None)
        shard.offsets.pop(group_id, None)
        return ErrorCode.NONE

    async def expire(self) -> None:
        """Forget offsets that nobody will ask for, and groups that have nothing left."""
        now_ms = self._clock.now_ms()
        for shard in self._shards:
            for group_id in shard.group_ids:
                if shard.consumer(group_id) is not None:
                    await self._expire_unread(shard, group_id, now_ms)
                else:
                    await self._expire_classic(shard, group_id, now_ms)

    async def _expire_classic(self, shard: Shard, group_id: str, now_ms: int) -> None:
        group = shard.groups.get(group_id) or Group(group_id, self._limits, now_ms)
        offsets = shard.offsets_of(group_id)
        read = subscription_of(group)
        due = expired(group, offsets, read, now_ms=now_ms, retention_ms=self._retention_ms)
        await self.delete(shard, group_id, due)
        idle = now_ms - group.state_time_ms >= self._empty_for_ms
        if group.state is GroupState.EMPTY and offsets.is_empty and idle:
            await self.delete_group(group_id)

    async def _expire_unread(self, shard: Shard, group_id: str, now_ms: int) -> None:
        consumer = shard.consumer(group_id)
        assert consumer is not None, group_id
        offsets = shard.offsets_of(group_id)
        due = expired_unread(
            offsets, consumer.subscribed, now_ms=now_ms, retention_ms=self._retention_ms
        )
        await self.delete(shard, group_id, due)
        if not consumer.members and offsets.is_empty:
            await self.delete_group(group_id)

    def groups(self) -> list[ListedGroup]:
        """Every group kept here, also those that only hold offsets."""
        found = []
        for shard in self._shards:
            for group_id in shard.group_ids:
                listed = _listed(shard, group_id)
                if listed is not None:
                    found.append(listed)
        return sorted(found, key=lambda listed: listed.id)


def _listed(shard: Shard, group_id: str) -> ListedGroup | None:
    consumer = shard.consumer(group_id)
    if consumer is not None:
        return ListedGroup(
            id=group_id, type="consumer", state=consumer.state.value, protocol_type="consumer"
        )
    group = shard.groups.get(group_id)
    if group is None and shard.offsets.get(group_id, GroupOffsets()).is_empty:
        return None
    return ListedGroup(
        id=group_id,
        type="classic",
        state=(GroupState.EMPTY if group is None else group.state).value,
        protocol_type=(group.protocol_type if group is not None else None) or "",
    )


def subscription_of(group: Group) -> frozenset[str] | None:
    """The topics that a group of ordinary consumers reads, None where that cannot be known."""
    if group.protocol_type != "consumer" or group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members:
        read = internal.subscribed_topics(member.metadata(group.protocol))
        if read is None:
            return None
        topics |= read
    return frozenset(topics)
