"""A broker does not follow an order: it is told, explained, and ordered again."""

import pytest

from klamm.controller import events
from klamm.controller.effects import LeaderAndIsr
from klamm.controller.events import Obstacle
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from world.cluster import World, tp

ONE, TWO = BrokerId(1), BrokerId(2)


@pytest.fixture
def world() -> World:
    """Broker 2 does not take its replica of T-0, for whatever reason."""
    world = World([1, 2, 3])
    world.elect(3)
    world.brokers[TWO].refuses[tp("T-0")] = ErrorCode.UNKNOWN_SERVER_ERROR
    world.now_ms = 5
    world.create("T", [[1, 2]])
    world.deliver()
    return world


def test_a_refusal_is_told_and_explained(world: World) -> None:
    assert world.warnings() == ["T-0 on broker 2 was refused: UNKNOWN_SERVER_ERROR"]
    told = world.ask(events.ExplanationAsked("T"))
    assert told is not None
    assert [(w.what, w.broker, w.why, w.since_ms) for w in told.waiting] == [
        ("replication", 2, Obstacle.ORDER_REFUSED, 5)
    ]


def test_it_is_ordered_again_under_a_new_epoch_until_it_obeys(world: World) -> None:
    world.handle(events.RetryDue())
    world.deliver()
    assert world.state("T-0").leader_epoch == 1
    world.brokers[TWO].refuses.clear()
    world.handle(events.RetryDue())
    world.deliver()
    assert world.state("T-0").leader_epoch == 2
    assert world.brokers[TWO].roles[tp("T-0")] == world.state("T-0")
    assert world.brokers[ONE].roles[tp("T-0")] == world.state("T-0")
    world.handle(events.RetryDue())
    assert world.take_mail() == []  # nothing is left to order


def test_a_request_refused_as_a_whole_is_ordered_again(world: World) -> None:
    world.brokers[TWO].refuses.clear()
    world.create("U", [[2], [2]])
    (request,) = [r for r in world.take_mail() if isinstance(r, LeaderAndIsr)]
    world.handle(events.LeaderAndIsrAnswered(request, ErrorCode.UNKNOWN_SERVER_ERROR, {}))
    assert world.warnings()[-1] == "broker 2 refused its replicas: UNKNOWN_SERVER_ERROR"
    world.handle(events.RetryDue())
    world.deliver()
    assert world.brokers[TWO].roles.keys() == {tp("T-0"), tp("U-0"), tp("U-1")}


@pytest.mark.parametrize(
    "code", [ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_what_another_try_cannot_mend_is_only_told(code: ErrorCode) -> None:
    world = World([1, 2])
    world.elect(1)
    world.brokers[TWO].refuses[tp("T-0")] = code
    world.create("T", [[1, 2]])
    world.deliver()
    assert world.warnings() == [f"T-0 on broker 2 was refused: {code.name}"]
    world.take_mail()
    world.handle(events.RetryDue())
    assert world.take_mail() == []


def test_a_broker_that_comes_anew_owes_nothing(world: World) -> None:
    world.stop_broker(2)
    world.start_broker(2)
    assert world.core.context.refused == {}


@pytest.mark.parametrize("end", ["deleted", "moved away"])
def test_what_is_not_there_any_more_is_not_ordered(world: World, end: str) -> None:
    world.create("U", [[2, 1]])
    world.deliver()
    if end == "deleted":
        world.delete("T")
    else:
        world.ask(events.ReassignmentsAsked({tp("T-0"): (ONE,)}))
    world.deliver()
    world.handle(events.RetryDue())
    assert not any(isinstance(request, LeaderAndIsr) for request in world.take_mail())
