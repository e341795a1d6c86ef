"""Topics come, grow, and are taken away behind the controller's back.

A new partition goes by way of New to Online, its replicas with it. A topic whose node was removed
by hand is treated as what it is, a deletion without the questions: everybody is told to forget it
and to stop its replicas. Their logs stay unless the settings say otherwise.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from klamm.controller.context import Context, Partition, Topic
from klamm.controller.effects import Leftovers, RemoveMarkers, RewriteTopic
from klamm.controller.events import FreezeSwitched, ImportSwitched, TopicModified, TopicsChanged
from klamm.controller.lifecycle import leftovers
from klamm.controller.lifecycle.topic_nodes import rewrite_topic
from klamm.controller.reassignments import reassignment_requests
from klamm.controller.states import PartitionState, ReplicaState, TopicState
from klamm.controller.states.machines import move_partitions, move_replicas
from klamm.controller.states.topic_machine import alive_state, move_topic
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.names import BrokerId, Replica, TopicPartition

_NODE_GONE: Final = "its node is gone"


def topics_changed(turn: Turn, event: TopicsChanged) -> Flow[None]:
    """Take up new topics, and forget those that are gone."""
    context = turn.context
    vanished = [name for name in event.vanished if name in context.topics]
    if vanished:
        yield from _forget_vanished(turn, vanished)
    created: list[Partition] = []
    nameless: list[str] = []
    for name, node in event.appeared.items():
        if name in context.topics:
            continue
        created += context.add_topic(name, node)
        topic = context.topics[name]
        first = TopicState.IMPORTING if topic.importing else TopicState.CREATED
        move_topic(turn, topic, first, f"{len(node.partitions)} partitions")
        if alive_state(topic) is not first:
            move_topic(turn, topic, alive_state(topic))
        if node.id_missing:
            nameless.append(name)
    for name in nameless:
        yield from rewrite_topic(turn, context.topics[name])
    yield from create_partitions(turn, created)


def topic_modified(turn: Turn, event: TopicModified) -> Flow[None]:
    """Take up partitions that were added to a topic."""
    context = turn.context
    topic = context.topics.get(event.topic)
    if topic is None:
        return
    if event.node.topic_id != topic.id and not event.node.id_missing:
        # Removed and created again between two reads.
        yield from topics_changed(turn, TopicsChanged({}, (event.topic,)))
        yield from topics_changed(turn, TopicsChanged({event.topic: event.node}))
        return
    topic.version = event.node.version
    added = sorted(event.node.partitions.keys() - topic.partitions.keys())
    if context.is_queued(topic.name):
        if added:
            turn.warn(f"topic {topic.name} is being deleted: partitions {added} are taken back")
            yield from rewrite_topic(turn, topic)
        return
    if event.node.id_missing:
        # An old tool rewrote the node without the id. The brokers know the topic by it: keep it.
        turn.warn(f"topic {topic.name} has lost its id in the store: it is written back")
        known = replace(event.node, topic_id=topic.id)
        yield from commit([RewriteTopic(topic.name, known)])
    if added:
        move_topic(turn, topic, TopicState.GROWING, f"partitions {added}")
        yield from create_partitions(turn, context.add_partitions(topic, event.node))
        move_topic(turn, topic, alive_state(topic))


def settings_switched(turn: Turn, event: FreezeSwitched | ImportSwitched) -> Flow[None]:
    """Settings of a topic that say what clients may do have changed."""
    if isinstance(event, FreezeSwitched):
        return _freeze_switched(turn, event)
    return _import_switched(turn, event)


def _freeze_switched(turn: Turn, event: FreezeSwitched) -> Flow[None]:
    """A topic's settings forbid clients to write, or allow it again."""
    topic = turn.context.topics.get(event.topic)
    if topic is None or topic.frozen == event.frozen:
        return
    topic.frozen = event.frozen
    _live_on(turn, topic)
    yield from ()  # brokers read the settings themselves


