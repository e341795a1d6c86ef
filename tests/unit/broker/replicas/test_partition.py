"""One partition: roles, acknowledgements, the high watermark and who is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.broker.replicas.partition import Partition, Role
from klamm.log.partition import PartitionLog
from klamm.log.writing.append import Appended
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from klamm.replication.leader import Isr
from unit.broker.hosting import TP, B, C, Host, Waiter, Watcher, batch, new_log, order


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    local = new_log(tmp_path)
    yield local
    local.close(clean=False)


@pytest.fixture
def led(host: Host, log: PartitionLog) -> Partition:
    partition = Partition(TP, host)
    partition.in_sync_min = 2
    assert partition.lead(order(), log)
    return partition


def append(partition: Partition, count: int = 1, acks: int = -1) -> Appended:
    outcome = partition.append(batch(count), acks=acks, version=11)
    assert isinstance(outcome, Appended), outcome
    return outcome


def test_a_partition_without_role_takes_nothing(host: Host) -> None:
    partition = Partition(TP, host)
    assert partition.append(batch(), acks=1, version=11) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.fail()
    assert partition.append(batch(), acks=1, version=11) is ErrorCode.KAFKA_STORAGE_ERROR


def test_an_acknowledgement_waits_for_all_replicas_in_sync(led: Partition) -> None:
    waiter = Waiter()
    led.follower_fetched(B, 0, 0)
    led.follower_fetched(C, 0, 0)
    append(led, 3)
    led.await_acks(3, waiter)
    led.follower_fetched(B, 3, 0)
    assert waiter.told == []
    led.follower_fetched(C, 2, 0)
    assert waiter.told == []
    led.follower_fetched(C, 3, 0)
    assert waiter.told == [ErrorCode.NONE]
    late = Waiter()
    led.await_acks(3, late)
    assert late.told == [ErrorCode.NONE], "what is committed already needs no waiting"


def test_too_few_in_sync_is_said_before_the_append_and_after(
    led: Partition, log: PartitionLog
) -> None:
    waiter = Waiter()
    append(led)
    led.await_acks(1, waiter)
    led.commit_isr((led.leader,), 2)
    assert log.high_watermark == 0, "it rests while too few are in sync"
    assert waiter.told == []
    refused = led.append(batch(), acks=-1, version=11)
    assert refused is ErrorCode.NOT_ENOUGH_REPLICAS
    assert log.log_end_offset == 1, "nothing was appended"
    append(led, acks=1)
    log.advance_high_watermark(1)
    after = Waiter()
    led.await_acks(1, after)
    assert after.told == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_the_least_in_sync_is_never_more_than_the_replicas_there_are(
    host: Host, log: PartitionLog
) -> None:
    partition = Partition(TP, host)
    partition.in_sync_min = 3
    partition.lead(order(isr=(0,), replicas=(0,)), log)
    append(partition)
    assert log.high_watermark == 1


def test_who_waits_hears_of_the_end_of_the_leadership(led: Partition, log: PartitionLog) -> None:
    waiter, watcher = Waiter(), Watcher()
    append(led)
    led.await_acks(1, waiter)
    led.committed_watches.add(watcher)
    assert led.follow(order(leader=B, epoch=2), log)
    assert waiter.told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert watcher.touches == 1
    assert led.append(batch(), acks=1, version=11) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_waiters_whose_time_is_over_are_dropped(led: Partition) -> None:
    gone, waiting = Waiter(is_over=True), Waiter()
    append(led, 2)
    led.await_acks(1, gone)
    led.await_acks(2, waiting)
    led.forget_over()
    for follower in (B, C):
        led.follower_fetched(follower, 2, 0)
    assert gone.told == []
    assert waiting.told == [ErrorCode.NONE]


def test_a_set_of_watchers_stays_the_one_that_was_handed_out(led: Partition) -> None:
    committed, appended, followers = (
        led.committed_watches,
        led.append_watches,
        led.follower_watches,
    )
    consumer, follower, session = Watcher(), Watcher(), Watcher()
    assert (led.committed_watches, led.append_watches, led.follower_watches) == (set(),) * 3
    committed.add(consumer)
    appended.add(follower)
    followers.add(session)
    led.stop()
    assert (consumer.touches, follower.touches, session.touches) == (1, 1, 1)


def test_nobody_is_among_the_followers_of_another_partition(
    host: Host, log: PartitionLog, led: Partition
) -> None:
    alone, other = Partition(TP, host), Partition(TP, host)
    alone.lead(order(isr=(0,), replicas=(0,)), log)
    assert alone.follower_fetched(B, 1, 0) is ErrorCode.UNKNOWN_LEADER_EPOCH
    other.lead(order(), log)
    assert set(other.followers) == set(led.followers) == {B, C}
    assert alone.followers == Partition(TP, host).followers == {}


def test_consumers_wake_at_the_high_watermark_and_followers_at_the_append(led: Partition) -> None:
    consumer, follower, session = Watcher(), Watcher(), Watcher()
    led.committed_watches.add(consumer)
    led.append_watches.add(follower)
    led.follower_watches.add(session)
    append(led)
    assert (consumer.touches, follower.touches, session.touches) == (0, 1, 1)
    led.follower_fetched(B, 1, 0)
    assert (consumer.touches, session.changes) == (0, 0)
    led.follower_fetched(C, 1, 0)
    assert (consumer.touches, session.changes) == (1, 1)
    assert session.touches == 1, "a new high watermark is no reason to answer a follower at once"


def test_a_stranger_is_told_to_wait_for_the_controller(led: Partition) -> None:
    stranger = led.leader + 9
    assert led.follower_fetched(stranger, 0, 0) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_laggard_is_dropped_and_welcome_again_when_it_has_caught_up(
    led: Partition, host: Host, log: PartitionLog
) -> None:
    for follower in (B, C):
        led.follower_fetched(follower, 0, 0)
    append(led, 4)
    led.follower_fetched(B, 4, 0)
    host.at_ms += 501
    led.follower_fetched(B, 4, 0)
    led.drop_laggards()
    assert host.proposed == [(0, B)]
    led.drop_laggards()
    assert host.proposed == [(0, B)], "one change at a time"
    assert log.high_watermark == 0, "the open change does not count yet"
    led.commit_isr((led.leader, B), 2)
    assert log.high_watermark == 4
    led.follower_fetched(C, 3, 0)
    assert len(host.proposed) == 1, "below the high watermark"
    led.follower_fetched(C, 4, 0)
    assert host.proposed[1:] == [(0, B, C)]
    append(led)
    led.follower_fetched(B, 5, 0)
    assert log.high_watermark == 4, "the one that is about to join counts already"


def test_a_broker_that_is_gone_does_not_join(led: Partition, host: Host) -> None:
    led.isr = Isr((led.leader, B))
    host.alive = {led.leader, B}
    led.follower_fetched(C, 0, 0)
    assert host.proposed == []


def test_a_refused_proposal_leaves_what_was_stored(led: Partition, host: Host) -> None:
    led.isr = Isr((led.leader, B))
    led.follower_fetched(C, 0, 0)
    led.roll_back_isr()
    assert led.isr == Isr((led.leader, B))
    led.follower_fetched(C, 0, 0)
    host.at_ms += 999
    led.follower_fetched(C, 0, 0)
    assert len(host.proposed) == 1, "the same question so soon has the same answer"
    host.at_ms += 1
    led.follower_fetched(C, 0, 0)
    assert len(host.proposed) == 2, "it may be proposed again"


def test_a_refused_set_is_proposed_at_once_when_other_brokers_live(
    led: Partition, host: Host
) -> None:
    led.isr = Isr((led.leader, B))
    led.follower_fetched(C, 0, 0)
    led.roll_back_isr()
    host.alive = {*host.eligible(), BrokerId(9)}
    led.follower_fetched(C, 0, 0)
    assert len(host.proposed) == 2


def test_a_follower_that_was_refused_and_has_been_away_is_proposed_at_once(
    led: Partition, host: Host
) -> None:
    led.isr = Isr((led.leader, B))
    led.follower_fetched(C, 0, 0)
    led.roll_back_isr()
    led.brokers_left({C})
    led.follower_fetched(C, 0, 0)
    assert len(host.proposed) == 2


def test_a_follower_that_was_about_to_join_does_not_hold_the_rest_for_ever(
    led: Partition, host: Host, log: PartitionLog
) -> None:
    led.isr = Isr((led.leader, B))
    host.alive = {led.leader, B, C}
    led.follower_fetched(C, 0, 0)
    led.roll_back_isr()
    append(led)
    led.follower_fetched(B, 1, 0)
    assert log.high_watermark == 0
    host.at_ms += 501
    led.follower_fetched(B, 1, 0)
    led.drop_laggards()
    assert log.high_watermark == 1


def test_a_refused_proposal_holds_nothing_back(
    led: Partition, host: Host, log: PartitionLog
) -> None:
    """A broker that goes down in order fetches once more as a follower, and is proposed."""
    led.isr = Isr((led.leader, B))
    led.follower_fetched(C, 0, 0)
    host.alive = {led.leader, B}
    append(led)
    waiter = Waiter()
    led.await_acks(1, waiter)
    led.follower_fetched(B, 1, 0)
    assert waiter.told == [], "the controller may let it in"
    led.roll_back_isr()
    assert waiter.told == [ErrorCode.NONE]


async def test_a_follower_that_is_gone_holds_nothing_back(led: Partition, host: Host) -> None:
    led.isr = Isr((led.leader, B))
    led.follower_fetched(C, 0, 0)
    led.roll_back_isr()
    append(led)
    waiter = Waiter()
    led.await_acks(1, waiter)
    led.follower_fetched(B, 1, 0)
    host.alive = {led.leader, B}
    led.brokers_left({BrokerId(9)})
    assert waiter.told == []
    led.brokers_left({C})
    assert waiter.told == [ErrorCode.NONE]
    led.raise_log_start(1)
    led.follower_fetched(B, 1, 1)
    host.alive = {led.leader, B, C}
    deleted = asyncio.create_task(led.low_watermark_reaches(1))
    await asyncio.sleep(0)
    host.alive = {led.leader, B}
    led.brokers_left({C})
    await asyncio.wait_for(deleted, 30)


def test_a_new_epoch_begins_at_the_logs_end_and_knows_nothing_of_the_followers(
    led: Partition, log: PartitionLog
) -> None:
    append(led, 5)
    led.follower_fetched(B, 5, 0)
    assert led.lead(order(epoch=2), log)
    assert led.epoch_start == 5
    assert led.followers[B].log_end == -1
    assert log.epochs.latest == 2


async def test_records_are_deleted_when_every_live_replica_has_deleted_them(
    led: Partition, host: Host
) -> None:
    append(led, 5)
    for follower in (B, C):
        led.follower_fetched(follower, 5, 0)
    led.raise_log_start(3)
    waiting = asyncio.create_task(led.low_watermark_reaches(3))
    led.follower_fetched(B, 5, 3)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    led.follower_fetched(C, 5, 3)
    await waiting
    host.alive = {led.leader, B}
    led.raise_log_start(4)
    led.follower_fetched(B, 5, 4)
    await led.low_watermark_reaches(4)


async def test_waiting_for_deletion_ends_with_the_leadership(
    led: Partition, log: PartitionLog
) -> None:
    append(led, 5)
    for follower in (B, C):
        led.follower_fetched(follower, 5, 0)
    led.raise_log_start(3)
    waiting = asyncio.create_task(led.low_watermark_reaches(3))
    await asyncio.sleep(0)
    led.follow(order(leader=B, epoch=2), log)
    await waiting
    assert led.role is Role.FOLLOWER
