"""Offsets between their core and the journal."""

from __future__ import annotations

import asyncio

from klamm.broker.coordinators.completion import ToTheEnd
from klamm.broker.coordinators.consumer_groups import ConsumerGroups
from klamm.broker.coordinators.group_offsets import OffsetKeeper
from klamm.broker.coordinators.shards import Shard, Shards
from klamm.groups.classic.requests import GroupLimits
from klamm.groups.consumer.events import ConsumerLimits
from klamm.groups.offsets import CommittedOffset
from klamm.model.errors import ErrorCode
from klamm.model.names import CONSUMER_OFFSETS, TopicPartition
from unit.broker.journals import Clock, MemoryJournal, allowance, at_once

AT = TopicPartition(CONSUMER_OFFSETS, 0)
T0 = TopicPartition("t", 0)


class Setting:
    """The offsets of one shard."""

    def __init__(self) -> None:
        self.journal, self.clock, self.to_the_end = MemoryJournal(), Clock(), ToTheEnd()
        shards = Shards(lambda: 1)
        self.shard = shards.by_number[0] = Shard(AT, 0, is_loading=False)
        consumers = ConsumerGroups(
            shards,
            self.journal,
            self.clock,
            allowance=allowance(),
            limits=ConsumerLimits(),
            cluster_topics=lambda: None,
            ends_classic=lambda _: None,
            to_the_end=self.to_the_end,
        )
        self.keeper = OffsetKeeper(
            shards,
            consumers,
            self.journal,
            self.clock,
            allowance=allowance(),
            limits=GroupLimits(),
            retention_ms=1_000,
            empty_for_ms=10,
            to_the_end=self.to_the_end,
        )

    def offset(self) -> int | None:
        """What is committed, in memory and as a new coordinator would read it."""
        again = Shard(AT, 1)
        for batch in self.journal.batches_:
            at_once(again.replay(memoryview(batch), GroupLimits(), 0))
        now, then = (
            {at: kept.offset for at, kept in shard.offsets_of("g").committed.items()}
            for shard in (self.shard, again)
        )
        assert now == then
        return now.get(T0)


async def test_a_commit_counts_although_the_client_has_gone() -> None:
    setting = Setting()
    async with asyncio.TaskGroup() as tasks:
        setting.to_the_end.tasks = tasks
        commit = setting.keeper.commit("g", {T0: CommittedOffset(offset=5)})
        committing = tasks.create_task(commit)
        await setting.journal.began.wait()
        committing.cancel()
    assert setting.offset() == 5


async def test_a_commit_that_failed_does_not_count() -> None:
    setting = Setting()
    setting.journal.next_ends = [(ErrorCode.NOT_ENOUGH_REPLICAS, False)]
    outcome = await setting.keeper.commit("g", {T0: CommittedOffset(offset=5)})
    assert outcome is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert setting.offset() is None


async def test_a_group_of_nothing_but_offsets_goes_with_them() -> None:
    setting = Setting()
    await setting.keeper.commit("g", {T0: CommittedOffset(offset=5)})
    assert [listed.id for listed in setting.keeper.groups()] == ["g"]
    setting.clock.time_ms = 1_001
    await setting.keeper.expire()
    assert setting.offset() is None
    assert setting.keeper.groups() == []
    assert await setting.keeper.delete_group("g") is ErrorCode.GROUP_ID_NOT_FOUND
