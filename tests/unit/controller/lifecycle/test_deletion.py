"""Every reason for which a deletion halts, and what makes it go on."""

import uuid
from dataclasses import replace

import pytest

from klamm.controller import events
from klamm.controller.effects import (
    LeaderAndIsr,
    RemoveMarkers,
    StopReplica,
    Transition,
    UpdateMetadata,
)
from klamm.controller.states import PartitionState, ReplicaState
from klamm.controller.turn import ControllerSettings
from klamm.model.errors import ErrorCode
from klamm.model.names import ZERO_ID, BrokerId, Replica
from world.cluster import World, tp


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3])
    world.elect(1)
    world.create("T", [[1, 2]])
    world.deliver()
    return world


def is_gone(world: World, topic: str = "T") -> bool:
    return (
        topic not in world.store.topics
        and topic not in world.store.markers
        and not any(id.topic == topic for id in world.store.states)
        and not any(id.topic == topic for b in world.brokers.values() for id in b.logs)
        and not any(id.topic == topic for b in world.brokers.values() for id in b.metadata)
        and topic not in world.core.context.topics
    )


def halted(world: World, topic: str = "T") -> str | None:
    return world.core.context.deletions[topic].halted


def test_clients_lose_sight_of_the_topic_when_its_deletion_starts(world: World) -> None:
    world.delete("T")
    first = world.take_mail()[0]
    assert isinstance(first, UpdateMetadata)
    assert [m.is_deleted for m in first.partitions] == [True]
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    assert partition.state is PartitionState.NON_EXISTENT


def test_clients_hear_of_a_large_deletion_before_the_copies_are_dealt_with(world: World) -> None:
    world.create("wide", [[1, 2]] * 101)
    world.deliver()
    asked = events.MarkersChanged(("wide",))
    first = world.core.decide(asked)
    assert first.goes_on
    assert not first.writes
    assert {type(request) for request in first.requests} == {UpdateMetadata}
    rest = world.core.settle(first, ())
    while rest.writes:
        assert not rest.goes_on
        rest = world.core.settle(rest, world.store.commit(rest.writes, epoch=world.core.epoch))
    assert StopReplica in {type(request) for request in rest.requests}
    small = world.core.decide(events.MarkersChanged(("T",)))
    assert not small.goes_on, "of a few all is said at once"


def test_a_large_deletion_ends(world: World) -> None:
    world.create("wide", [[1, 2]] * 101)
    world.deliver()
    world.delete("wide")
    world.deliver()
    assert is_gone(world, "wide")


def test_several_topics_go_in_one_round(world: World) -> None:
    world.create("U", [[2, 3]])
    world.deliver()
    world.delete("T", "U")
    stops = [r for r in world.take_mail() if isinstance(r, StopReplica) and r.to == 2]
    assert [[o.partition for o in r.orders] for r in stops] == [[tp("T-0"), tp("U-0")]] * 2


def test_a_dead_broker_halts_it_until_it_is_back(world: World) -> None:
    world.stop_broker(2)
    world.deliver()
    world.delete("T")
    world.deliver()
    assert halted(world) == "a replica is offline"
    assert tp("T-0") not in world.brokers[BrokerId(1)].logs
    world.start_broker(2)
    world.deliver()
    assert is_gone(world)


