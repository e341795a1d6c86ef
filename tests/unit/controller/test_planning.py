"""A plan says what would happen, and nothing happens."""

from copy import deepcopy

import pytest

from klamm.controller import events
from klamm.controller.effects import Plan
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from world.cluster import World, tp


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3, 4])
    world.elect(1)
    world.create("T", [[1, 2], [2, 1]])
    world.create("U", [[3]])
    world.deliver()
    return world


def plan(
    world: World, about: events.MovesAsked | events.ElectionsAsked | events.MarkersChanged
) -> Plan:
    before = deepcopy((world.core.context, world.store))
    found = world.ask(events.PlanAsked(about))
    assert (world.core.context, world.store) == before
    assert not world.mail
    return found


def test_the_plan_of_a_move(world: World) -> None:
    found = plan(world, events.MovesAsked({tp("T-0"): (BrokerId(3), BrokerId(2))}))
    moves = [(m.subject, m.before, m.after) for m in found.moves]
    assert moves == [
        ("T-0", "1,2", "3,2,1"),
        ("T-0 on broker 3", "NonExistent", "New"),
    ]
    assert found.brokers == (1, 2, 3, 4)
    assert found.writes_count == 2
    assert found.answer == events.MovesAnswer({tp("T-0"): events.PartitionFault()})


def test_a_plan_says_what_would_be_refused(world: World) -> None:
    found = plan(world, events.MovesAsked({tp("T-0"): (BrokerId(9),)}))
    assert isinstance(found.answer, events.MovesAnswer)
    assert found.answer.results[tp("T-0")].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert (found.moves, found.brokers, found.writes_count) == ((), (), 0)


def test_the_plan_of_a_deletion_says_that_it_would_halt(world: World) -> None:
    world.stop_broker(2)
    world.deliver()
    found = plan(world, events.MarkersChanged(("T",)))
    assert ("topic T", "deleting", "halted", "a replica is offline") in [
        (m.subject, m.before, m.after, m.why) for m in found.moves
    ]


def test_the_plan_of_elections(world: World) -> None:
    world.stop_broker(1)
    world.start_broker(1)
    world.deliver()
    found = plan(world, events.ElectionsAsked(events.ElectionType.PREFERRED, None))
    assert isinstance(found.answer, events.ElectionsAnswer)
    codes = {id: fault.code for id, fault in found.answer.results.items()}
    assert codes == {tp("T-0"): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
