"""What a topic waits for, since when, and what would end the wait."""

import pytest

from klamm.controller import events
from klamm.controller.effects import LeaderAndIsr
from klamm.controller.events import Explanation, Obstacle, Waiting
from klamm.controller.states import TopicState
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from world.cluster import World, tp

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3])
    world.now_ms = 1_000
    world.elect(1)
    world.create("T", [[1, 2]])
    world.deliver()
    return world


def explain(world: World, topic: str = "T") -> Explanation:
    found = world.ask(events.ExplanationAsked(topic))
    assert found is not None
    return found


def test_a_topic_as_it_should_be_waits_for_nothing(world: World) -> None:
    assert explain(world) == Explanation(state=TopicState.CREATED, began_ms=1_000)
    assert world.ask(events.ExplanationAsked("nothing")) is None


def test_a_creation_waits_for_a_broker(world: World) -> None:
    world.now_ms = 2_000
    world.create("U", [[7]])
    world.now_ms = 3_000
    until = "broker 7 is there"
    assert explain(world, "U").waiting == (
        Waiting("creation", 0, None, Obstacle.NO_REPLICA, until, 2_000),
    )


def test_replication_and_election_wait_for_brokers_from_when_they_went(world: World) -> None:
    world.now_ms = 2_000
    world.stop_broker(2)
    world.now_ms = 3_000
    world.stop_broker(1)
    world.now_ms = 4_000
    world.handle(events.RetryDue())
    assert explain(world).waiting == (
        Waiting(
            "election",
            0,
            None,
            Obstacle.NO_IN_SYNC,
            "broker 1 is back, or broker 2 is back and an unclean election is held",
            3_000,
        ),
        Waiting("replication", 0, TWO, Obstacle.BROKER_DOWN, "broker 2 is back", 2_000),
    )


def test_an_election_waits_for_the_disk_of_a_broker_that_is_there(world: World) -> None:
    world.create("U", [[1], [2, 3]])
    world.deliver()
    world.stop_broker(3)
    for index, broker in ((0, BrokerId(1)), (1, TWO)):
        world.brokers[broker].bad_disk[tp(f"U-{index}")] = None
    world.handle(events.LogDirFailed((BrokerId(1), TWO), ("n",)))
    world.deliver()
    elections = [w for w in explain(world, "U").waiting if w.what == "election"]
    assert [w.until for w in elections] == [
        "broker 1 restarts with a good disk",
        "broker 2 restarts with a good disk, or broker 3 is back and an unclean election is held",
    ]


def test_a_replica_on_a_bad_disk_and_one_that_leaves(world: World) -> None:
    world.brokers[TWO].bad_disk[tp("T-0")] = None
    world.now_ms = 2_000
    world.handle(events.LogDirFailed((TWO,), ("n",)))
    world.deliver()
    (waiting,) = explain(world).waiting
    until = "broker 2 restarts with a good disk"
    assert waiting == Waiting("replication", 0, TWO, Obstacle.DIR_FAILED, until, 2_000)
    world.create("U", [[1, 3]])
    world.now_ms = 3_000
    world.ask(events.ShutdownAsked(THREE))
    assert explain(world, "U").waiting == (
        Waiting("replication", 0, THREE, Obstacle.BROKER_LEAVING, "broker 3 is back", 3_000),
    )


def test_a_move_waits_for_the_replica_that_catches_up(world: World) -> None:
    world.now_ms = 2_000
    world.ask(events.ReassignmentsAsked({tp("T-0"): (ONE, THREE)}))
    world.now_ms = 3_000
    until = "broker 3 has caught up"
    assert explain(world).waiting == (
        Waiting("move", 0, THREE, Obstacle.CATCHING_UP, until, 2_000),
    )
    world.delete("T")
    found = explain(world)
    assert found.deleting_since_ms == 3_000
    (waiting,) = found.waiting
    assert waiting == Waiting(
        "deletion", 0, None, Obstacle.MOVING, "the move ends or is cancelled", 3_000
    )


def test_a_move_waits_for_its_broker_from_when_that_went(world: World) -> None:
    world.now_ms = 2_000
    world.ask(events.ReassignmentsAsked({tp("T-0"): (ONE, THREE)}))
    world.now_ms = 3_000
    world.stop_broker(3)
    world.now_ms = 4_000
    assert explain(world).waiting == (
        Waiting("move", 0, THREE, Obstacle.BROKER_DOWN, "broker 3 is back", 3_000),
    )


def test_a_deletion_waits_for_a_broker_that_is_away(world: World) -> None:
    world.now_ms = 2_000
    world.stop_broker(2)
    world.now_ms = 3_000
    world.delete("T")
    world.deliver()
    until = "broker 2 is back, or its copy is given up (--forget-broker 2)"
    assert explain(world) == Explanation(
        state=TopicState.HALTED,
        waiting=(Waiting("deletion", 0, TWO, Obstacle.BROKER_DOWN, until, 3_000),),
        deleting_since_ms=3_000,
        began_ms=1_000,
    )


def test_a_deletion_waits_for_answers_and_after_failures_for_the_next_try(world: World) -> None:
    world.now_ms = 2_000
    world.brokers[TWO].bad_disk[tp("T-0")] = None
    world.delete("T")
    assert [(w.broker, w.why, w.since_ms) for w in explain(world).waiting] == [
        (ONE, Obstacle.DELETE_PENDING, 2_000),
        (TWO, Obstacle.DELETE_PENDING, 2_000),
    ]
    world.now_ms = 3_000
    world.deliver()
    assert [(w.broker, w.why, w.since_ms) for w in explain(world).waiting] == [
        (TWO, Obstacle.DELETE_FAILED, 3_000)
    ]


def test_a_new_controller_says_since_when_it_knows(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    world.now_ms = 9_000
    world.elect(3)
    found = explain(world)
    assert (found.began_ms, found.deleting_since_ms) == (9_000, 9_000)
    assert [w.since_ms for w in found.waiting] == [9_000]


def test_a_replica_that_caught_up_is_not_waited_for(world: World) -> None:
    world.now_ms = 2_000
    world.stop_broker(2)
    world.start_broker(2)
    world.deliver()
    assert [w.why for w in explain(world).waiting] == [Obstacle.LAGGING]
    order = world.state("T-0")
    change = events.IsrChange(
        topic="T",
        partition=0,
        leader_epoch=order.leader_epoch,
        partition_epoch=order.partition_epoch,
        isr=(ONE, TWO),
    )
    epoch = world.store.brokers[ONE].epoch
    asked = events.IsrChangesAsked(broker=ONE, broker_epoch=epoch, changes=(change,))
    assert world.ask(asked).code is ErrorCode.NONE
    assert explain(world).waiting == ()
    assert all(p.behind == () for p in world.core.context.partitions())
    assert not any(isinstance(r, LeaderAndIsr) for r in world.take_mail())
