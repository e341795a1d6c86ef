"""The group coordinator: runs the groups whose offsets partition this broker leads.

A partition of `__consumer_offsets` that is led here is a shard: it is read back when the broker
becomes its leader, and forgotten when it loses it. This page loads shards and runs classic groups;
groups of the new protocol and offsets have pages of their own. Requests that wait are futures
behind the cores' tokens. A group is answered only when what the answer promises is durable.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Callable, Iterable

from klamm.broker.clock import Clock
from klamm.broker.coordinators import records
from klamm.broker.coordinators.alarms import Alarms
from klamm.broker.coordinators.allowance import Allowance
from klamm.broker.coordinators.completion import ToTheEnd
from klamm.broker.coordinators.consumer_groups import ClusterTopics, ConsumerGroups
from klamm.broker.coordinators.group_offsets import OffsetKeeper
from klamm.broker.coordinators.journal import Journal, told_to_clients, until_read_back
from klamm.broker.coordinators.shards import Shard, Shards
from klamm.groups.classic.group import Group
from klamm.groups.classic.members import Decision, JoinAnswer, SyncAnswer, Token
from klamm.groups.classic.rebalance import GROUP_BYTES
from klamm.groups.classic.requests import GroupLimits, Join, Sync
from klamm.groups.consumer.events import ConsumerLimits, commit_fault
from klamm.model.errors import ErrorCode
from klamm.model.names import CONSUMER_OFFSETS, TopicPartition

log = logging.getLogger("klamm.groups")


class GroupCoordinator:
    """The groups kept by this broker."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        allowance: Allowance,
        limits: GroupLimits,
        consumer_limits: ConsumerLimits,
        retention_ms: int,
        retention_check_ms: int,
        partition_count: Callable[[], int],
        cluster_topics: Callable[[], ClusterTopics | None],
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._allowance = allowance
        self._limits = limits
        self._retention_check_ms = retention_check_ms
        self._shards = Shards(partition_count)
        self._waiting: dict[Token, asyncio.Future[JoinAnswer | SyncAnswer]] = {}
        self._tokens = itertools.count(1)
        self._alarms = Alarms(clock)
        self._tasks: asyncio.TaskGroup | None = None
        self._to_the_end = ToTheEnd()
        self.consumers = ConsumerGroups(
            self._shards,
            journal,
            clock,
            allowance=allowance,
            limits=consumer_limits,
            cluster_topics=cluster_topics,
            ends_classic=self._alarms.cancel,
            to_the_end=self._to_the_end,
        )
        self.offsets = OffsetKeeper(
            self._shards,
            self.consumers,
            journal,
            clock,
            allowance=allowance,
            limits=limits,
            retention_ms=retention_ms,
            empty_for_ms=retention_check_ms,
            to_the_end=self._to_the_end,
        )

    async def run(self) -> None:
        """Own the coordinator's tasks until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = self._to_the_end.tasks = tasks
                for shard in list(self._shards.by_number.values()):
                    self._begin(shard)  # led here before this ran
                tasks.create_task(self.consumers.run())
                while True:
                    await asyncio.sleep(self._retention_check_ms / 1000)
                    await self.offsets.expire()
        finally:
            self._tasks = self._to_the_end.tasks = None
            self._alarms.cancel_all()
            for number in list(self._shards.by_number):
                self.unload(TopicPartition(CONSUMER_OFFSETS, number))

    # --- becoming and ceasing to be the coordinator
    # ------------------------------------------------

    def load(self, partition: TopicPartition, epoch: int) -> None:
        """This broker leads a partition of the offsets topic from now on."""
        known = self._shards.by_number.get(partition.partition)
        if known is not None and known.epoch >= epoch:
            return
        if known is not None and not known.is_loading:
            known.epoch = epoch  # elected again without having lost it
            return
        shard = Shard(partition, epoch)
        self._shards.by_number[partition.partition] = shard
        self._begin(shard)

    def _begin(self, shard: Shard) -> None:
        if self._tasks is not None:
            self._tasks.create_task(self._load(shard))

    async def _load(self, shard: Shard) -> None:
        await until_read_back(
            lambda: self._read_back(shard), shard.partition, lambda: self._shards.keep(shard)
        )
        if not self._shards.keep(shard):
            return
        shard.is_loading = False
        for group in shard.groups.values():
            self._arm(shard, group)
        self.consumers.loaded(shard)
        log.info(
            "loaded",
            extra={
                "partition": str(shard.partition),
                "groups": len(shard.groups) + len(shard.consumers),
                "epoch": shard.epoch,
            },
        )

    async def _read_back(self, shard: Shard) -> None:
        now_ms = self._clock.now_ms()
        shard.forget()
        async for batch in self._journal.batches(shard.partition):
            await shard.replay(batch, self._limits, now_ms)

    def unload(self, partition: TopicPartition) -> None:
        """This broker does not lead the partition any more: its groups are another's now."""
        shard = self._shards.by_number.pop(partition.partition, None)
        if shard is None:
            return
        moved = ErrorCode.NOT_COORDINATOR
        for group in shard.groups.values():
            self._alarms.cancel(group.id)
            for member in group.members:
                self._answer(member.awaits_join, JoinAnswer(error=moved, member_id=member.id))
                self._answer(member.awaits_sync, SyncAnswer(error=moved))
        self.consumers.unloaded(shard)

    def shard(self, group: str, *, nameless: bool = False) -> Shard | ErrorCode:
        """The shard that keeps a group here, or the reason why none does; see `Shards.of`."""
        return self._shards.of(group, nameless=nameless)

    @property
    def is_loading(self) -> bool:
        return self._shards.is_loading

    @property
    def weight(self) -> int:
        """About how many bytes of memory all groups and offsets take."""
        return sum(shard.weight for shard in self._shards.by_number.values())

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
        if not self._limits.take_session(request.session_timeout_ms):
            # Said before there is a group: one that nobody may join would stay for ever.
            wrong = ErrorCode.INVALID_SESSION_TIMEOUT
            return JoinAnswer(error=wrong, member_id=request.member_id)
        fault = await self.consumers.give_way(shard, group_id)
        if fault is not None:
            return JoinAnswer(error=fault, member_id=request.member_id)
        group = shard.groups.get(group_id)
        if group is None:
            if request.member_id:
                stranger = ErrorCode.UNKNOWN_MEMBER_ID
                return JoinAnswer(error=stranger, member_id=request.member_id)
            group = self._add(shard, group_id)
        if group is None or not self._allowance.take(_more_for(group, request)):
            later = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return JoinAnswer(error=later, member_id=request.member_id)
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
        if not self._allowance.take(request.weight):
            return SyncAnswer(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
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
        if not self._shards.keep(shard):
            return
        error = told_to_clients(written.error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)
        decision = group.persisted(record.generation, error, self._clock.now_ms())
        self._carry_out(shard, group, decision)

    def _arm(self, shard: Shard, group: Group) -> None:
        self._alarms.arm(group.id, group.deadline_ms, lambda: self._tick(shard, group))

    def _tick(self, shard: Shard, group: Group) -> None:
        if self._shards.keep(shard) and shard.groups.get(group.id) is group:
            self._carry_out(shard, group, group.tick(self._clock.now_ms()))

    # --- who may commit
    # ----------------------------------------------------------------------------

    def commit_fault(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        knows_epochs: bool,
    ) -> ErrorCode | None:
        """The reason why an ordinary commit is refused as a whole.

        From version 9 on (`knows_epochs`) a client may belong to the new protocol.
        """
        shard = self.shard(group_id, nameless=True)
        if isinstance(shard, ErrorCode):
            return shard
        consumer = shard.consumer(group_id)
        if consumer is not None:
            fault = commit_fault(consumer, member_id, generation)
            too_old = member_id in consumer.members and not knows_epochs
            return ErrorCode.UNSUPPORTED_VERSION if too_old else fault
        group = shard.groups.get(group_id)
        if group is None:
            if generation >= 0:
                unknown = ErrorCode.GROUP_ID_NOT_FOUND
                return unknown if knows_epochs else ErrorCode.ILLEGAL_GENERATION
            group = self._add(shard, group_id)
            if group is None:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = group.commit_fault(member_id, instance_id, generation, self._clock.now_ms())
        self._arm(shard, group)
        return error

    def txn_commit_fault(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode | None:
        """The reason why a commit inside a transaction is refused as a whole."""
        shard = self.shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        consumer = shard.consumer(group_id)
        if consumer is not None:
            if generation < 0 and not member_id:
                return None  # an old client, that names no member
            fault = commit_fault(consumer, member_id, generation)
            # Transactions know generations only.
            stale = fault is ErrorCode.STALE_MEMBER_EPOCH
            return ErrorCode.ILLEGAL_GENERATION if stale else fault
        group = shard.groups.get(group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            group = self._add(shard, group_id)
            if group is None:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return group.txn_commit_fault(member_id, instance_id, generation)

    def _add(self, shard: Shard, group_id: str) -> Group | None:
        """A new group, unless there is no room for one."""
        if not self._allowance.take(GROUP_BYTES + len(group_id)):
            return None
        group = shard.groups[group_id] = Group(group_id, self._limits, self._clock.now_ms())
        return group


def _more_for(group: Group, request: Join) -> int:
    """About how many bytes more a group needs for a member, beside what it has of it."""
    members = group.members
    known = members.by_id.get(members.static.get(request.instance_id or "", request.member_id))
    return request.weight - (known.weight if known is not None else 0)
