"""Consumer groups between their core and the journal: what is durable, told, and read back."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any

import pytest

from klamm.broker.coordinators import consumer_records
from klamm.broker.coordinators.completion import ToTheEnd
from klamm.broker.coordinators.consumer_groups import ClusterTopics, ConsumerGroups
from klamm.broker.coordinators.shards import Shard, Shards
from klamm.broker.metadata_cache import MetadataSnapshot, PartitionInfo
from klamm.groups.classic.requests import GroupLimits
from klamm.groups.consumer.events import Answer, ConsumerLimits, Heartbeat
from klamm.groups.consumer.state import (
    NOTHING,
    Change,
    ConsumerMember,
    EpochSet,
    MemberProgress,
    MemberSet,
    Standing,
    StandingSet,
    TargetEpochSet,
    TargetSet,
    TopicIdPartition,
    TopicShape,
    TopicsSeen,
)
from klamm.model.errors import ErrorCode, ProtocolError, Refused
from klamm.model.names import CONSUMER_OFFSETS, BrokerId, TopicPartition
from klamm.protocol import internal_consumer
from unit.broker.journals import Clock, MemoryJournal, allowance, at_once

T = uuid.UUID(int=7)
AT = TopicPartition(CONSUMER_OFFSETS, 0)
B0 = BrokerId(0)
SOME = frozenset({TopicIdPartition(T, 0), TopicIdPartition(uuid.UUID(int=8), 1)})
MEMBER = ConsumerMember(
    id="m",
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    topics=frozenset({"t", "u"}),
    pattern="x.*",
    rebalance_timeout_ms=5,
    assignor="range",
)
STANDING = Standing(
    epoch=3, previous_epoch=2, progress=MemberProgress.UNREVOKED, assigned=SOME, revoking=SOME
)


@pytest.mark.parametrize(
    "change",
    [
        EpochSet(4),
        EpochSet(None),
        TopicsSeen({"t": TopicShape(T, 4)}),
        TopicsSeen({}),
        TopicsSeen(None),
        MemberSet("m", MEMBER),
        MemberSet("m", ConsumerMember(id="m")),
        MemberSet("m", None),
        TargetEpochSet(4),
        TargetEpochSet(None),
        TargetSet("m", SOME),
        TargetSet("m", NOTHING),
        TargetSet("m", None),
        StandingSet("m", STANDING),
        StandingSet("m", None),
    ],
    ids=str,
)
def test_a_change_is_what_its_record_says(change: Change) -> None:
    key, value = consumer_records.pair("g", change)
    decoded = internal_consumer.decode_key(key)
    assert decoded is not None
    assert consumer_records.change(decoded, value) == change
    for cut in range(2, len(key)):
        with pytest.raises(ProtocolError):
            internal_consumer.decode_key(key[:cut])


def test_the_bytes_are_those_of_kafkas_schemas() -> None:
    # Key version 8 (CurrentMemberAssignment) in the old encoding; the value flexible, version 0.
    key, value = consumer_records.pair(
        "g", StandingSet("m", Standing(epoch=2, assigned=frozenset({TopicIdPartition(T, 5)})))
    )
    assert key == b"\0\x08" + b"\0\x01g" + b"\0\x01m"
    topic = T.bytes + b"\x02" + b"\0\0\0\x05" + b"\0"
    assert (
        value == b"\0\0" + b"\0\0\0\x02" + b"\0\0\0\0" + b"\0" + b"\x02" + topic + b"\x01" + b"\0"
    )
    assert consumer_records.pair("g", EpochSet(1)) == (b"\0\x03\0\x01g", b"\0\0\0\0\0\x01\0")
    assert internal_consumer.decode_key(b"\0\x02\0\x01g") is None


class Setting:
    """Consumer groups on one shard, a topic with four partitions, and a hand on everything."""

    def __init__(self) -> None:
        self.journal, self.clock = MemoryJournal(), Clock()
        self.to_the_end = ToTheEnd()
        self.shards = Shards(lambda: 1)
        self.shard = self.shards.by_number[0] = Shard(AT, 0, is_loading=False)
        info = PartitionInfo(B0, 0, (B0,), (B0,), (), 0)
        snapshot = MetadataSnapshot({"t": dict.fromkeys(range(4), info)}, {"t": T}, {T: "t"})
        self.cluster: ClusterTopics | None = ClusterTopics(snapshot)
        self.groups = ConsumerGroups(
            self.shards,
            self.journal,
            self.clock,
            allowance=allowance(),
            limits=ConsumerLimits(session_timeout_ms=1_000),
            cluster_topics=lambda: self.cluster,
            ends_classic=lambda _: None,
            to_the_end=self.to_the_end,
        )

    async def join(self, member: str = "a") -> Answer | Refused:
        beat = Heartbeat(
            member_id=member,
            epoch=0,
            rebalance_timeout_ms=9_000,
            topics=frozenset({"t"}),
            owned=NOTHING,
        )
        return await self.groups.heartbeat("g", beat)

    async def beat(self, epoch: int, member: str = "a") -> Answer | Refused:
        return await self.groups.heartbeat("g", Heartbeat(member_id=member, epoch=epoch))

    def read_back(self) -> Shard:
        shard = Shard(AT, 1)
        for batch in self.journal.batches_:
            at_once(shard.replay(memoryview(batch), GroupLimits(), 0))
        return shard


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_new_coordinator_reads_back_what_was_answered() -> None:
    async def work() -> None:
        setting = Setting()
        await setting.join("a")
        await setting.join("b")
        await setting.beat(1, "a")
        assert setting.read_back().consumer("g") == setting.shard.consumer("g")
        assert await setting.beat(-1, "b") == Answer(member_id="b", epoch=-1)
        assert await setting.beat(-1, "a") == Answer(member_id="a", epoch=-1)
        assert setting.read_back().consumer("g") == setting.shard.consumer("g")
        assert await setting.groups.delete(setting.shard, "g", []) is None
        assert setting.read_back().consumers == setting.shard.consumers == {}

    run(work())


def test_an_ordinary_heartbeat_writes_nothing() -> None:
    async def work() -> None:
        setting = Setting()
        await setting.join()
        written = len(setting.journal.batches_)
        assert await setting.beat(1) == Answer(member_id="a", epoch=1)
        assert len(setting.journal.batches_) == written

    run(work())


def test_what_was_not_appended_has_not_happened() -> None:
    async def work() -> None:
        setting = Setting()
        setting.journal.next_ends = [(ErrorCode.NOT_ENOUGH_REPLICAS, False)]
        refused = await setting.join()
        assert isinstance(refused, Refused)
        assert refused.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert setting.shard.consumers == {}
        assert isinstance(await setting.join(), Answer)

    run(work())


def test_what_may_be_lost_is_told_only_when_it_is_safe() -> None:
    async def work() -> None:
        setting = Setting()
        late = (ErrorCode.REQUEST_TIMED_OUT, True)
        setting.journal.next_ends = [late, late]
        for _ in range(2):
            assert isinstance(await setting.join(), Refused)
        assert setting.read_back().consumer("g") == setting.shard.consumer("g")
        written = len(setting.journal.batches_)
        # Nothing is left to decide, but something to make sure of.
        assert await setting.beat(1) == Answer(member_id="a", epoch=1)
        assert len(setting.journal.batches_) == written + 1
        assert await setting.beat(1) == Answer(member_id="a", epoch=1)
        assert len(setting.journal.batches_) == written + 1

    run(work())


def test_memory_follows_the_log_when_the_client_has_gone() -> None:
    async def work() -> None:
        setting = Setting()
        async with asyncio.TaskGroup() as tasks:
            setting.to_the_end.tasks = tasks
            joining = tasks.create_task(setting.join())
            await setting.journal.began.wait()
            joining.cancel()
        assert setting.read_back().consumer("g") == setting.shard.consumer("g")
        assert setting.shard.consumers["g"].group.members.keys() == {"a"}

    run(work())


def test_members_that_come_at_once_are_served_one_after_the_other() -> None:
    async def work() -> None:
        setting = Setting()
        answers = await asyncio.gather(*(setting.join(f"m{n}") for n in range(5)))
        assert sorted(a.epoch for a in answers if isinstance(a, Answer)) == [1, 2, 3, 4, 5]
        assert setting.read_back().consumer("g") == setting.shard.consumer("g")

    run(work())


def test_a_silent_member_is_given_up_and_again_if_that_fails() -> None:
    async def work() -> None:
        setting = Setting()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(setting.groups.run())
            await setting.join()
            setting.journal.tried = asyncio.Semaphore(0)
            setting.journal.next_ends = [(ErrorCode.NOT_ENOUGH_REPLICAS, False)]
            kept = setting.shard.consumers["g"]
            for time_ms, expected in ((10_000, ["a"]), (60_000, [])):
                setting.clock.time_ms = time_ms
                setting.groups.loaded(setting.shard)  # sets the alarm by the new time
                await setting.journal.tried.acquire()
                async with kept.turn:
                    assert list(kept.group.members) == expected
            running.cancel()

    run(work())


def test_a_broker_without_a_picture_of_the_cluster_decides_nothing() -> None:
    async def work() -> None:
        setting = Setting()
        setting.cluster = None
        refused = await setting.join()
        assert isinstance(refused, Refused)
        assert refused.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    run(work())
