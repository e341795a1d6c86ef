"""One look at the whole cluster: every ill is in it, and what is well is not."""

import pytest

from klamm.controller import events
from klamm.controller.questions.survey import Presence, Status
from klamm.controller.states import TopicState
from klamm.model.names import BrokerId
from world.cluster import World, tp

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3])
    world.now_ms = 1_000
    world.elect(1)
    world.create("T", [[1, 2], [3, 1]])
    world.deliver()
    return world


def look(world: World) -> Status:
    return world.ask(events.StatusAsked())


def presence(found: Status) -> dict[int, Presence]:
    return {broker.id: broker.presence for broker in found.brokers}


def test_a_healthy_cluster_has_nothing_to_show(world: World) -> None:
    found = look(world)
    assert (found.controller, found.topics, found.partitions) == (1, 1, 2)
    assert presence(found) == dict.fromkeys((1, 2, 3), Presence.UP)
    assert {b.id: (b.leads, b.replicas) for b in found.brokers} == {1: (1, 2), 2: (0, 1), 3: (1, 1)}
    ills = (found.offline, found.under_replicated, found.deletions, found.moves, found.refused)
    assert not any(ills)


def test_a_broker_that_went_is_down_and_its_partitions_are_named(world: World) -> None:
    world.now_ms = 2_000
    world.stop_broker(2)
    found = look(world)
    assert presence(found)[TWO] is Presence.DOWN
    assert next(b for b in found.brokers if b.id == TWO).since_ms == 2_000
    assert found.under_replicated == (tp("T-0"),)
    assert found.offline == ()


def test_an_offline_partition_is_not_counted_as_under_replicated_too(world: World) -> None:
    world.create("U", [[2]])
    world.deliver()
    world.stop_broker(2)
    found = look(world)
    assert found.offline == (tp("U-0"),)
    assert found.under_replicated == (tp("T-0"),)


def test_a_broker_that_only_an_assignment_names_is_down(world: World) -> None:
    world.create("V", [[1, 7]])
    world.deliver()
    found = look(world)
    assert presence(found)[BrokerId(7)] is Presence.DOWN
    assert tp("V-0") in found.under_replicated


def test_a_halted_deletion_says_whom_it_waits_for(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    found = look(world)
    (deletion,) = found.deletions
    assert (deletion.topic, deletion.state) == ("T", TopicState.HALTED)
    assert deletion.waits_for == (TWO,)
    assert found.under_replicated == (), "a topic on its way out is told of as a deletion"
