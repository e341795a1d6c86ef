"""What clients leave with the coordinators of a broker is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from klamm.broker.coordinators.allowance import Allowance
from klamm.broker.coordinators.groups import GroupCoordinator
from klamm.broker.coordinators.transactions import TransactionCoordinator
from klamm.groups.classic.requests import GroupLimits, Join, Sync
from klamm.groups.consumer.events import ConsumerLimits, Heartbeat
from klamm.groups.offsets import CommittedOffset
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from unit.broker.journals import Clock, MemoryJournal

LATER = ErrorCode.COORDINATOR_NOT_AVAILABLE
MOST = 100_000
T0 = TopicPartition("t", 0)


class Broker:
    """Both coordinators of a broker that has little memory."""

    def __init__(self) -> None:
        self.clock = Clock()
        allowance = Allowance(
            MOST,
            self.clock,  # type: ignore[arg-type]
            lambda: self.groups.weight + self.transactions.weight,
        )
        self.groups = GroupCoordinator(
            MemoryJournal(),
            self.clock,  # type: ignore[arg-type]
            allowance=allowance,
            limits=GroupLimits(initial_delay_ms=0),
            consumer_limits=ConsumerLimits(),
            retention_ms=60_000,
            retention_check_ms=60_000,
            partition_count=lambda: 1,
            cluster_topics=lambda: None,
        )

        async def fresh() -> int:
            return 7

        async def never(*_: object) -> ErrorCode:
            raise AssertionError("nothing is to be sent")

        self.transactions = TransactionCoordinator(
            MemoryJournal(),
            self.clock,  # type: ignore[arg-type]
            allowance=allowance,
            send_marker=never,
            fresh_producer_id=fresh,
            partition_count=lambda: 1,
            timeout_ms_max=60_000,
            expiration_ms=60_000,
            timeout_check_ms=60_000,
            expiration_check_ms=60_000,
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        tasks = [asyncio.ensure_future(each.run()) for each in (self.groups, self.transactions)]
        self.groups.load(TopicPartition(CONSUMER_OFFSETS, 0), 0)
        self.transactions.load(TopicPartition(TRANSACTION_STATE, 0), 0)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def until_loaded(self) -> None:
        for _ in range(1000):
            await asyncio.sleep(0)
            shards = (self.groups.shard("g"), self.transactions.shard("t"))
            if not any(isinstance(shard, ErrorCode) for shard in shards):
                return
        raise AssertionError("they are never loaded")

    async def join(self, group: str, said: bytes = b"", member: str = "") -> ErrorCode:
        request = Join(
            token=self.groups.next_token(),
            member_id=member,
            fresh_id=member or f"{group}-1",
            instance_id=None,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=60_000,
            session_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(("range", said),),
            requires_known_id=False,
            knows_skip_assignment=False,
        )
        return (await self.groups.join(group, request)).error


async def test_members_are_refused_when_there_is_no_room_and_served_when_there_is() -> None:
    broker = Broker()
    with broker.running():
        await broker.until_loaded()
        assert await broker.join("large", b"x" * (MOST // 2)) is ErrorCode.NONE
        assert await broker.join("larger", b"x" * MOST) is LATER
        assert await broker.join("small", b"x" * 1000) is ErrorCode.NONE
        # One that is there may join again, and may not grow beyond the bound.
        assert await broker.join("large", b"y" * (MOST // 2), "large-1") is ErrorCode.NONE
        assert await broker.join("large", b"z" * 2 * MOST, "large-1") is LATER
        broker.groups.leave("large", [("large-1", None)])
        broker.clock.time_ms += 10_001
        assert await broker.join("medium", b"x" * (MOST // 2)) is ErrorCode.NONE


async def test_the_sum_of_what_came_is_not_what_is_there() -> None:
    broker = Broker()
    with broker.running():
        await broker.until_loaded()
        for _ in range(3 * MOST // 3000):
            broker.clock.time_ms += 1000
            assert await broker.join("g", b"x" * 3000) is ErrorCode.NONE
            broker.groups.leave("g", [("g-1", None)])


async def test_assignments_count() -> None:
    broker = Broker()
    with broker.running():
        await broker.until_loaded()
        assert await broker.join("g") is ErrorCode.NONE
        share = Sync(
            token=broker.groups.next_token(),
            member_id="g-1",
            instance_id=None,
            generation=1,
            protocol_type=None,
            protocol=None,
            assignments={"g-1": b"x" * MOST},
        )
        assert (await broker.groups.sync("g", share)).error is LATER
        share = replace(share, token=broker.groups.next_token(), assignments={"g-1": b"x"})
        assert (await broker.groups.sync("g", share)).error is ErrorCode.NONE


async def test_offsets_count_once_however_often_they_are_committed() -> None:
    broker = Broker()
    with broker.running():
        await broker.until_loaded()
        said = CommittedOffset(offset=1, metadata="x" * (MOST // 4))
        notes = {TopicPartition("t", number): said for number in range(3)}
        for _ in range(4):
            assert await broker.groups.offsets.commit("g", notes) is ErrorCode.NONE
        assert await broker.groups.offsets.commit("h", notes) is LATER
        small = CommittedOffset(offset=1)
        assert await broker.groups.offsets.commit("h", {T0: small}) is ErrorCode.NONE


async def test_groups_that_are_only_named_count() -> None:
    broker = Broker()
    with broker.running():
        await broker.until_loaded()
        said = {
            broker.groups.commit_fault(f"g{n}", "", None, -1, knows_epochs=False)
            for n in range(MOST // 1000)
        }
        assert said == {None, LATER}


async def test_members_of_the_new_protocol_count() -> None:
    broker = Broker()
    with broker.running():
        await broker.until_loaded()
        names = frozenset(f"{n:0200d}" for n in range(1000))
        beat = Heartbeat(
            member_id="m", epoch=0, rebalance_timeout_ms=1000, topics=names, owned=frozenset()
        )
        refused = await broker.groups.consumers.heartbeat("g", beat)
        assert isinstance(refused, Refused)
        assert refused.code is LATER


async def test_transactional_ids_count() -> None:
    broker = Broker()
    with broker.running():
        await broker.until_loaded()
        granted = [
            (await broker.transactions.initialise(f"t{n}", 1000, -1, -1)).error
            for n in range(MOST // 600)
        ]
        assert set(granted) == {ErrorCode.NONE, LATER}
        assert (await broker.transactions.initialise("t0", 1000, -1, -1)).error is ErrorCode.NONE
