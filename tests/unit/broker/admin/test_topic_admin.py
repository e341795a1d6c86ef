"""Creating, growing and deleting topics on a real store, up to what waiting clients are told."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from klamm.broker.admin.topic_admin import Created, Deleted
from klamm.broker.quotas.quotas import CONTROLLER_MUTATION_RATE, Mutations, QuotaClient
from klamm.controller.admission import Doomed, Growth, NewTopic
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import ZERO_ID, BrokerId
from klamm.store import layout
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Create, Delete
from unit.broker.admin_host import TestHost, on_a_host

LONG_MS = 60_000


def unlimited(host: TestHost) -> Mutations:
    return host.quotas.mutations(QuotaClient("u", "c"), host.settings, strict=True)


async def create(
    host: TestHost, *asks: NewTopic, timeout_ms: int = LONG_MS, validate_only: bool = False
) -> list[Created | Refused]:
    return await host.admin.create_topics(
        asks, unlimited(host), timeout_ms=timeout_ms, validate_only=validate_only
    )


def codes(outcomes: list[Created | Refused]) -> list[int]:
    return [outcome.code if isinstance(outcome, Refused) else 0 for outcome in outcomes]


def test_a_created_topic_is_stored_and_the_answer_waits_for_its_leaders() -> None:
    async def test(host: TestHost) -> None:
        asking = asyncio.create_task(create(host, NewTopic(name="t", partitions=4, factor=2)))
        async with host.announcing():
            (created,) = await asking
        assert isinstance(created, Created)
        assert created.topic_id == host.metadata.snapshot.topic_ids["t"]
        assert len(host.metadata.snapshot.topics["t"]) == 4

    on_a_host(test)


def test_a_topic_without_a_leader_is_created_and_times_out() -> None:
    async def test(host: TestHost) -> None:
        asking = asyncio.create_task(
            create(host, NewTopic(name="a"), NewTopic(name="b", partitions=0), timeout_ms=50)
        )
        outcomes = await asking
        assert codes(outcomes) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_PARTITIONS]
        assert await host.session.children(layout.TOPICS) == ("a",)

    on_a_host(test)


def test_a_topic_that_is_known_without_leaders_is_not_ready() -> None:
    async def test(host: TestHost) -> None:
        asking = asyncio.create_task(create(host, NewTopic(name="a"), timeout_ms=50))
        stored = asyncio.Event()
        unwatch = host.session.watch_children(layout.TOPICS, stored.set)
        await stored.wait()
        unwatch()
        await host.announce(led=False)
        assert codes(await asking) == [ErrorCode.REQUEST_TIMED_OUT]

    on_a_host(test)


def test_no_time_to_wait_is_said_in_words() -> None:
    async def test(host: TestHost) -> None:
        (outcome,) = await create(host, NewTopic(name="a"), timeout_ms=0)
        assert isinstance(outcome, Refused)
        assert outcome.code is ErrorCode.REQUEST_TIMED_OUT
        assert "no time" in outcome.why

    on_a_host(test)


def test_validating_writes_nothing_and_takes_no_quota() -> None:
    async def test(host: TestHost) -> None:
        host.quotas.set_limits(
            ConfigEntity(ConfigKind.CLIENT, None), {CONTROLLER_MUTATION_RATE: 1.0}
        )
        for _ in range(2):
            (outcome,) = await create(
                host, NewTopic(name="a", partitions=100), validate_only=True, timeout_ms=0
            )
            assert isinstance(outcome, Created)
            assert outcome.topic_id == ZERO_ID
        assert await host.session.children(layout.TOPICS) == ()

    on_a_host(test)


def test_names_of_one_request_collide_with_each_other() -> None:
    async def test(host: TestHost) -> None:
        outcomes = await create(
            host, NewTopic(name="a.b"), NewTopic(name="a_b"), NewTopic(name="c"), timeout_ms=0
        )
        assert codes(outcomes) == [7, 17, 7]

    on_a_host(test)


def test_two_requests_at_once_cannot_both_have_a_name() -> None:
    async def test(host: TestHost) -> None:
        outcomes = await asyncio.gather(
            *(create(host, NewTopic(name="t"), timeout_ms=0) for _ in range(5)),
            *(create(host, NewTopic(name=name), timeout_ms=0) for name in ("x.y", "x_y")),
        )
        assert sorted(codes([o for (o,) in outcomes])) == [7, 7, 17, 36, 36, 36, 36]

    on_a_host(test)


def test_a_strict_quota_lets_the_request_through_that_overdraws_it() -> None:
    async def test(host: TestHost) -> None:
        limits = {CONTROLLER_MUTATION_RATE: 1.0}
        host.quotas.set_limits(ConfigEntity(ConfigKind.CLIENT, None), limits)
        quota = unlimited(host)
        asks = [NewTopic(name=f"t{n}", partitions=6) for n in range(4)]
        outcomes = await host.admin.create_topics(asks, quota, timeout_ms=0)
        assert codes(outcomes) == [7, 7, 89, 89]
        assert quota.throttle_ms == 1000

    on_a_host(test)


def test_a_seed_places_a_topic_by_its_name_alone() -> None:
    placements = []

    async def test(host: TestHost) -> None:
        await create(host, NewTopic(name=f"other{len(placements)}"), timeout_ms=0)
        (outcome,) = await create(
            host, NewTopic(name="t", partitions=5, factor=2), validate_only=True
        )
        assert isinstance(outcome, Created)
        placements.append(outcome.creation.placement)

    for seed in ("7", "7", "8"):
        on_a_host(test, {"klamm.placement.seed": seed})
    assert placements[0] == placements[1]


async def created(host: TestHost, *names: str) -> None:
    outcomes = await create(host, *(NewTopic(name=n, factor=2) for n in names), timeout_ms=0)
    assert codes(outcomes) == [7] * len(names)
    await host.announce()


async def grow(host: TestHost, *asks: Growth, timeout_ms: int = LONG_MS) -> list[int]:
    outcomes = await host.admin.create_partitions(asks, unlimited(host), timeout_ms=timeout_ms)
    return [0 if outcome is None else outcome.code for outcome in outcomes]


def test_a_topic_grows_and_the_answer_waits_for_all_leaders() -> None:
    async def test(host: TestHost) -> None:
        await created(host, "t")
        async with host.announcing():
            assert await grow(host, Growth("t", 3)) == [0]
        assert len(host.metadata.snapshot.topics["t"]) == 3

    on_a_host(test)


def test_growth_is_refused_topic_by_topic() -> None:
    async def test(host: TestHost) -> None:
        await created(host, "a", "b", "c")
        await host.session.multi([Create(layout.delete_topic_path("b"))])
        assigned = Growth("c", 2, ((BrokerId(0), BrokerId(9)),))
        asks = [Growth("a", 1), Growth("b", 2), assigned, Growth("d", 2), Growth("e", 2)]
        assert await grow(host, *asks, Growth("e", 3), timeout_ms=0) == [37, 17, 39, 3, 42, 42]

    on_a_host(test)


def test_brokers_for_growth_are_those_registered_now() -> None:
    async def test(host: TestHost) -> None:
        await created(host, "t")
        for broker in (0, 1):
            await host.session.multi([Delete(layout.broker_path(BrokerId(broker)))])
        assert await grow(host, Growth("t", 2)) == [38]

    on_a_host(test)


def test_expanding_a_compacted_topic_can_be_forbidden() -> None:
    async def test(host: TestHost) -> None:
        ask = NewTopic(name="t", configs=(("cleanup.policy", "compact"),))
        await create(host, ask, timeout_ms=0)
        assert await grow(host, Growth("t", 2), timeout_ms=0) == [37]

    on_a_host(test, {"klamm.expansion.of.compacted.topics": "false"})


async def delete(host: TestHost, *asks: Doomed, timeout_ms: int = LONG_MS) -> list[int]:
    outcomes = await host.admin.delete_topics(
        asks, unlimited(host), version=6, timeout_ms=timeout_ms
    )
    return [0 if isinstance(outcome, Deleted) else outcome.code for outcome in outcomes]


def test_a_topic_is_marked_and_the_answer_waits_until_nobody_sees_it() -> None:
    async def test(host: TestHost) -> None:
        await created(host, "a", "b")
        topic_id = host.metadata.snapshot.topic_ids["b"]
        async with host.announcing():
            assert await delete(host, Doomed("a"), Doomed(None, topic_id)) == [0, 0]
        assert await host.session.children(layout.DELETE_TOPICS) == ("a", "b")
        assert host.metadata.snapshot.topics == {}

    on_a_host(test)


def test_deletions_that_cannot_be_are_refused() -> None:
    async def test(host: TestHost) -> None:
        await created(host, "a")
        asks = [Doomed("a"), Doomed("b"), Doomed(None, uuid.UUID(int=3))]
        assert await delete(host, *asks, timeout_ms=0) == [7, 3, 100]
        assert await delete(host, Doomed("a", uuid.UUID(int=3)), Doomed("b")) == [42, 42]

    on_a_host(test)


def test_a_deletion_that_does_not_begin_times_out() -> None:
    async def test(host: TestHost) -> None:
        await created(host, "a")
        assert await delete(host, Doomed("a"), timeout_ms=50) == [7]

    on_a_host(test)


@pytest.mark.parametrize("complete", [True, False])
def test_an_answer_can_wait_for_the_whole_deletion(complete: bool) -> None:
    async def test(host: TestHost) -> None:
        await created(host, "a")
        async with host.announcing():
            deleting = asyncio.create_task(
                delete(host, Doomed("a"), timeout_ms=LONG_MS if complete else 50)
            )
            await host.metadata.wait_for(lambda snapshot: not snapshot.topics)
            if complete:
                assert not deleting.done()
                await host.session.multi([Delete(layout.delete_topic_path("a"))])
            assert await deleting == [0 if complete else 7]

    on_a_host(test, {"klamm.delete.topic.wait.for.completion": "true"})
