"""Brokers start, fail, bounce, leave and lose disks."""

from dataclasses import replace

import pytest

from klamm.controller import events
from klamm.controller.effects import (
    LeaderAndIsr,
    RemoveNotifications,
    StopReplica,
    UpdateMetadata,
)
from klamm.controller.states import PartitionState, ReplicaState
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId, Replica
from world.cluster import World, tp


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3])
    world.elect(1)
    world.create("T", [[1, 2, 3]])
    world.deliver()
    return world


def led(leader: int, epoch: int, isr: tuple[int, ...], version: int) -> Leadership:
    return Leadership(
        leader=BrokerId(leader),
        leader_epoch=epoch,
        isr=tuple(map(BrokerId, isr)),
        controller_epoch=1,
        partition_epoch=version,
    )


def state(world: World, partition: str = "T-0") -> PartitionState:
    found = world.core.context.partition(tp(partition))
    assert found is not None
    return found.state


def test_what_a_dead_broker_led_is_led_by_the_next_in_sync_replica(world: World) -> None:
    world.stop_broker(1)
    assert world.state("T-0") == led(2, 1, (2, 3), 1)
    assert state(world) is PartitionState.ONLINE
    moves = [(m.subject, m.before, m.after) for m in world.transitions()[-4:]]
    assert moves == [
        ("broker 1", "live", "gone"),
        ("T-0", "Online", "Offline"),
        ("T-0", "Offline", "Online"),
        ("T-0 on broker 1", "Online", "Offline"),
    ]


def test_a_dead_follower_leaves_the_isr_and_the_rest_is_told(world: World) -> None:
    world.stop_broker(3)
    assert world.state("T-0") == led(1, 1, (1, 2), 1)
    orders = [r for r in world.take_mail() if isinstance(r, LeaderAndIsr)]
    assert [r.to for r in orders] == [1, 2]


def test_the_last_in_sync_replica_is_remembered_and_leads_when_it_is_back(world: World) -> None:
    for broker in (3, 2, 1):
        world.stop_broker(broker)
    assert world.state("T-0") == led(-1, 3, (1,), 3)
    assert state(world) is PartitionState.OFFLINE
    world.start_broker(2)
    assert world.state("T-0").leader == -1
    world.start_broker(1)
    assert world.state("T-0") == led(1, 4, (1,), 4)


def test_a_partition_on_brokers_that_are_not_there_waits_for_one(world: World) -> None:
    world.create("U", [[7, 8]])
    assert state(world, "U-0") is PartitionState.NEW
    assert world.warnings()[-1] == "U-0 stays New: no assigned replica is live"
    world.start_broker(8)
    assert world.state("U-0") == led(8, 0, (8,), 0)


def test_a_new_broker_hears_of_everything_and_the_others_of_it(world: World) -> None:
    world.start_broker(4)
    sent = world.take_mail()
    assert [(r.to, len(r.partitions)) for r in sent if isinstance(r, UpdateMetadata)] == [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 1),
    ]


def test_a_broker_that_bounced_between_two_looks_went_and_came(world: World) -> None:
    world.start_broker(1)
    assert world.state("T-0").leader == 2
    assert world.state("T-0").isr == (2, 3)
    orders = [r for r in world.take_mail() if isinstance(r, LeaderAndIsr) and r.to == 1]
    assert orders[-1].broker_epoch == world.store.brokers[BrokerId(1)].epoch


def test_a_broker_that_changed_its_address_is_announced(world: World) -> None:
    brokers = world.store.brokers
    brokers[BrokerId(2)] = replace(brokers[BrokerId(2)], rack="r2")
    world.tell_brokers()
    sent = world.take_mail()
    assert [(type(r), r.to) for r in sent] == [(UpdateMetadata, b) for b in (1, 2, 3)]


def test_when_only_doomed_replicas_are_lost_everybody_still_hears_who_is_there(
    world: World,
) -> None:
    world.delete("T")
    world.take_mail()
    world.stop_broker(3)
    (one, two) = world.take_mail()
    assert isinstance(one, UpdateMetadata)
    assert [b.id for b in one.brokers] == [1, 2]
    assert two.to == 2


def test_a_leaving_broker_hands_over_what_it_leads_and_stops_following(world: World) -> None:
    world.create("U", [[2, 1]])
    world.deliver()
    answer = world.ask(events.ShutdownAsked(BrokerId(1)))
    assert answer == events.ShutdownAnswer(ErrorCode.NONE, ())
    assert world.state("T-0") == led(2, 1, (2, 3), 1)
    assert world.state("U-0") == led(2, 1, (2,), 1)
    stops = [r for r in world.take_mail() if isinstance(r, StopReplica)]
    assert [(r.to, [o.partition for o in r.orders]) for r in stops] == [(1, [tp("U-0")])]


def test_what_nobody_else_can_lead_remains(world: World) -> None:
    world.stop_broker(2)
    world.stop_broker(3)
    world.create("alone", [[1]])
    answer = world.ask(events.ShutdownAsked(BrokerId(1)))
    assert answer == events.ShutdownAnswer(ErrorCode.NONE, (tp("T-0"),))


