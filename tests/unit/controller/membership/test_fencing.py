"""A broker that is registered but out of reach is held to be dead, until it answers."""

import pytest

from klamm.controller import events
from klamm.controller.effects import LeaderAndIsr, UpdateMetadata
from klamm.controller.events import BrokerReached, BrokerUnreachable, Obstacle
from klamm.model.names import BrokerId
from world.cluster import World, tp

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3])
    world.elect(3)
    world.create("T", [[1, 2]])
    world.deliver()
    return world


def fence(world: World, broker: BrokerId) -> None:
    world.handle(BrokerUnreachable(broker, world.store.brokers[broker].epoch))


def test_what_it_leads_is_led_by_another(world: World) -> None:
    fence(world, ONE)
    mail = world.take_mail()
    assert (world.state("T-0").leader, world.state("T-0").isr) == (TWO, (TWO,))
    assert {request.to for request in mail} == {TWO, THREE}
    shown = [r.brokers for r in mail if isinstance(r, UpdateMetadata)]
    assert all(ONE not in {b.id for b in brokers} for brokers in shown)
    assert world.warnings() == ["broker 1 is registered but cannot be reached: it is fenced"]


def test_reading_the_registrations_again_changes_nothing(world: World) -> None:
    fence(world, ONE)
    before = world.state("T-0")
    world.tell_brokers()
    assert world.core.context.brokers.keys() == {TWO, THREE}
    assert world.state("T-0") == before


def test_its_answer_brings_it_back_and_it_is_told_everything(world: World) -> None:
    fence(world, ONE)
    world.take_mail()
    world.handle(BrokerReached(ONE, world.store.brokers[ONE].epoch))
    assert world.core.context.fenced == {}
    orders = [r for r in world.mail if isinstance(r[0], LeaderAndIsr) and r[0].to == ONE]
    assert orders
    world.deliver()
    assert world.brokers[ONE].roles[tp("T-0")].leader == TWO


def test_a_new_registration_is_given_a_new_chance(world: World) -> None:
    fence(world, ONE)
    world.start_broker(1)
    assert world.core.context.fenced == {}
    assert ONE in world.core.context.brokers


def test_one_that_goes_is_just_gone(world: World) -> None:
    fence(world, ONE)
    world.stop_broker(1)
    assert world.core.context.fenced == {}
    world.handle(BrokerReached(ONE, 7))
    assert ONE not in world.core.context.brokers


@pytest.mark.parametrize("event", [BrokerUnreachable(ONE, 7), BrokerReached(ONE, 7)])
def test_word_of_another_life_is_ignored(
    world: World, event: BrokerUnreachable | BrokerReached
) -> None:
    before = world.state("T-0")
    world.handle(event)
    assert world.core.context.fenced == {}
    assert world.state("T-0") == before


def test_a_topic_says_that_it_waits_for_it(world: World) -> None:
    world.now_ms = 5_000
    fence(world, TWO)
    found = world.ask(events.ExplanationAsked("T"))
    assert found is not None
    (waiting,) = found.waiting
    assert (waiting.why, waiting.since_ms) == (Obstacle.BROKER_FENCED, 5_000)
    assert waiting.until == "broker 2 answers again"
