"""The controller's gauges follow what happens."""

import pytest

from klamm.controller import events
from klamm.controller.questions import gauges
from klamm.controller.questions.gauges import Gauges
from klamm.model.names import BrokerId
from world.cluster import World, tp


@pytest.fixture
def world() -> World:
    """T on brokers 1 and 2, U on broker 2 alone."""
    world = World([1, 2, 3])
    world.elect(3)
    world.create("T", [[1, 2], [2, 1]])
    world.create("U", [[2]])
    world.deliver()
    return world


def read(world: World) -> Gauges:
    return gauges.read(world.core.context)


def test_a_healthy_cluster_has_nothing_to_complain_about(world: World) -> None:
    assert read(world) == Gauges(
        active_broker_count=3,
        fenced_broker_count=0,
        global_topic_count=2,
        global_partition_count=3,
        offline_partitions_count=0,
        preferred_replica_imbalance_count=0,
        topics_to_delete_count=0,
        topics_ineligible_to_delete_count=0,
        replicas_to_delete_count=0,
        replicas_ineligible_to_delete_count=0,
        reassigning_partitions_count=0,
    )


def test_a_dead_broker_leaves_partitions_offline_and_leaders_out_of_place(world: World) -> None:
    world.stop_broker(2)
    seen = read(world)
    assert seen.active_broker_count == 2
    assert seen.offline_partitions_count == 1
    # T-1 is led by another, and U-0, whose leader is nobody, counts as it does in Kafka.
    assert seen.preferred_replica_imbalance_count == 2
    world.start_broker(2)
    world.deliver()
    world.change_isr("T-1", 1, 2)
    world.handle(events.RebalanceDue())
    seen = read(world)
    assert (seen.offline_partitions_count, seen.preferred_replica_imbalance_count) == (0, 0)


def test_a_deletion_that_waits_for_a_dead_broker_is_counted_until_it_ends(world: World) -> None:
    world.stop_broker(2)
    world.deliver()
    world.delete("T", "U")
    world.deliver()
    seen = read(world)
    assert (seen.topics_to_delete_count, seen.topics_ineligible_to_delete_count) == (2, 2)
    # Broker 1 has removed its two copies; broker 2 owes three.
    assert seen.replicas_to_delete_count == 3
    # What is on its way out is neither offline nor out of place.
    assert (seen.offline_partitions_count, seen.preferred_replica_imbalance_count) == (0, 0)
    world.start_broker(2)
    world.deliver()
    seen = read(world)
    assert (seen.topics_to_delete_count, seen.replicas_to_delete_count) == (0, 0)
    assert (seen.global_topic_count, seen.global_partition_count) == (0, 0)


def test_a_replica_that_cannot_be_deleted_is_ineligible_until_the_others_have_answered(
    world: World,
) -> None:
    world.stop_broker(2)
    world.deliver()
    world.delete("T")
    assert read(world).replicas_ineligible_to_delete_count == 2
    world.deliver()
    # From there it goes back to Offline: its topic is what counts as ineligible.
    seen = read(world)
    assert seen.replicas_ineligible_to_delete_count == 0
    assert seen.topics_ineligible_to_delete_count == 1


def test_a_move_is_counted_while_it_lasts(world: World) -> None:
    world.ask(events.ReassignmentsAsked({tp("U-0"): (BrokerId(3),)}))
    assert read(world).reassigning_partitions_count == 1


def test_unclean_elections_are_told_with_the_decision_that_stored_them(world: World) -> None:
    world.stop_broker(1)
    world.stop_broker(2)
    world.start_broker(1)
    world.deliver()
    before = sum(decision.unclean_elections_count for decision in world.decisions)
    world.handle(events.UncleanSwitched("T", True))
    after = sum(decision.unclean_elections_count for decision in world.decisions)
    assert (before, after) == (0, 2)