def test_a_leaving_broker_gets_nothing_new(world: World) -> None:
    world.ask(events.ShutdownAsked(BrokerId(1)))
    world.create("U", [[1, 2]])
    assert world.state("U-0") == led(2, 0, (2,), 0)


@pytest.mark.parametrize(
    ("broker", "epoch", "code"),
    [(9, -1, ErrorCode.BROKER_NOT_AVAILABLE), (1, 5, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_a_shutdown_is_refused(world: World, broker: int, epoch: int, code: ErrorCode) -> None:
    answer = world.ask(events.ShutdownAsked(BrokerId(broker), epoch))
    assert answer == events.ShutdownAnswer(code)


def test_a_failed_disk_costs_the_replicas_on_it_and_no_other(world: World) -> None:
    world.create("U", [[1]])
    world.deliver()
    world.store.log_dir_notices["log_dir_event_0"] = BrokerId(1)
    world.brokers[BrokerId(1)].bad_disk[tp("T-0")] = None
    world.handle(events.LogDirFailed((BrokerId(1),), ("log_dir_event_0",)))
    assert world.store.writes[-1] == RemoveNotifications(("log_dir_event_0",))
    world.deliver()
    assert world.state("T-0").leader == 2
    assert world.state("T-0").isr == (2, 3)
    assert world.state("U-0").leader == 1
    assert world.core.context.offline_dirs == {BrokerId(1): {tp("T-0"): 0}}


def test_a_replica_on_a_failed_disk_counts_as_offline_in_metadata(world: World) -> None:
    world.brokers[BrokerId(1)].bad_disk[tp("T-0")] = None
    world.handle(events.LogDirFailed((BrokerId(1),), ()))
    world.deliver()
    shown = world.brokers[BrokerId(3)].metadata[tp("T-0")]
    assert shown.offline == (1,)


def test_a_replica_whose_disk_is_good_again_serves_again(world: World) -> None:
    one = world.brokers[BrokerId(1)]
    one.bad_disk[tp("T-0")] = None
    world.handle(events.LogDirFailed((BrokerId(1),), ()))
    world.deliver()
    one.bad_disk.clear()
    one.roles.clear()
    world.handle(events.LogDirFailed((BrokerId(1),), ()))
    world.deliver()
    assert not any(world.core.context.offline_dirs.values())
    replica = Replica(tp("T-0"), BrokerId(1))
    assert world.core.context.replica_state(replica) is ReplicaState.ONLINE


@pytest.mark.parametrize("code", [ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.NOT_CONTROLLER])
def test_other_refusals_of_an_order_are_told_to_the_operator(world: World, code: ErrorCode) -> None:
    world.handle(events.LogDirFailed((BrokerId(2),), ()))
    (order,) = [r for r in world.take_mail() if isinstance(r, LeaderAndIsr)]
    world.handle(events.LeaderAndIsrAnswered(order, ErrorCode.NONE, {tp("T-0"): code}))
    assert world.warnings()[-1] == f"T-0 on broker 2 was refused: {code.name}"


def test_an_unclean_election_needs_permission_and_marks_the_leader(world: World) -> None:
    for broker in (3, 2, 1):
        world.stop_broker(broker)
    world.start_broker(3)
    assert world.state("T-0").leader == -1
    world.handle(events.UncleanSwitched("T", True))
    assert world.state("T-0").leader == 3
    assert world.state("T-0").isr == (3,)
    assert world.state("T-0").recovery is Recovery.RECOVERING


def test_permission_for_the_whole_cluster_counts_where_a_topic_has_no_say(world: World) -> None:
    world.create("U", [[1, 3]])
    world.handle(events.UncleanSwitched("U", False))
    world.stop_broker(3)
    world.stop_broker(2)
    world.stop_broker(1)
    world.start_broker(3)
    world.handle(events.UncleanSwitched(None, True))
    assert world.state("T-0").leader == 3
    assert world.state("U-0").leader == -1


def test_a_stale_write_is_planned_again_from_what_was_found(world: World) -> None:
    # The leader changed the ISR while the election was on its way to the store.
    once = iter([True])

    def interfere(_: object) -> None:
        if next(once, False):
            now = world.store.states[tp("T-0")]
            isr = (BrokerId(1), BrokerId(3))
            world.store.states[tp("T-0")] = replace(now, isr=isr, partition_epoch=7)

    world.before_commit = interfere
    world.stop_broker(1)
    assert world.state("T-0") == led(3, 1, (3,), 8)


def test_a_partition_somebody_keeps_writing_is_given_up(world: World) -> None:
    def interfere(_: object) -> None:
        now = world.store.states[tp("T-0")]
        later = replace(now, partition_epoch=now.partition_epoch + 1)
        world.store.states[tp("T-0")] = later

    world.before_commit = interfere
    world.stop_broker(1)
    assert state(world) is PartitionState.OFFLINE
