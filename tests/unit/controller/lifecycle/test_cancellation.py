"""A deletion can be called off while every log is there, and the topic lives as before."""

import pytest

from klamm.controller import events
from klamm.controller.effects import StopReplica
from klamm.controller.events import DeletionCancelled, PartitionFault
from klamm.controller.states import PartitionState, ReplicaState
from klamm.controller.turn import ControllerSettings
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from world.cluster import World, tp

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3], settings=ControllerSettings(deletion_cancellable=True))
    world.elect(3)
    world.create("T", [[1, 2]])
    world.deliver()
    return world


def refused(world: World, topic: str = "T") -> str | None:
    fault = world.ask(DeletionCancelled(topic))
    assert fault.code is (ErrorCode.INVALID_REQUEST if fault.message else ErrorCode.NONE)
    return fault.message


def assert_serves(world: World, *isr: BrokerId) -> None:
    world.deliver()
    assert world.store.markers == {}
    assert world.core.context.deletions == {}
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    assert (partition.state, world.state("T-0").isr) == (PartitionState.ONLINE, isr)
    for broker in isr:
        assert world.brokers[broker].logs.keys() == {tp("T-0")}
        assert partition.replica_states[broker] is ReplicaState.ONLINE
    for broker in world.store.brokers:
        seen = world.brokers[broker].metadata[tp("T-0")]
        assert seen.leadership.leader == world.state("T-0").leader


def test_one_that_waits_for_a_move(world: World) -> None:
    world.ask(events.ReassignmentsAsked({tp("T-0"): (ONE, THREE)}))
    world.deliver()
    world.delete("T")
    assert refused(world) is None
    assert_serves(world, ONE, TWO)
    assert tp("T-0") in world.core.context.reassigning


def test_one_that_waits_for_a_broker_touches_no_log_before(world: World) -> None:
    world.stop_broker(2)
    world.deliver()
    world.delete("T")
    assert not any(isinstance(r, StopReplica) for r in world.take_mail())
    assert world.core.context.deletions["T"].halted == "a replica is offline"
    assert refused(world) is None
    assert_serves(world, ONE)


def test_what_happened_to_brokers_meanwhile_is_made_up_for(world: World) -> None:
    world.stop_broker(2)
    world.deliver()
    world.delete("T")
    world.stop_broker(1)
    world.deliver()
    assert refused(world) is None
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    assert partition.state is PartitionState.OFFLINE
    world.start_broker(1)
    assert_serves(world, ONE)


def test_the_leader_that_went_meanwhile_is_replaced(world: World) -> None:
    world.create("U", [[2, 1, 3]])
    world.deliver()
    world.stop_broker(3)
    world.deliver()
    world.delete("U")
    world.stop_broker(2)
    world.deliver()
    assert refused(world, "U") is None
    world.deliver()
    assert (world.state("U-0").leader, world.state("U-0").isr) == (ONE, (ONE,))
    assert world.brokers[ONE].roles[tp("U-0")].leader == ONE


def test_without_a_cancel_it_goes_on_when_the_broker_is_back(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    world.start_broker(2)
    world.deliver()
    assert "T" not in world.store.topics
    assert not any(broker.logs for broker in world.brokers.values())


def test_or_when_the_copies_of_the_broker_are_given_up(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    assert world.ask(events.ReplicaGivenUp("T", TWO)) == PartitionFault()
    world.deliver()
    assert "T" not in world.store.topics


def test_one_that_started_is_refused(world: World) -> None:
    world.delete("T")
    assert refused(world) == "topic T has lost logs already"
    assert refused(world, "U") == "topic U is not being deleted"


def test_one_with_copies_given_up_is_refused(world: World) -> None:
    world.stop_broker(1)
    world.stop_broker(2)
    world.delete("T")
    world.ask(events.ReplicaGivenUp("T", TWO))
    assert refused(world) == "topic T has copies that were given up"


def test_one_that_an_earlier_controller_may_have_started_is_refused(world: World) -> None:
    world.settings = ControllerSettings()
    world.elect(3)
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    assert world.brokers[ONE].logs == {}
    world.settings = ControllerSettings(deletion_cancellable=True)
    world.elect(3)
    assert refused(world) == "topic T may have lost logs under an earlier controller"


def test_one_that_an_earlier_controller_cannot_have_started_is_called_off(world: World) -> None:
    world.stop_broker(2)
    world.deliver()
    world.delete("T")
    world.deliver()
    world.elect(3)
    world.deliver()
    assert refused(world) is None
    assert_serves(world, ONE)


def test_by_default_a_dead_broker_holds_nothing_back() -> None:
    world = World([1, 2, 3])
    world.elect(3)
    world.create("T", [[1, 2]])
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    assert world.brokers[ONE].logs == {}
    assert refused(world) == "topic T has lost logs already"