def _import_switched(turn: Turn, event: ImportSwitched) -> Flow[None]:
    """A topic's settings say that all of it was imported."""
    topic = turn.context.topics.get(event.topic)
    if topic is None or topic.importing == event.importing:
        return
    if event.importing:
        # Nobody can ask for it; who writes it into the store by hand gets what that means when
        # the next controller looks.
        turn.warn(f"topic {topic.name} has served already: it cannot be imported")
        return
    topic.importing = False
    _live_on(turn, topic, "everything is imported")
    yield from ()


def _live_on(turn: Turn, topic: Topic, why: str = "") -> None:
    """Let a topic that nobody deletes be what its settings say."""
    target = alive_state(topic)
    if not turn.context.is_queued(topic.name) and topic.state is not target:
        move_topic(turn, topic, target, why)


def create_partitions(turn: Turn, partitions: Sequence[Partition]) -> Flow[None]:
    """Bring new partitions and their replicas to life."""
    if not partitions:
        return
    replicas = [Replica(p.id, broker) for p in partitions for broker in p.assignment.replicas]
    yield from move_partitions(turn, partitions, PartitionState.NEW)
    yield from move_replicas(turn, replicas, ReplicaState.NEW)
    refused = yield from move_partitions(turn, partitions, PartitionState.ONLINE)
    for id, refusal in refused.items():
        turn.warn(f"{id} stays New: {refusal.why}")
    yield from move_replicas(turn, replicas, ReplicaState.ONLINE)


def _forget_vanished(turn: Turn, names: Sequence[str]) -> Flow[None]:
    context = turn.context
    marked = tuple(name for name in names if context.is_queued(name))
    for name in names:
        if name not in marked:
            turn.warn(f"topic {name} was removed from the store by hand: its replicas are stopped")
            move_topic(turn, context.topics[name], TopicState.QUEUED, _NODE_GONE)
        context.deletions[name].vanished = True
        if context.topics[name].state is not TopicState.DELETING:
            move_topic(turn, context.topics[name], TopicState.DELETING, _NODE_GONE)
    doomed = context.partitions_of(names)
    delete = turn.settings.vanished_deletes_logs
    if delete:
        yield from leftovers.write_down(turn, _copies(context, doomed))
    batch = turn.batch()
    batch.publish(doomed)
    for partition in doomed:
        for broker in partition.assignment.replicas:
            batch.stop(broker, partition, delete=delete)
    turn.send(batch)
    # The node may be there again by now, as that of another topic: only the marker is removed.
    yield from reassignment_requests.drop(turn, [p.id for p in doomed])
    yield from commit([RemoveMarkers(marked)] if marked else [])
    yield from _end(turn, doomed)
    for name in names:
        move_topic(turn, context.topics[name], TopicState.ABSENT)


def _end(turn: Turn, partitions: Sequence[Partition]) -> Flow[None]:
    """Partitions and replicas of which the store knows nothing any more: nobody confirms their
    end, so it is only told."""
    living = [p for p in partitions if p.state is not PartitionState.NON_EXISTENT]
    yield from move_partitions(turn, living, PartitionState.OFFLINE)
    yield from move_partitions(turn, living, PartitionState.NON_EXISTENT)
    known = [Replica(p.id, broker) for p in partitions for broker in p.replica_states]
    confirmed = ReplicaState.DELETION_SUCCESSFUL
    left = [r for r in known if turn.context.replica_state(r) is not confirmed]
    yield from move_replicas(turn, left, confirmed, _NODE_GONE)
    yield from move_replicas(turn, known, ReplicaState.NON_EXISTENT)


def _copies(context: Context, partitions: Iterable[Partition]) -> dict[BrokerId, Leftovers]:
    copies: dict[BrokerId, dict[TopicPartition, uuid.UUID]] = {}
    for partition in partitions:
        topic_id = context.topics[partition.id.topic].id
        for broker in partition.assignment.replicas:
            copies.setdefault(broker, {})[partition.id] = topic_id
    return dict(copies)
