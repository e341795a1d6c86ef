"""Runs the consumer groups of the new protocol (KIP-848).

A group takes one event at a time: decide, append what was decided, wait until all in-sync replicas
have it, then let it be so and answer. An ordinary heartbeat decides nothing and is answered at
once. An event that has begun goes on to its end even if the client has gone meanwhile, so that
memory never falls behind the log.

An append that was made but not seen on all replicas in time is a state in between: the group goes
on from it, for that is what this broker would read back, but nobody hears of it until a later
append has been seen everywhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeVar

from klamm.broker.clock import Clock
from klamm.broker.coordinators import consumer_records, records
from klamm.broker.coordinators.alarms import Alarms
from klamm.broker.coordinators.allowance import Allowance
from klamm.broker.coordinators.completion import ToTheEnd
from klamm.broker.coordinators.journal import Journal, told_to_clients
from klamm.broker.coordinators.records import KeyValue
from klamm.broker.coordinators.shards import KeptGroup, Shard, Shards
from klamm.broker.metadata_cache import MetadataSnapshot
from klamm.groups.consumer.events import (
    Answer,
    ConsumerLimits,
    Decision,
    Heartbeat,
    fence,
    heartbeat,
    request_fault,
)
from klamm.groups.consumer.state import GROUP_BYTES, ConsumerGroup, EpochSet, TopicShape
from klamm.model.errors import ErrorCode, Refused

log = logging.getLogger("klamm.groups")
_T = TypeVar("_T")


class ClusterTopics(Mapping[str, TopicShape]):
    """The topics of one moment as a group sees them."""

    def __init__(self, snapshot: MetadataSnapshot) -> None:
        self._snapshot = snapshot
        self.moment: object = snapshot.topics

    def __getitem__(self, name: str) -> TopicShape:
        # While a topic is being created or deleted the broker hears of its partitions bit by bit.
        partitions = self._snapshot.topics[name]
        return TopicShape(self._snapshot.topic_ids[name], max(partitions) + 1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._snapshot.topic_ids)

    def __len__(self) -> int:
        return len(self._snapshot.topic_ids)


class ConsumerGroups:
    """The groups of the new protocol kept by this broker."""

    def __init__(
        self,
        shards: Shards,
        journal: Journal,
        clock: Clock,
        *,
        allowance: Allowance,
        limits: ConsumerLimits,
        cluster_topics: Callable[[], ClusterTopics | None],
        ends_classic: Callable[[str], None],
        to_the_end: ToTheEnd,
    ) -> None:
        self._shards = shards
        self._journal = journal
        self._clock = clock
        self._cluster_topics = cluster_topics
        self._ends_classic = ends_classic
        self._to_the_end = to_the_end
        self._allowance = allowance
        self._alarms = Alarms(clock)
        self._overdue: asyncio.Queue[tuple[Shard, KeptGroup]] = asyncio.Queue()
        self.limits = limits

    async def run(self) -> None:
        """Give up members whose time is up, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    tasks.create_task(self._fence_overdue(*await self._overdue.get()))
        finally:
            self._alarms.cancel_all()

    def loaded(self, shard: Shard) -> None:
        """A shard was read back: its members are given one session to be heard."""
        for kept in shard.consumers.values():
            self._follow(shard, kept)

    def unloaded(self, shard: Shard) -> None:
        for group_id in shard.consumers:
            self._alarms.cancel(group_id)

    # --- members
    # ------------------------------------------------------------------------------------

    async def heartbeat(self, group_id: str, beat: Heartbeat) -> Answer | Refused:
        """Answered when what the answer promises is durable."""
        shard = self._shards.of(group_id)
        if isinstance(shard, ErrorCode):
            return Refused("", shard)
        fault = request_fault(beat, self.limits)
        if fault is not None:
            return fault
        kept = shard.consumers.get(group_id)
        if kept is None and beat.epoch != 0:
            return _not_found(group_id)
        if not self._allowance.take(_more_for(kept, group_id, beat)):
            return Refused("there is no room for more members", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if kept is None:
            kept = shard.consumers[group_id] = KeptGroup(ConsumerGroup(group_id))
        return await self._in_turn(kept, lambda: self._heartbeat(shard, kept, beat))

    async def _heartbeat(self, shard: Shard, kept: KeptGroup, beat: Heartbeat) -> Answer | Refused:
        group_id = kept.group.id
        cluster = self._cluster_topics()
        if cluster is None:
            # To a broker that has just come up all topics would seem to be gone.
            return Refused("", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if shard.consumers.get(group_id) is not kept:
            return Refused("the group has just ended", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        classic = shard.groups.get(group_id)
        if classic is not None and (classic.members or classic.members.pending):
            # Kafka can take such a group over while it runs; here it must have run empty.
            del shard.consumers[group_id]
            return _not_found(group_id)
        decision = heartbeat(
            kept.group,
            beat,
            cluster,
            self.limits,
            topics_changed=kept.looked_at is not cluster.moment,
        )
        replaces = classic is not None and decision.changes
        instead = [records.group_tombstone(group_id)] if replaces else []
        error = await self._write(shard, kept, decision, instead)
        if kept.group.epoch > 0 and shard.groups.pop(group_id, None) is not None:
            self._ends_classic(group_id)
        elif kept.group.epoch == 0 and shard.consumers.get(group_id) is kept:
            del shard.consumers[group_id]
        if error is not ErrorCode.NONE:
            return Refused("", error)
        assert decision.answer is not None, group_id
        if isinstance(decision.answer, Answer) and beat.epoch >= 0:
            kept.looked_at = cluster.moment
            timeout_ms = self.limits.session_timeout_ms
            kept.sessions.heard(beat.member_id, self._clock.now_ms(), timeout_ms)
            self._arm(shard, kept)
        return decision.answer

    async def _fence_overdue(self, shard: Shard, kept: KeptGroup) -> None:
        async with kept.turn:
            if not self._shards.keep(shard):
                return
            late = kept.sessions.over(self._clock.now_ms())
            for member_id in late:
                log.info("a member is given up", extra={"g": kept.group.id, "member": member_id})
            error = await self._write(shard, kept, fence(kept.group, late))
            if error is not ErrorCode.NONE and self._shards.keep(shard):
                # They are given up when the partition can be written again.
                kept.sessions.postpone(
                    late, self._clock.now_ms() + self.limits.heartbeat_interval_ms
                )
            self._arm(shard, kept)

    # --- the whole group
    # ----------------------------------------------------------------------------

    async def give_way(self, shard: Shard, group_id: str) -> ErrorCode | None:
        """A classic member wants in: it may where no member of the new protocol is."""
        kept = shard.consumers.get(group_id)
        if kept is None:
            return None
        refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return await self._in_turn(kept, lambda: self._end(shard, kept, refused, []))

    async def delete(self, shard: Shard, group_id: str, also: list[KeyValue]) -> ErrorCode | None:
        """End a group without members, and write `also` with it."""
        kept = shard.consumers[group_id]
        return await self._in_turn(
            kept, lambda: self._end(shard, kept, ErrorCode.NON_EMPTY_GROUP, also)
        )

    async def _end(
        self, shard: Shard, kept: KeptGroup, not_empty: ErrorCode, also: list[KeyValue]
    ) -> ErrorCode | None:
        group_id = kept.group.id
        if kept.group.members:
            return not_empty
        if shard.consumers.get(group_id) is not kept:
            return None
        ended = Decision(None, kept.group.ending(), ConsumerGroup(group_id))
        error = await self._write(shard, kept, ended, also)
        if error is not ErrorCode.NONE:
            return error
        shard.consumers.pop(group_id, None)
        self._alarms.cancel(group_id)
        return None

    # --- what is common to all events
    # ---------------------------------------------------------------

    async def _in_turn(self, kept: KeptGroup, event: Callable[[], Awaitable[_T]]) -> _T:
        """Work on an event when it is its turn, whoever still waits for the outcome."""

        async def work() -> _T:
            async with kept.turn:
                return await event()

        return await self._to_the_end(work)

    async def _write(
        self, shard: Shard, kept: KeptGroup, decision: Decision, also: list[KeyValue] | None = None
    ) -> ErrorCode:
        """Make a decision durable, and then so."""
        changes = decision.changes
        if not changes and not also and kept.is_unsure:
            changes = (EpochSet(kept.group.epoch),)
        pairs = [*(also or ()), *(consumer_records.pair(kept.group.id, c) for c in changes)]
        if not pairs:
            return ErrorCode.NONE
        batch = records.batch_of(pairs, now_ms=self._clock.now_ms())
        written = await self._journal.append(shard.partition, batch)
        if not self._shards.keep(shard):
            return ErrorCode.NOT_COORDINATOR
        if written.base_offset >= 0:
            before, kept.group = kept.group, decision.group
            kept.is_unsure = written.error is not ErrorCode.NONE
            self._follow(shard, kept)
            _tell(before, kept.group)
        return told_to_clients(written.error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)

    def _follow(self, shard: Shard, kept: KeptGroup) -> None:
        now_ms = self._clock.now_ms()
        kept.sessions.follow(kept.group, now_ms, self.limits.session_timeout_ms)
        self._arm(shard, kept)

    def _arm(self, shard: Shard, kept: KeptGroup) -> None:
        self._alarms.arm(
            kept.group.id,
            kept.sessions.deadline_ms,
            lambda: self._overdue.put_nowait((shard, kept)),
        )


def _tell(before: ConsumerGroup, now: ConsumerGroup) -> None:
    if now.epoch != before.epoch:
        log.info(
            "a consumer group changed",
            extra={"g": now.id, "epoch": now.epoch, "state": now.state, "size": len(now.members)},
        )


def _more_for(kept: KeptGroup | None, group_id: str, beat: Heartbeat) -> int:
    """About how many bytes more a group needs for what a member says, beside what it has of it."""
    if kept is None:
        return GROUP_BYTES + len(group_id) + beat.weight
    known = kept.group.members.get(beat.member_id)
    if known is None:
        return beat.weight
    said = beat.topics is not None or beat.pattern is not None
    return beat.weight - known.weight if said else 0


def _not_found(group_id: str) -> Refused:
    return Refused(f"{group_id} is no consumer group", ErrorCode.GROUP_ID_NOT_FOUND)
