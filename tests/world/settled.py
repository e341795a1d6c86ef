"""A world in which nothing fails any more: let it come to rest, and look whether all is well.

Each topic is led on all of its replicas, or gone from the store, every broker's metadata and every
disk. Whether the controller that saw the faults gets there by itself, or only its successor,
makes a difference: a successor reads everything anew, and so forgets what was wrong in memory.
"""

from __future__ import annotations

import uuid

from klamm.controller import events
from klamm.controller.events import ElectionType
from klamm.model.names import NO_LEADER, BrokerId, TopicPartition
from world.cluster import World

_ROUNDS = 6


def settle(world: World, *, same_controller: bool) -> None:
    """Stop every fault, and give the cluster the time it needs."""
    if same_controller:
        _mend_brokers(world)
    else:
        for broker in world.brokers.values():
            broker.bad_disk.clear()
            world.start_broker(broker.id, told=False)
        world.elect(2)
    world.tell_topics()
    world.tell_markers()
    for _ in range(_ROUNDS):
        world.deliver()
        for broker in world.brokers.values():
            broker.refuses.clear()  # what was refused by now is ordered again
        if any(world.core.context.lost_logs.values()):
            # The last replica in sync has an empty disk: only an operator can go on.
            world.ask(events.ElectionsAsked(ElectionType.UNCLEAN, None))
            world.deliver()
        _catch_up(world)
        world.handle(events.RetryDue())
    world.deliver()


def _mend_brokers(world: World) -> None:
    """Restart those that need it and only those; the others go on as they are."""
    for broker in world.brokers.values():
        context = world.core.context
        known = world.store.brokers.get(broker.id)
        if known is None or broker.bad_disk or broker.id in context.shutting_down:
            broker.bad_disk.clear()
            world.start_broker(broker.id)
        elif broker.id in context.fenced:
            world.handle(events.BrokerReached(known.id, known.epoch))


def _catch_up(world: World) -> None:
    """Every replica catches up, and its leader asks to have it in the ISR."""
    for id, state in list(world.store.states.items()):
        partition = world.core.context.partition(id)
        if partition is not None and state.leader != NO_LEADER:
            change_isr(world, id, set(partition.assignment.replicas))


def change_isr(world: World, id: TopicPartition, members: set[BrokerId] | set[int]) -> None:
    """The leader, if there is one, asks for those of these that are its replicas."""
    partition = world.core.context.partition(id)
    state = world.store.states.get(id)
    if partition is None or state is None or state.leader not in world.store.brokers:
        return
    wanted = (state.leader, *sorted(members & set(partition.assignment.replicas)))
    world.change_isr(str(id), *dict.fromkeys(wanted))


def check_settled(world: World) -> None:
    """The store, the controller's memory, every cache and every disk agree."""
    store, context = world.store, world.core.context
    assert store.markers == {}
    assert store.reassignment_requests == {}
    assert store.election_requests == ()
    assert store.leftovers == {}
    assert set(store.topics) == set(context.topics)
    assert store.states == {p.id: p.leadership for p in context.partitions()}
    expected: dict[BrokerId, dict[TopicPartition, uuid.UUID]] = {b: {} for b in world.brokers}
    for id, state in store.states.items():
        node = store.topics[id.topic]
        assignment = node.partitions[id.partition]
        assert not assignment.is_reassigning, (id, assignment)
        assert set(state.isr) == set(assignment.replicas), (id, state, assignment)
        assert state.leader in state.isr, (id, state)
        for replica in assignment.replicas:
            expected[replica][id] = node.topic_id
    partitions = {TopicPartition(name, p) for name, n in store.topics.items() for p in n.partitions}
    assert partitions == set(store.states)
    for name in store.topics:
        found = world.ask(events.ExplanationAsked(name))
        assert found is not None, name
        assert found.waiting == (), f"{name} waits for {found.waiting}"
    for broker_id, broker in world.brokers.items():
        assert broker.logs == expected[broker_id], f"logs of {broker_id}"
        for id in expected[broker_id]:
            epoch = broker.roles[id].leader_epoch
            assert epoch == store.states[id].leader_epoch, f"{id} on {broker_id}"
        shown = {p: m.leadership.leader for p, m in broker.metadata.items()}
        assert shown == {p: s.leader for p, s in store.states.items()}, f"metadata of {broker_id}"
