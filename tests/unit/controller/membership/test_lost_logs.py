"""A broker comes back with an empty disk (klamm.election.remember.disk): nothing it had is lost."""

import pytest

from klamm.controller import events
from klamm.controller.events import ElectionType, Obstacle
from klamm.controller.states import PartitionState, ReplicaState
from klamm.model.leadership import Recovery
from klamm.model.names import NO_LEADER, BrokerId
from world.cluster import World, tp

ONE, TWO = BrokerId(1), BrokerId(2)


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3])
    for broker in world.brokers.values():
        broker.remembers_disk = True
    world.elect(3)
    world.create("T", [[1, 2]])
    world.deliver()
    return world


def lose_disk(world: World, broker: BrokerId) -> None:
    world.brokers[broker].logs.clear()


def state(world: World) -> PartitionState:
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    return partition.state


def last_in_sync_lost(world: World) -> None:
    """Broker 1 was the last in sync, and comes back with nothing."""
    world.stop_broker(2)
    world.stop_broker(1)
    lose_disk(world, ONE)
    world.start_broker(1)
    world.deliver()


def test_the_last_in_sync_replica_does_not_lead_from_nothing(world: World) -> None:
    last_in_sync_lost(world)
    assert state(world) is PartitionState.OFFLINE
    assert (world.state("T-0").leader, world.state("T-0").isr) == (NO_LEADER, (ONE,))
    assert world.brokers[ONE].logs == {}
    world.handle(events.RetryDue())
    world.deliver()
    assert state(world) is PartitionState.OFFLINE
    found = world.ask(events.ExplanationAsked("T"))
    assert found is not None
    waiting = found.waiting[0]
    assert waiting.why is Obstacle.LOG_LOST
    assert waiting.until == "broker 1 restarts with the disk it had, or an unclean election"


def test_it_leads_again_with_the_disk_it_had(world: World) -> None:
    kept = dict(world.brokers[ONE].logs)
    last_in_sync_lost(world)
    world.stop_broker(1)
    world.brokers[ONE].logs.update(kept)
    world.start_broker(1)
    world.deliver()
    assert (state(world), world.state("T-0").leader) == (PartitionState.ONLINE, ONE)
    assert not any(world.core.context.lost_logs.values())


def test_an_unclean_election_prefers_a_replica_that_has_something(world: World) -> None:
    last_in_sync_lost(world)
    world.start_broker(2)
    world.deliver()
    assert state(world) is PartitionState.OFFLINE
    world.ask(events.ElectionsAsked(ElectionType.UNCLEAN, (tp("T-0"),)))
    world.deliver()
    assert (world.state("T-0").leader, world.state("T-0").isr) == (TWO, (TWO,))
    assert world.brokers[ONE].roles[tp("T-0")].leader == TWO
    assert not any(world.core.context.lost_logs.values())


def test_with_nobody_else_an_unclean_election_takes_the_empty_one(world: World) -> None:
    last_in_sync_lost(world)
    world.ask(events.ElectionsAsked(ElectionType.UNCLEAN, (tp("T-0"),)))
    world.deliver()
    assert (world.state("T-0").leader, world.state("T-0").recovery) == (ONE, Recovery.RECOVERING)
    assert tp("T-0") in world.brokers[ONE].logs
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    assert partition.replica_states[ONE] is ReplicaState.ONLINE


def test_a_topic_that_permits_it_goes_on_with_the_empty_one_by_itself(world: World) -> None:
    world.handle(events.UncleanSwitched("T", True))
    last_in_sync_lost(world)
    assert (state(world), world.state("T-0").leader) == (PartitionState.ONLINE, ONE)
    assert tp("T-0") in world.brokers[ONE].logs
    assert not any(world.core.context.lost_logs.values())


def test_a_leader_that_lost_its_disk_unseen_gives_way_and_follows(world: World) -> None:
    # It came and went while there was no controller: the store still says that it leads.
    world.ask(events.ShutdownAsked(BrokerId(2)))
    world.stop_broker(2)
    world.start_broker(2)
    world.deliver()
    back = world.state("T-0")
    change = events.IsrChange(
        topic="T",
        partition=0,
        leader_epoch=back.leader_epoch,
        partition_epoch=back.partition_epoch,
        isr=(ONE, TWO),
    )
    epoch = world.store.brokers[ONE].epoch
    world.ask(events.IsrChangesAsked(broker=ONE, broker_epoch=epoch, changes=(change,)))
    world.stop_broker(1, told=False)
    lose_disk(world, ONE)
    world.start_broker(1, told=False)
    world.elect(3)
    world.deliver()
    assert (world.state("T-0").leader, world.state("T-0").isr) == (TWO, (TWO,))
    assert world.brokers[ONE].roles[tp("T-0")].leader == TWO
    assert not any(world.core.context.lost_logs.values())


def test_a_deletion_does_not_wait_for_a_log_that_is_lost(world: World) -> None:
    last_in_sync_lost(world)
    world.start_broker(2)
    world.delete("T")
    world.deliver()
    assert "T" not in world.store.topics
    assert not any(world.core.context.lost_logs.values())


def test_by_default_brokers_lead_from_what_they_have(world: World) -> None:
    world.brokers[ONE].remembers_disk = False
    last_in_sync_lost(world)
    assert (state(world), world.state("T-0").leader) == (PartitionState.ONLINE, ONE)
