"""Calling a deletion off, which Kafka cannot.

Possible while every log is there: the marker is removed, and the topic's partitions and replicas
are brought to where they would be had nobody asked. What happened to the topic's brokers meanwhile
was left alone because the topic was on its way out, so it is dealt with here.

A deletion that an earlier controller began to work on may have cost logs of which this one knows
nothing. The store tells: before the first log is removed, every partition loses its leader there.
"""

from __future__ import annotations

from klamm.controller.context import Topic
from klamm.controller.effects import RemoveMarkers
from klamm.controller.events import DeletionCancelled, PartitionFault
from klamm.controller.membership import brokers
from klamm.controller.reassignments import reassignment
from klamm.controller.states import PartitionState, ReplicaState, topic_machine
from klamm.controller.states.machines import move_partitions, move_replicas
from klamm.controller.states.topic_machine import alive_state, move_topic
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.errors import ErrorCode
from klamm.model.names import Replica


def deletion_cancelled(turn: Turn, event: DeletionCancelled) -> Flow[PartitionFault]:
    """Take a deletion back, if no log is removed yet."""
    context, name = turn.context, event.topic
    topic = context.topics.get(name)
    if topic is None or not context.is_queued(name):
        return _fault(name, "is not being deleted")
    why = topic_machine.loss(context, topic)
    if why is not None:
        return _fault(name, why)
    yield from commit([RemoveMarkers((name,))])
    refused = move_topic(turn, topic, alive_state(topic), "called off by hand")
    assert refused is None, f"topic {name} is {topic.state}"
    yield from _revive(turn, topic)
    return PartitionFault()


def _fault(name: str, why: str) -> PartitionFault:
    return PartitionFault(ErrorCode.INVALID_REQUEST, f"topic {name} {why}")


def _revive(turn: Turn, topic: Topic) -> Flow[None]:
    """Leaders first, then the replicas, as after any change of brokers; then tell everybody."""
    context, partitions = turn.context, list(topic.partitions.values())
    unled = [
        p
        for p in partitions
        if p.leadership is not None
        and p.state is PartitionState.ONLINE
        and not context.is_online(p.leadership.leader, p.id)
    ]
    yield from move_partitions(turn, unled, PartitionState.OFFLINE)
    replicas = [Replica(p.id, broker) for p in partitions for broker in p.assignment.replicas]
    online = [r for r in replicas if context.is_online(r.broker, r.partition)]
    offline = [r for r in replicas if not context.is_online(r.broker, r.partition)]
    yield from move_replicas(turn, online, ReplicaState.ONLINE)
    yield from brokers.elect_for_unled(turn, [topic.name])
    yield from move_replicas(turn, offline, ReplicaState.OFFLINE)
    batch = turn.batch()
    batch.publish(partitions)
    turn.send(batch)
    yield from reassignment.resume(turn, [p.id for p in partitions])
