"""The group coordinator: runs the groups whose offsets partition this broker leads.

A partition of `__consumer_offsets` that is led here is a shard: it is read back when the broker
becomes its leader, and forgotten when it loses it. Requests that wait are futures behind the
cores' tokens. A group is answered only when what the answer promises is durable.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from klamm.broker.coordinators import records
from klamm.broker.coordinators.journal import Journal, partition_for, told_to_clients
from klamm.groups.group import Group, GroupState, Join, Limits, Sync
from klamm.groups.members import Decision, JoinAnswer, SyncAnswer, Token
from klamm.groups.offsets import CommittedOffset, GroupOffsets, expired
from klamm.model.errors import ErrorCode, KlammError
from klamm.model.names import CONSUMER_OFFSETS, TopicPartition
from klamm.protocol import internal
from klamm.protocol.batch import ControlKind, control_kind, decode_records, parse_header

log = logging.getLogger("klamm.groups")


class Clock(Protocol):
    """Where the time comes from."""

    def now_ms(self) -> int: ...


@dataclass(slots=True)
class Shard:
    """One partition of the offsets topic, led here."""

    partition: TopicPartition
    epoch: int
    is_loading: bool = True
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: dict[str, GroupOffsets] = field(default_factory=dict)

    def offsets_of(self, group: str) -> GroupOffsets:
        return self.offsets.setdefault(group, GroupOffsets())


class GroupCoordinator:
    """The groups kept by this broker."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        limits: Limits,
        retention_ms: int,
        retention_check_ms: int,
        partition_count: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._limits = limits
        self._retention_ms = retention_ms
        self._retention_check_ms = retention_check_ms
        self._partition_count = partition_count
        self._shards: dict[int, Shard] = {}
        self._waiting: dict[Token, asyncio.Future[JoinAnswer | SyncAnswer]] = {}
        self._tokens = itertools.count(1)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Own the coordinator's tasks until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                while True:
                    await asyncio.sleep(self._retention_check_ms / 1000)
                    await self.expire_offsets()
        finally:
            self._tasks = None
            for timer in self._timers.values():
                timer.cancel()
            for number in list(self._shards):
                self.unload(TopicPartition(CONSUMER_OFFSETS, number))

    # --- becoming and ceasing to be the coordinator
    # ------------------------------------------------

    def load(self, partition: TopicPartition, epoch: int) -> None:
        """This broker leads a partition of the offsets topic from now on."""
        known = self._shards.get(partition.partition)
        if known is not None and known.epoch >= epoch:
            return
        if known is not None and not known.is_loading:
            known.epoch = epoch  # elected again without having lost it
            return
        shard = Shard(partition, epoch)
        self._shards[partition.partition] = shard
        if self._tasks is not None:
            self._tasks.create_task(self._load(shard))

    async def _load(self, shard: Shard) -> None:
        found: dict[str, Group] = {}
        now_ms = self._clock.now_ms()
        try:
            async for batch in self._journal.batches(shard.partition):
                self._replay(shard, found, batch, now_ms)
        except (KlammError, OSError):
            log.exception("cannot load a partition of the offsets topic", extra={"p": shard.epoch})
            return
        if self._shards.get(shard.partition.partition) is not shard:
            return
        shard.groups.update(found)
        shard.is_loading = False
        for group in found.values():
            self._arm(shard, group)
        log.info(
            "loaded",
            extra={"partition": str(shard.partition), "groups": len(found), "epoch": shard.epoch},
        )

    def _replay(
        self, shard: Shard, found: dict[str, Group], batch: memoryview, now_ms: int
    ) -> None:
        header = parse_header(batch, 0)
        if header.is_control:
            commit = control_kind(batch) is ControlKind.COMMIT
            for offsets in shard.offsets.values():
                offsets.finish(header.producer_id, commit=commit)
            return
        for record in decode_records(batch):
            key = internal.decode_offsets_key(record.key or b"")
            value = record.value
            match key:
                case internal.GroupKey(group) if value is None:
                    found.pop(group, None)
                case internal.GroupKey(group):
                    assert value is not None
                    written = records.group_record(group, bytes(value))
                    found[group] = Group.restored(written, self._limits, now_ms)
                case internal.OffsetKey(group, topic, number):
                    at = TopicPartition(topic, number)
                    offsets = shard.offsets_of(group)
                    if value is None:
                        offsets.forget([at])
                        continue
                    offset = records.committed_offset(bytes(value), record.offset)
                    if header.is_transactional:
                        offsets.stage(header.producer_id, {at: offset})
                    else:
                        offsets.commit({at: offset})

    def unload(self, partition: TopicPartition) -> None:
        """This broker does not lead the partition any more: its groups are another's now."""
        shard = self._shards.pop(partition.partition, None)
        if shard is None:
            return
        moved = ErrorCode.NOT_COORDINATOR
        for group in shard.groups.values():
            if (timer := self._timers.pop(group.id, None)) is not None:
                timer.cancel()
            for member in group.members:
                self._answer(member.awaits_join, JoinAnswer(error=moved, member_id=member.id))
                self._answer(member.awaits_sync, SyncAnswer(error=moved))

    def shard(self, group: str) -> Shard | ErrorCode:
        """Where a group is kept here, or why it is not."""
        if not group:
            return ErrorCode.INVALID_GROUP_ID
        found = self._shards.get(partition_for(group, self._partition_count()))
        if found is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if found.is_loading else found

    # --- membership
    # --------------------------------------------------------------------------------

    def fresh_member_id(self, prefix: str) -> str:
        return f"{prefix}-{uuid.uuid4()}"

    def next_token(self) -> Token:
        return next(self._tokens)

    async def join(self, group_id: str, request: Join) -> JoinAnswer:
        """Answered when the next generation begins."""
        shard = self.shard(group_id)
        if isinstance(shard, ErrorCode):
            return JoinAnswer(error=shard, member_id=request.member_id)
        group = shard.groups.get(group_id)
        if group is None:
            if request.member_id:
                stranger = ErrorCode.UNKNOWN_MEMBER_ID
                return JoinAnswer(error=stranger, member_id=request.member_id)
            group = Group(group_id, self._limits, self._clock.now_ms())
            shard.groups[group_id] = group
        decision = group.join(request, self._clock.now_ms())
        answer = await self._wait(shard, group, request.token, decision)
        assert isinstance(answer, JoinAnswer), answer
        return answer

    async def sync(self, group_id: str, request: Sync) -> SyncAnswer:
        """Answered when the leader's assignment is durable."""
        shard = self.shard(group_id)
        if isinstance(shard, ErrorCode):
            loading = shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return SyncAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS if loading else shard)
        group = shard.groups.get(group_id)
        if group is None:
            return SyncAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID)
        decision = group.sync(request, self._clock.now_ms())
        answer = await self._wait(shard, group, request.token, decision)
        assert isinstance(answer, SyncAnswer), answer
        return answer

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        shard = self.shard(group_id)
        if isinstance(shard, ErrorCode):
            loading = shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if loading else shard
        group = shard.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.heartbeat(member_id, instance_id, generation, self._clock.now_ms())
        self._arm(shard, group)
        return error

    def leave(
        self, group_id: str, members: Iterable[tuple[str, str | None]]
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """Let members go; one error for the request, and one for each of them."""
        shard = self.shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard, []
        group = shard.groups.get(group_id)
        errors = []
        for member_id, instance_id in members:
            if group is None:
                errors.append(ErrorCode.UNKNOWN_MEMBER_ID)
                continue
            error, decision = group.leave(member_id, instance_id, self._clock.now_ms())
            self._carry_out(shard, group, decision)
            errors.append(error)
        return ErrorCode.NONE, errors

    async def _wait(
        self, shard: Shard, group: Group, token: Token, decision: Decision
    ) -> JoinAnswer | SyncAnswer:
        answer: asyncio.Future[JoinAnswer | SyncAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        try:
            self._carry_out(shard, group, decision)
            return await answer
        finally:
            self._waiting.pop(token, None)

    def _answer(self, token: Token | None, answer: JoinAnswer | SyncAnswer) -> None:
        waiting = self._waiting.get(token) if token is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _carry_out(self, shard: Shard, group: Group, decision: Decision) -> None:
        for reply in decision.replies:
            self._answer(reply.token, reply.answer)
        if decision.persist is not None and self._tasks is not None:
            self._tasks.create_task(self._persist(shard, group, decision))
        self._arm(shard, group)

    async def _persist(self, shard: Shard, group: Group, decision: Decision) -> None:
        assert decision.persist is not None
        record = decision.persist.record
        batch = records.batch_of([records.group_pair(record)], now_ms=self._clock.now_ms())
        written = await self._journal.append(shard.partition, batch)
        if self._shards.get(shard.partition.partition) is not shard:
            return
        error = told_to_clients(written.error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)
        settled = group.persisted(record.generation, error, self._clock.now_ms())
        self._carry_out(shard, group, settled)

    def _arm(self, shard: Shard, group: Group) -> None:
        """Make sure that the group hears of the time when it wants to.

        A timer that is set too early is left: it finds nothing to do and is set again. So the many
        heartbeats that only push a deadline back cost nothing here.
        """
        deadline_ms = group.deadline_ms
        if deadline_ms is None:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(0, deadline_ms - self._clock.now_ms()) / 1000
        armed = self._timers.get(group.id)
        if armed is not None and not armed.cancelled() and armed.when() <= due:
            return
        if armed is not None:
            armed.cancel()
        self._timers[group.id] = loop.call_at(due, self._tick, shard, group)

    def _tick(self, shard: Shard, group: Group) -> None:
        self._timers.pop(group.id, None)
        is_ours = self._shards.get(shard.partition.partition) is shard
        if is_ours and shard.groups.get(group.id) is group:
            self._carry_out(shard, group, group.tick(self._clock.now_ms()))

    # --- offsets
    # -----------------------------------------------------------------------------------

    def commit_fault(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode | None:
        """Why an ordinary commit is refused as a whole."""
        shard = self.shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.groups.get(group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            group = Group(group_id, self._limits, self._clock.now_ms())
            shard.groups[group_id] = group
        fault = group.commit_fault(member_id, instance_id, generation, self._clock.now_ms())
        self._arm(shard, group)
        return fault

    def txn_commit_fault(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode | None:
        """Why a commit inside a transaction is refused as a whole."""
        shard = self.shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.groups.get(group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            group = Group(group_id, self._limits, self._clock.now_ms())
            shard.groups[group_id] = group
        return group.txn_commit_fault(member_id, instance_id, generation)

    async def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        producer: tuple[int, int] | None = None,
    ) -> ErrorCode:
        """Make offsets durable; inside a transaction they count when it commits."""
        shard = self.shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        if not offsets:
            return ErrorCode.NONE
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
        kept = shard.offsets_of(group_id)
        if producer is None:
            kept.commit(placed)
        else:
            kept.stage(producer_id, placed)
        return ErrorCode.NONE

    def finish_transaction(
        self, partition: TopicPartition, producer_id: int, *, commit: bool
    ) -> None:
        """A marker has arrived in a partition of the offsets topic."""
        shard = self._shards.get(partition.partition)
        for offsets in shard.offsets.values() if shard is not None else ():
            offsets.finish(producer_id, commit=commit)

    async def forget_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Topics are gone: so are the offsets in them."""
        gone = set(partitions)
        for shard in list(self._shards.values()):
            for group_id, offsets in list(shard.offsets.items()):
                dead = [at for at in offsets.committed if at in gone]
                if dead:
                    await self.delete_offsets(shard, group_id, dead)

    async def delete_offsets(
        self, shard: Shard, group_id: str, partitions: Iterable[TopicPartition]
    ) -> ErrorCode:
        """Write tombstones, then forget."""
        tombstones: dict[TopicPartition, CommittedOffset | None] = dict.fromkeys(partitions)
        if not tombstones:
            return ErrorCode.NONE
        batch = records.batch_of(
            records.offset_pairs(group_id, tombstones), now_ms=self._clock.now_ms()
        )
        written = await self._journal.append(shard.partition, batch)
        if written.error is ErrorCode.NONE:
            shard.offsets_of(group_id).forget(tombstones)
        return told_to_clients(written.error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Remove a group that has no members, with all its offsets."""
        shard = self.shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.groups.get(group_id)
        offsets = shard.offsets.get(group_id)
        if group is None and (offsets is None or offsets.is_empty):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group is not None and group.members:
            return ErrorCode.NON_EMPTY_GROUP
        tombstones: dict[TopicPartition, CommittedOffset | None] = dict.fromkeys(
            offsets.committed if offsets is not None else ()
        )
        pairs = [*records.offset_pairs(group_id, tombstones), records.group_tombstone(group_id)]
        batch = records.batch_of(pairs, now_ms=self._clock.now_ms())
        written = await self._journal.append(shard.partition, batch)
        if written.error is not ErrorCode.NONE:
            return told_to_clients(written.error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)
        if group is not None and not group.members:
            group.state = GroupState.DEAD
            shard.groups.pop(group_id, None)
        shard.offsets.pop(group_id, None)
        return ErrorCode.NONE

    async def expire_offsets(self) -> None:
        """Forget offsets that nobody will ask for, and groups that have nothing left."""
        now_ms = self._clock.now_ms()
        for shard in list(self._shards.values()):
            if shard.is_loading:
                continue
            for group_id in list(shard.offsets.keys() | shard.groups.keys()):
                group = shard.groups.get(group_id) or Group(group_id, self._limits, now_ms)
                offsets = shard.offsets_of(group_id)
                due = expired(
                    group,
                    offsets,
                    subscription_of(group),
                    now_ms=now_ms,
                    retention_ms=self._retention_ms,
                )
                await self.delete_offsets(shard, group_id, due)
                idle = now_ms - group.state_time_ms >= self._retention_check_ms
                if group.state is GroupState.EMPTY and offsets.is_empty and idle:
                    await self.delete_group(group_id)

    def groups(self) -> list[tuple[Group, GroupOffsets]]:
        """Every group kept here, also those that only hold offsets."""
        now_ms = self._clock.now_ms()
        found = []
        for shard in self._shards.values():
            for group_id in shard.groups.keys() | shard.offsets.keys():
                group = shard.groups.get(group_id)
                offsets = shard.offsets.get(group_id, GroupOffsets())
                if group is None and offsets.is_empty:
                    continue
                found.append((group or Group(group_id, self._limits, now_ms), offsets))
        return sorted(found, key=lambda pair: pair[0].id)

    @property
    def is_loading(self) -> bool:
        return any(shard.is_loading for shard in self._shards.values())


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
