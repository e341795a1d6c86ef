"""A topic's life through the core: created, led, deleted."""

from klamm.controller.effects import CreateState, LeaderAndIsr, StopReplica, UpdateMetadata
from klamm.controller.states import PartitionState, ReplicaState
from klamm.model.leadership import Leadership
from world.cluster import World, tp


def test_a_new_topic_is_led_by_its_first_live_replica_and_everybody_hears_of_it() -> None:
    world = World([1, 2])
    world.elect(1)
    world.take_mail()
    world.create("T", [[1, 2]])
    first = Leadership(leader=1, leader_epoch=0, isr=(1, 2), controller_epoch=1)
    assert world.store.writes == [CreateState(tp("T-0"), first)]
    sent = world.take_mail()
    assert [(type(r), r.to) for r in sent] == [
        (LeaderAndIsr, 1),
        (LeaderAndIsr, 2),
        (UpdateMetadata, 1),
        (UpdateMetadata, 2),
    ]
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    assert partition.state is PartitionState.ONLINE
    assert partition.replica_states == {1: ReplicaState.ONLINE, 2: ReplicaState.ONLINE}


def test_deleting_stops_every_replica_before_any_log_is_removed() -> None:
    world = World([1, 2, 3])
    world.elect(1)
    world.create("T", [[1, 2, 3], [2, 3, 1]])
    world.deliver()
    world.delete("T")
    stops = [r for r in world.take_mail() if isinstance(r, StopReplica)]
    assert [(r.to, {o.delete for o in r.orders}) for r in stops] == [
        (1, {False}),
        (2, {False}),
        (3, {False}),
        (1, {True}),
        (2, {True}),
        (3, {True}),
    ]
    assert {o.leader_epoch for r in stops for o in r.orders} == {-2}


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    world = World([1, 2, 3])
    world.elect(1)
    world.create("T", [[1, 2, 3]])
    world.create("U", [[1]])
    world.deliver()
    world.delete("T")
    world.deliver()
    assert list(world.store.topics) == ["U"]
    assert list(world.store.states) == [tp("U-0")]
    assert world.store.markers == {}
    assert [list(b.logs) for b in world.brokers.values()] == [[tp("U-0")], [], []]
    assert all(list(b.metadata) == [tp("U-0")] for b in world.brokers.values())
    assert list(world.core.context.topics) == ["U"]