def test_a_returning_broker_is_not_told_to_bring_up_what_is_being_deleted(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    world.start_broker(2)
    to_two = [r for r in world.take_mail() if r.to == 2]
    assert not any(isinstance(r, LeaderAndIsr) for r in to_two)


def removals(world: World) -> dict[int, StopReplica]:
    """The requests on their way that have logs removed, by broker."""
    mail = [r for r in world.take_mail() if isinstance(r, StopReplica)]
    return {r.to: r for r in mail if r.orders[0].delete}


def test_a_broker_that_dies_before_it_answers_halts_it_until_it_is_back(world: World) -> None:
    world.delete("T")
    sent = removals(world)
    world.stop_broker(2)
    replica = Replica(tp("T-0"), BrokerId(2))
    assert world.core.context.replica_state(replica) is ReplicaState.DELETION_INELIGIBLE
    assert halted(world) == "a replica is offline"
    world.start_broker(2)
    world.handle(events.StopReplicaAnswered(sent[1], ErrorCode.NONE, {}))
    world.deliver()
    world.brokers[BrokerId(1)].logs.clear()
    assert is_gone(world)


def test_a_refusal_halts_it_until_the_next_try(world: World) -> None:
    world.brokers[BrokerId(2)].bad_disk[tp("T-0")] = None
    world.delete("T")
    world.deliver()
    assert halted(world) == "a broker could not delete its copy"
    world.handle(events.RetryDue())
    world.deliver()
    assert halted(world) == "a broker could not delete its copy"
    world.brokers[BrokerId(2)].bad_disk.clear()
    world.handle(events.RetryDue())
    world.deliver()
    assert is_gone(world)


def test_an_answer_with_an_error_for_the_whole_request_fails_all_of_it(world: World) -> None:
    world.delete("T")
    refused = ErrorCode.STALE_BROKER_EPOCH
    world.handle(events.StopReplicaAnswered(removals(world)[2], refused, {}))
    state = world.core.context.replica_state(Replica(tp("T-0"), BrokerId(2)))
    assert state is ReplicaState.DELETION_INELIGIBLE


@pytest.mark.parametrize("changed", ["registration", "topic"])
def test_an_answer_meant_for_an_earlier_life_counts_for_nothing(world: World, changed: str) -> None:
    world.delete("T")
    sent = removals(world)[2]
    if changed == "registration":
        sent = replace(sent, broker_epoch=sent.broker_epoch - 1)
    else:
        sent = replace(sent, orders=(replace(sent.orders[0], topic_id=ZERO_ID),))
    world.handle(events.StopReplicaAnswered(sent, ErrorCode.NONE, {}))
    state = world.core.context.replica_state(Replica(tp("T-0"), BrokerId(2)))
    assert state is ReplicaState.DELETION_STARTED


def test_a_bad_disk_found_by_an_order_halts_it_until_the_replica_is_fine(world: World) -> None:
    two = world.brokers[BrokerId(2)]
    two.bad_disk[tp("T-0")] = None
    world.handle(events.LogDirFailed((BrokerId(2),), ()))
    world.deliver()
    world.delete("T")
    world.deliver()
    assert halted(world) == "a replica is offline"
    two.bad_disk.clear()
    world.stop_broker(2)
    world.start_broker(2)
    world.deliver()
    assert is_gone(world)


def test_a_move_halts_it_until_the_move_has_ended(world: World) -> None:
    world.ask(events.ReassignmentsAsked({tp("T-0"): (BrokerId(1), BrokerId(3))}))
    world.deliver()
    world.delete("T")
    assert halted(world) == "a partition is being moved"
    assert not any(isinstance(r, StopReplica) for r in world.take_mail())
    world.change_isr("T-0", 1, 2, 3)
    world.deliver()
    assert is_gone(world)


def test_a_move_without_a_leader_does_not_hold_it_up(world: World) -> None:
    world.ask(events.ReassignmentsAsked({tp("T-0"): (BrokerId(3),)}))
    world.deliver()
    world.stop_broker(1)
    world.stop_broker(2)
    world.delete("T")
    assert halted(world) == "a replica is offline"
    world.start_broker(1)
    world.start_broker(2)
    world.deliver()
    assert is_gone(world)


def test_an_operator_can_give_up_the_copy_of_a_broker_that_stays_away(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    answer = world.ask(events.ReplicaGivenUp("T", BrokerId(2)))
    assert answer == events.PartitionFault()
    world.deliver()
    assert "T" not in world.store.topics
    assert list(world.store.leftovers[BrokerId(2)]) == [tp("T-0")]
    world.start_broker(2)
    world.deliver()
    assert is_gone(world)
    assert world.store.leftovers == {}


def test_the_next_controller_knows_which_copies_were_given_up(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    world.ask(events.ReplicaGivenUp("T", BrokerId(2)))
    world.deliver()
    world.elect(3)
    world.start_broker(2)
    world.deliver()
    assert is_gone(world)


def test_a_copy_given_up_makes_way_for_a_later_topic_of_the_name(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    world.ask(events.ReplicaGivenUp("T", BrokerId(2)))
    world.deliver()
    world.create("T", [[2, 1]])
    world.start_broker(2)
    world.deliver()
    two = world.brokers[BrokerId(2)]
    assert two.logs == {tp("T-0"): world.store.topics["T"].topic_id}
    assert world.store.leftovers == {}


def removed_by_hand() -> World:
    """A controller that has seen a topic's nodes vanish, and wants its log gone too."""
    world = World([1, 2], settings=ControllerSettings(vanished_deletes_logs=True))
    world.elect(1)
    world.create("T", [[1]])
    world.deliver()
    world.store.remove_topic_by_hand("T")
    world.tell_topics()
    return world


def test_a_topic_found_to_be_in_another_ones_place_is_not_brought_up_to_be_deleted() -> None:
    world = removed_by_hand()
    world.store.create_topic("T", [[1]])
    world.elect(2)  # the request to remove the first one's log is lost with the controller
    world.delete("T")
    world.deliver()
    world.handle(events.RetryDue())
    world.deliver()
    assert is_gone(world)
    assert world.store.leftovers == {}


def test_a_copy_is_no_longer_awaited_from_a_broker_that_holds_the_later_topic() -> None:
    world = removed_by_hand()
    world.create("T", [[1]])
    # What the first controller said arrives; what brokers answer goes to nobody.
    world.elect(2, mail_is_lost=False)
    world.deliver()
    assert world.store.leftovers == {}
    assert world.brokers[BrokerId(1)].logs == {tp("T-0"): world.store.topics["T"].topic_id}


@pytest.mark.parametrize(
    ("topic", "broker", "why"),
    [
        ("U", 2, "topic U is not being deleted"),
        ("T", 1, "broker 1 is alive"),
        ("T", 9, "broker 9 has no copy of T"),
    ],
)
def test_only_a_copy_that_blocks_can_be_given_up(
    world: World, topic: str, broker: int, why: str
) -> None:
    world.create("U", [[2]])
    world.stop_broker(2)
    world.delete("T")
    fault = world.ask(events.ReplicaGivenUp(topic, BrokerId(broker)))
    assert fault == events.PartitionFault(ErrorCode.INVALID_REQUEST, why)


def test_markers_of_unknown_topics_are_removed_with_a_warning(world: World) -> None:
    world.delete("nothing")
    assert world.store.writes[-1] == RemoveMarkers(("nothing",))
    assert world.warnings() == ["delete markers of unknown topics are removed: nothing"]


def test_where_deletion_is_disabled_markers_are_removed_and_named() -> None:
    world = World([1], settings=ControllerSettings(deletion_enabled=False))
    world.elect(1)
    world.create("T", [[1]])
    world.delete("T", "nothing")
    assert world.store.markers == {}
    assert "T" in world.core.context.topics
    assert "topic deletion is disabled; markers are removed: T" in world.warnings()


def test_a_topic_re_created_under_the_name_starts_clean(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    world.start_broker(2)
    world.deliver()
    world.create("T", [[1, 2]])
    world.deliver()
    assert world.core.context.deletions == {}
    assert world.state("T-0").leader_epoch == 0
    world.delete("T")
    world.deliver()
    assert is_gone(world)


def test_partitions_added_to_a_topic_on_its_way_out_are_taken_back(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    world.store.grow_topic("T", [[1]])
    world.tell_topics()
    assert list(world.store.topics["T"].partitions) == [0]
    assert list(world.core.context.topics["T"].partitions) == [0]


def test_entries_of_the_legacy_move_request_go_with_the_topic(world: World) -> None:
    world.create("U", [[1]])
    world.stop_broker(3)
    moves = {tp("T-0"): (BrokerId(3),), tp("U-0"): (BrokerId(3),)}
    world.store.reassignment_requests = dict(moves)
    world.handle(events.ReassignmentsRequested(moves))
    world.store.remove_topic_by_hand("T")
    world.tell_topics()
    assert world.store.reassignment_requests == {tp("U-0"): (BrokerId(3),)}


def test_an_interrupted_completion_is_finished_by_the_next_controller(world: World) -> None:
    world.store.remove_topic_by_hand("T")
    world.store.markers["T"] = None
    world.elect(2)
    assert world.store.markers == {}


@pytest.mark.parametrize("answered", [0, 1, 2])
def test_a_new_controller_finishes_a_deletion_from_any_point(world: World, answered: int) -> None:
    world.delete("T")
    while world.mail:
        world.deliver_one()
    for _ in range(answered):
        world.handle(world.answers.popleft())
    world.elect(3)
    orders = [r for r in world.mail if isinstance(r[0], LeaderAndIsr)]
    assert orders == []  # no log is created only to be removed again
    world.deliver()
    assert is_gone(world)


def archived(topic: str, topic_id: uuid.UUID) -> events.TopicArchived:
    return events.TopicArchived(
        topic=topic, topic_id=topic_id, manifest="/a/manifest.json", sha256="ab12", records=7
    )


def test_where_a_topic_was_archived_is_written_down_apart_from_it(world: World) -> None:
    topic_id = world.core.context.topics["T"].id
    assert world.ask(archived("T", topic_id)) == events.PartitionFault()
    assert world.transitions()[-1] == Transition(
        "archive of T",
        "T",
        "none",
        "/a/manifest.json",
        "7 records, SHA-256 of the manifest ab12",
        topic_id,
    )


def test_another_topic_of_the_name_was_not_archived(world: World) -> None:
    before = world.transitions()
    for topic, topic_id in (("T", uuid.UUID(int=9)), ("none", world.core.context.topics["T"].id)):
        fault = world.ask(archived(topic, topic_id))
        assert fault.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert fault.message == f"topic {topic} is not the one that was archived"
    assert world.transitions() == before
