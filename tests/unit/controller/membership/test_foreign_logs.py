"""A broker has a log of another topic where a replica should be: it refuses, and is believed."""

import uuid

import pytest

from klamm.controller import events
from klamm.controller.events import Obstacle
from klamm.controller.states import PartitionState, ReplicaState
from klamm.model.names import BrokerId, Replica
from world.cluster import World, tp

ONE, TWO = BrokerId(1), BrokerId(2)
WHY = "its broker has a log of another topic of that name"


def world_with(*assignment: int) -> World:
    """T-0 on these brokers, of which the first holds a log of another T."""
    world = World([1, 2, 3])
    world.elect(3)
    world.brokers[ONE].logs[tp("T-0")] = uuid.UUID(int=99)
    world.now_ms = 5
    world.create("T", [list(assignment)])
    world.deliver()
    return world


@pytest.fixture
def world() -> World:
    return world_with(1, 2)


def waiting(world: World) -> list[tuple[str, int | None, Obstacle, int]]:
    told = world.ask(events.ExplanationAsked("T"))
    assert told is not None
    return [(w.what, w.broker, w.why, w.since_ms) for w in told.waiting]


def test_another_replica_leads_and_the_other_log_is_left_alone(world: World) -> None:
    assert (world.state("T-0").leader, world.state("T-0").isr) == (TWO, (TWO,))
    replica = Replica(tp("T-0"), ONE)
    assert world.core.context.replica_state(replica) is ReplicaState.OFFLINE
    assert world.brokers[ONE].logs[tp("T-0")] == uuid.UUID(int=99)


def test_it_is_told_explained_and_in_the_story(world: World) -> None:
    assert world.warnings() == ["T-0 on broker 1 was refused: INCONSISTENT_TOPIC_ID"]
    assert waiting(world) == [("replication", 1, Obstacle.FOREIGN_LOG, 5)]
    reasons = [(m.subject, m.after) for m in world.transitions() if m.why == WHY]
    assert reasons == [("T-0 on broker 1", ReplicaState.OFFLINE)]


def test_with_no_other_replica_the_partition_waits() -> None:
    world = world_with(1)
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    assert partition.state is PartitionState.OFFLINE
    assert waiting(world)[0] == ("election", None, Obstacle.FOREIGN_LOG, 5)


def test_a_restart_that_sets_the_log_aside_ends_the_wait() -> None:
    world = world_with(1)
    world.stop_broker(1)
    del world.brokers[ONE].logs[tp("T-0")]
    world.start_broker(1)
    world.deliver()
    assert world.state("T-0").leader == ONE
    assert (waiting(world), world.core.context.foreign) == ([], {})


def test_a_deletion_does_not_touch_the_other_log(world: World) -> None:
    world.delete("T")
    world.deliver()
    assert waiting(world) == [("deletion", 1, Obstacle.FOREIGN_LOG, 5)]
    assert world.brokers[ONE].logs[tp("T-0")] == uuid.UUID(int=99)
    world.stop_broker(1)
    del world.brokers[ONE].logs[tp("T-0")]
    world.start_broker(1)
    world.deliver()
    assert world.ask(events.ExplanationAsked("T")) is None
