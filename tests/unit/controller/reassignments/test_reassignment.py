"""Moves: their phases, epochs, refusals, cancelling, and the legacy request."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from klamm.controller import events
from klamm.controller.effects import LeaderAndIsr, RewriteTopic, StopReplica
from klamm.controller.events import ElectionType
from klamm.controller.states import ReplicaState
from klamm.controller.turn import ControllerSettings
from klamm.model.assignment import Assignment
from klamm.model.errors import ControllerFenced, ErrorCode
from klamm.model.names import BrokerId, TopicPartition
from world.cluster import World, tp


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3, 4, 5, 6])
    world.elect(1)
    world.create("T", [[1, 2, 3]])
    world.deliver()
    return world


def move(world: World, *replicas: int, partition: str = "T-0") -> events.PartitionFault:
    answer = world.ask(events.ReassignmentsAsked({tp(partition): brokers(*replicas)}))
    return answer.results[tp(partition)]


def cancel(world: World, partition: str = "T-0") -> events.PartitionFault:
    return world.ask(events.ReassignmentsAsked({tp(partition): None})).results[tp(partition)]


def assignment(world: World, partition: str = "T-0") -> Assignment:
    id = tp(partition)
    return world.store.topics[id.topic].partitions[id.partition]


def test_a_move_is_written_before_anything_happens(world: World) -> None:
    written = len(world.store.writes)
    assert move(world, 4, 5, 6) == events.PartitionFault()
    first = world.store.writes[written]
    assert isinstance(first, RewriteTopic)
    full = Assignment(brokers(4, 5, 6, 1, 2, 3), brokers(4, 5, 6), brokers(1, 2, 3))
    assert first.node.partitions[0] == full
    assert assignment(world) == full


def test_the_added_replicas_are_told_with_a_new_log_and_all_with_a_new_epoch(world: World) -> None:
    move(world, 4, 5, 6)
    told = {
        r.to: (r.orders[0].is_new, r.orders[0].leadership.leader_epoch)
        for r in world.take_mail()
        if isinstance(r, LeaderAndIsr)
    }
    assert told == {b: (b > 3, 1) for b in (1, 2, 3, 4, 5, 6)}


def test_nothing_is_removed_before_the_target_is_in_sync(world: World) -> None:
    move(world, 4, 5, 6)
    world.deliver()
    world.change_isr("T-0", 1, 2, 3, 4, 5)
    assert assignment(world).is_reassigning
    assert not any(isinstance(r, StopReplica) for r, _ in world.mail)


def test_when_the_target_is_in_sync_it_takes_over(world: World) -> None:
    move(world, 4, 5, 6)
    world.deliver()
    world.change_isr("T-0", 1, 2, 3, 4, 5, 6)
    world.deliver()
    state = world.state("T-0")
    assert (state.leader, set(state.isr)) == (4, {4, 5, 6})
    assert assignment(world) == Assignment(brokers(4, 5, 6))
    logs = {b: list(broker.logs) for b, broker in world.brokers.items()}
    assert logs == {b: ([tp("T-0")] if b > 3 else []) for b in (1, 2, 3, 4, 5, 6)}
    assert world.store.leftovers == {}
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    assert partition.replica_states == dict.fromkeys(brokers(4, 5, 6), ReplicaState.ONLINE)


def test_a_single_replica_moves_in_three_epochs(world: World) -> None:
    world.create("U", [[1]])
    world.deliver()
    move(world, 2, partition="U-0")
    world.deliver()
    assert world.state("U-0").leader_epoch == 1
    world.change_isr("U-0", 1, 2)
    assert world.state("U-0").leader_epoch == 3
    assert world.state("U-0").leader == 2


def test_a_leader_that_stays_keeps_leading(world: World) -> None:
    move(world, 2, 1, 4)
    world.deliver()
    world.change_isr("T-0", 1, 2, 3, 4)
    assert world.state("T-0").leader == 1
    assert world.state("T-0").isr == (1, 2, 4)


def test_a_removed_copy_is_tracked_until_its_broker_confirms(world: World) -> None:
    move(world, 1, 2)
    world.brokers[BrokerId(3)].bad_disk[tp("T-0")] = None
    world.change_isr("T-0", 1, 2, 3)
    world.deliver()
    topic_id = world.store.topics["T"].topic_id
    assert world.store.leftovers == {BrokerId(3): {tp("T-0"): topic_id}}
    world.brokers[BrokerId(3)].bad_disk.clear()
    world.handle(events.RetryDue())
    world.deliver()
    assert world.store.leftovers == {}
    assert tp("T-0") not in world.brokers[BrokerId(3)].logs


def test_a_removed_copy_on_an_absent_broker_goes_when_it_is_back(world: World) -> None:
    world.stop_broker(3)
    move(world, 1, 2)
    world.deliver()
    assert assignment(world) == Assignment(brokers(1, 2))
    world.start_broker(3)
    world.deliver()
    assert world.brokers[BrokerId(3)].logs == {}
    assert world.store.leftovers == {}


def test_a_second_target_keeps_the_true_origin_and_drops_the_first(world: World) -> None:
    move(world, 4, 5, 6)
    world.deliver()
    move(world, 1, 2, 6)
    world.deliver()
    assert assignment(world) == Assignment(brokers(1, 2, 6, 3), brokers(6), brokers(3))
    assert world.brokers[BrokerId(4)].logs == {}


@pytest.mark.parametrize("survived", range(5))
def test_copies_of_a_dropped_target_are_known_after_a_crash(world: World, survived: int) -> None:
    move(world, 4, 5, 6)
    world.deliver()
    writes = iter(range(survived))

    def crash(_: object) -> None:
        if next(writes, None) is None:
            raise ControllerFenced

    world.before_commit = crash
    with suppress(ControllerFenced):
        move(world, 1, 2, 6)
    world.before_commit = None
    world.elect(2)
    move(world, 1, 2, 6)
    world.deliver()
    assert world.brokers[BrokerId(4)].logs == {}
    assert world.store.leftovers == {}


def test_a_target_that_could_not_be_written_leaves_nothing_to_remove(world: World) -> None:
    move(world, 4, 5, 6)
    world.deliver()
    once = iter([True])

    def interfere(writes: Sequence[object]) -> None:
        if isinstance(writes[0], RewriteTopic) and next(once, False):
            world.store.remove_topic_by_hand("T")

    world.before_commit = interfere
    assert move(world, 1, 2, 6).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.core.context.leftovers == {}
    assert world.store.leftovers == {}


def test_a_leader_that_a_second_target_drops_is_replaced_first(world: World) -> None:
    move(world, 4, 5, 6)
    world.change_isr("T-0", 1, 2, 3, 4)
    world.ask(events.ElectionsAsked(ElectionType.PREFERRED, (tp("T-0"),)))
    assert world.state("T-0").leader == 4, "the first of the target leads before the move is over"
    world.deliver()
    assert move(world, 5, 6).code is ErrorCode.NONE
    assert (world.state("T-0").leader, world.state("T-0").isr) == (1, (1, 2, 3))
    world.deliver()
    assert tp("T-0") not in world.brokers[BrokerId(4)].logs
    world.change_isr("T-0", 1, 2, 3, 5, 6)
    assert assignment(world) == Assignment(brokers(5, 6))


def test_cancelling_restores_the_order_too(world: World) -> None:
    move(world, 3, 4, 2)
    world.deliver()
    assert assignment(world).replicas == brokers(3, 4, 2, 1)
    assert cancel(world) == events.PartitionFault()
    world.deliver()
    assert assignment(world) == Assignment(brokers(1, 2, 3))
    assert world.brokers[BrokerId(4)].logs == {}


def test_the_next_controller_can_still_restore_the_order(world: World) -> None:
    move(world, 3, 4, 2)
    world.elect(2)
    cancel(world)
    assert assignment(world).replicas == brokers(1, 2, 3)


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, -1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_bad_list_is_refused(world: World, replicas: tuple[int, ...], code: ErrorCode) -> None:
    assert move(world, *replicas).code is code
    assert assignment(world) == Assignment(brokers(1, 2, 3))


def test_a_broker_that_is_leaving_takes_nothing_new(world: World) -> None:
    world.ask(events.ShutdownAsked(BrokerId(4)))
    assert move(world, 1, 4).code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_cancelling_what_does_not_move_is_refused(world: World) -> None:
    assert cancel(world).code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert cancel(world, "nothing-0").code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_unknown_and_doomed_partitions_are_refused(world: World) -> None:
    world.create("U", [[1]])
    world.delete("U")
    for partition in ("T-9", "nothing-0", "U-0"):
        fault = move(world, 2, partition=partition)
        assert fault.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_refusal_does_not_spoil_the_others(world: World) -> None:
    targets: dict[TopicPartition, tuple[BrokerId, ...] | None] = {
        tp("T-9"): brokers(1),
        tp("T-0"): brokers(4, 5, 6),
    }
    results = world.ask(events.ReassignmentsAsked(targets)).results
    assert [f.code for f in results.values()] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]


def test_all_partitions_of_a_topic_start_with_one_write(world: World) -> None:
    world.create("U", [[1], [2], [3]])
    written = len(world.store.writes)
    world.ask(events.ReassignmentsAsked({TopicPartition("U", p): brokers(4) for p in range(3)}))
    rewrites = [w for w in world.store.writes[written:] if isinstance(w, RewriteTopic)]
    assert len(rewrites) == 1


def test_a_partition_that_was_never_led_moves_at_once(world: World) -> None:
    world.stop_broker(1)
    world.create("U", [[1]])
    move(world, 2, partition="U-0")
    assert assignment(world, "U-0") == Assignment(brokers(2))
    assert world.state("U-0").leader == 2


def test_a_cancel_may_not_drop_the_only_copy_with_records(world: World) -> None:
    world.stop_broker(1)
    world.store.create_topic("U", [[1]])
    node = world.store.topics["U"]
    begun = Assignment(brokers(2, 1), adding=brokers(2))
    world.store.topics["U"] = replace(node, partitions={0: begun})
    world.elect(2)
    assert world.state("U-0").isr == (2,)
    assert cancel(world, "U-0") == events.PartitionFault(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "U-0 would lose every replica that has its records",
    )


def test_moves_under_way_are_listed(world: World) -> None:
    world.create("U", [[1]])
    move(world, 4, 5, 6)
    full = Assignment(brokers(4, 5, 6, 1, 2, 3), brokers(4, 5, 6), brokers(1, 2, 3))
    assert world.ask(events.ReassignmentsListed(None)) == {tp("T-0"): full}
    assert world.ask(events.ReassignmentsListed((tp("U-0"), tp("T-0")))) == {tp("T-0"): full}


def test_the_legacy_request_is_followed_and_removed_when_done(world: World) -> None:
    request = {tp("T-0"): brokers(4, 5, 6)}
    world.store.reassignment_requests = dict(request)
    world.handle(events.ReassignmentsRequested(request))
    world.deliver()
    assert world.store.reassignment_requests == request
    world.change_isr("T-0", 1, 2, 3, 4, 5, 6)
    assert world.store.reassignment_requests == {}


def test_entries_of_the_legacy_request_that_cannot_be_followed_are_removed(world: World) -> None:
    request = {tp("T-9"): brokers(1), tp("T-0"): brokers(4)}
    world.store.reassignment_requests = dict(request)
    world.handle(events.ReassignmentsRequested(request))
    assert world.store.reassignment_requests == {tp("T-0"): brokers(4)}


def test_a_legacy_request_that_asks_for_nothing_is_told_and_removed(world: World) -> None:
    world.store.reassignment_requests = {tp("T-0"): brokers(4)}
    world.handle(events.ReassignmentsRequested({}))
    assert world.store.reassignment_requests == {}
    (warning,) = world.warnings()
    assert "/admin/reassign_partitions" in warning


def test_the_newest_request_wins_over_the_legacy_one(world: World) -> None:
    request = {tp("T-0"): brokers(4, 5, 6)}
    world.store.reassignment_requests = dict(request)
    world.handle(events.ReassignmentsRequested(request))
    move(world, 1, 2, 4)
    assert world.store.reassignment_requests == {}
    assert assignment(world).target == brokers(1, 2, 4)


def test_a_move_to_a_dead_broker_goes_on_when_it_starts(world: World) -> None:
    world.stop_broker(6)
    world.handle(events.ReassignmentsRequested({tp("T-0"): brokers(6)}))
    world.deliver()
    world.start_broker(6)
    world.deliver()
    assert tp("T-0") in world.brokers[BrokerId(6)].logs
    world.change_isr("T-0", 1, 2, 3, 6)
    world.deliver()
    assert assignment(world) == Assignment(brokers(6))


@pytest.mark.parametrize("writes_before_crash", range(12))
def test_a_new_controller_takes_a_move_up_from_any_point(
    world: World, writes_before_crash: int
) -> None:
    left = writes_before_crash

    class CrashError(Exception):
        pass

    def crash(writes: object) -> None:
        nonlocal left
        if left == 0:
            raise CrashError
        left -= 1

    world.before_commit = crash
    try:
        move(world, 4, 5)
        world.deliver()
        world.change_isr("T-0", 1, 2, 3, 4, 5)
        world.deliver()
    except CrashError:
        pass
    world.before_commit = None
    world.elect(2)
    world.deliver()
    if assignment(world) == Assignment(brokers(1, 2, 3)):
        move(world, 4, 5)
        world.deliver()
    if assignment(world).is_reassigning:
        world.change_isr("T-0", *assignment(world).replicas)
    world.deliver()
    assert assignment(world) == Assignment(brokers(4, 5))
    assert {b for b, broker in world.brokers.items() if broker.logs} == {4, 5}
    assert world.state("T-0").leader == 4


def test_the_legacy_request_can_be_made_to_obey_the_rules_of_the_api() -> None:
    world = World([1, 2, 3], settings=ControllerSettings(legacy_reassignments_checked=True))
    world.elect(1)
    world.create("T", [[1, 2]])
    world.deliver()
    request = {tp("T-0"): brokers(1, 9)}
    world.store.reassignment_requests = dict(request)
    world.handle(events.ReassignmentsRequested(request))
    assert world.store.reassignment_requests == {}
    assert assignment(world) == Assignment(brokers(1, 2))
