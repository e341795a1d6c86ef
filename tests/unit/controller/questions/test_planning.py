"""A plan says what would happen, and nothing happens."""

import uuid
from copy import deepcopy

import pytest

from klamm.controller import events
from klamm.controller.effects import Copy, PlannedEffects
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, Replica
from klamm.model.topics import StoredTopic
from world.cluster import World, tp


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3, 4])
    world.elect(1)
    world.create("T", [[1, 2], [2, 1]])
    world.create("U", [[3]])
    world.deliver()
    return world


def plan(world: World, about: events.Plannable) -> PlannedEffects:
    before = deepcopy((world.core.context, world.store))
    found = world.ask(events.PlanAsked(about))
    assert (world.core.context, world.store) == before
    assert not world.mail
    return found


def test_the_plan_of_a_move(world: World) -> None:
    found = plan(world, events.ReassignmentsAsked({tp("T-0"): (BrokerId(3), BrokerId(2))}))
    moves = [(m.subject, m.before, m.after) for m in found.transitions]
    assert moves == [
        ("T-0 replicas", "1,2", "3,2,1"),
        ("T-0 on broker 3", "NonExistent", "New"),
    ]
    assert found.brokers == (1, 2, 3, 4)
    assert [(m.subject, m.after) for m in found.later if m.subject in ("T-0", "T-0 replicas")] == [
        ("T-0 replicas", "3,2"),
        ("T-0", "Online"),
    ]
    assert ("T-0 on broker 1", "DeletionSuccessful") in [(m.subject, m.after) for m in found.later]
    assert found.writes_count == 8
    assert found.copies == (Copy(tp("T-0"), BrokerId(1), (BrokerId(3),)),)
    assert found.removals == (Replica(tp("T-0"), BrokerId(1)),)
    assert found.answer == events.ReassignmentsAnswer({tp("T-0"): events.PartitionFault()})


def test_a_plan_says_what_would_be_refused(world: World) -> None:
    found = plan(world, events.ReassignmentsAsked({tp("T-0"): (BrokerId(9),)}))
    assert isinstance(found.answer, events.ReassignmentsAnswer)
    assert found.answer.results[tp("T-0")].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert (found.transitions, found.brokers, found.writes_count) == ((), (), 0)


def test_the_plan_of_a_deletion_says_that_it_would_halt(world: World) -> None:
    world.stop_broker(2)
    world.deliver()
    found = plan(world, events.MarkersChanged(("T",)))
    assert ("topic T", "deleting", "halted", "a replica is offline") in [
        (m.subject, m.before, m.after, m.why) for m in found.transitions
    ]


def test_the_plan_of_elections(world: World) -> None:
    world.stop_broker(1)
    world.start_broker(1)
    world.deliver()
    found = plan(world, events.ElectionsAsked(events.ElectionType.PREFERRED, None))
    assert isinstance(found.answer, events.ElectionsAnswer)
    codes = {id: fault.code for id, fault in found.answer.results.items()}
    assert codes == {tp("T-0"): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def node(*replicas: tuple[int, ...], version: int = 0, id: int = 99) -> StoredTopic:
    partitions = {n: Assignment(tuple(map(BrokerId, ids))) for n, ids in enumerate(replicas)}
    return StoredTopic(topic_id=uuid.UUID(int=id << 64), partitions=partitions, version=version)


def test_the_plan_of_a_creation_copies_nothing(world: World) -> None:
    found = plan(world, events.TopicsChanged({"N": node((1, 2), (9,))}))
    after = {(m.subject, m.after) for m in found.transitions}
    assert {("topic N", "created"), ("N-0", "Online"), ("N-0 on broker 2", "Online")} <= after
    assert ("N-1", "Online") not in after
    assert found.warnings == ("N-1 stays New: no assigned replica is live",)
    assert (found.later, found.copies, found.removals) == ((), (), ())
    assert found.brokers == (1, 2, 3, 4)


def test_the_plan_of_more_partitions(world: World) -> None:
    stored = world.store.topics["U"]
    grown = {**stored.partitions, 1: Assignment((BrokerId(4),))}
    more = StoredTopic(topic_id=stored.topic_id, partitions=grown, version=1)
    found = plan(world, events.TopicModified("U", more))
    lines = [(m.subject, m.after) for m in found.transitions]
    assert lines[:2] == [("topic U", "growing"), ("U-1", "New")]
    assert lines[-1] == ("topic U", "created")
    assert found.copies == ()


def test_the_plan_of_a_deletion_goes_on_to_its_end(world: World) -> None:
    found = plan(world, events.MarkersChanged(("T",)))
    assert found.later[-1].after == "absent"
    assert set(found.removals) == {
        Replica(tp(f"T-{p}"), BrokerId(b)) for p in (0, 1) for b in (1, 2)
    }


def test_the_plan_of_a_cancelled_move(world: World) -> None:
    world.ask(events.ReassignmentsAsked({tp("U-0"): (BrokerId(4),)}))
    world.deliver()
    found = plan(world, events.ReassignmentsAsked({tp("U-0"): None}))
    assert found.copies == ()
    assert found.removals == (Replica(tp("U-0"), BrokerId(4)),)
    assert world.core.context.reassigning.keys() == {tp("U-0")}


@pytest.mark.parametrize("kind", events.ElectionType)
def test_the_plan_of_all_elections_says_what_the_elections_say(
    world: World, kind: events.ElectionType
) -> None:
    world.create("V", [[3, 4]])
    world.create("W", [[2, 4], [4, 1]])
    world.deliver()
    world.stop_broker(2)
    world.delete("W")
    world.stop_broker(3)
    world.deliver()
    ask = events.ElectionsAsked(kind, None)
    assert plan(world, ask).answer == world.ask(ask)
