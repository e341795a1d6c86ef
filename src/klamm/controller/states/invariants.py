"""Checks what must hold between any two events, whatever happened.

`check` raises `InvariantBroken` with everything that does not hold. Tests and simulations call it
after each event; it looks at every partition, so a live controller does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.controller.context import Context, Partition, Topic
from klamm.controller.states import PartitionState, ReplicaState, TopicState
from klamm.controller.states.topic_machine import alive_state
from klamm.model.errors import InvariantBroken
from klamm.model.names import NO_LEADER, BrokerId, TopicPartition

_DOOMED = frozenset({TopicState.QUEUED, TopicState.HALTED, TopicState.DELETING})
_LASTING = frozenset(
    {
        TopicState.CREATED,
        TopicState.FROZEN,
        TopicState.IMPORTING,
        TopicState.HALTED,
        TopicState.DELETING,
    }
)
_DELETION = frozenset(
    {
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
    }
)


def check(context: Context) -> None:
    """Raise unless everything holds."""
    faults = list(_faults(context))
    if faults:
        raise InvariantBroken("; ".join(faults))


def _faults(context: Context) -> Iterator[str]:
    seen: set[TopicPartition] = set()
    for topic in context.topics.values():
        if context.names.get(topic.id) != topic.name:
            yield f"topic {topic.name} is not found by its id"
        yield from _topic_faults(context, topic)
        for index, partition in topic.partitions.items():
            if partition.id != (topic.name, index):
                yield f"{partition.id} is filed as {topic.name}-{index}"
            seen.add(partition.id)
            yield from _partition_faults(context, partition)
    yield from _index_faults(context, seen)


def _topic_faults(context: Context, topic: Topic) -> Iterator[str]:
    """Whether a topic is in a state that lasts, and everything about it agrees with the state."""
    name, deletion = topic.name, context.deletions.get(topic.name)
    if topic.state not in _LASTING:
        yield f"topic {name} is {topic.state}, which is over within one event"
    if (topic.state in _DOOMED) != (deletion is not None):
        yield f"topic {name} is {topic.state}, and its deletion is {deletion}"
    if deletion is None and topic.state is not alive_state(topic):
        told = f"frozen={topic.frozen}, importing={topic.importing}"
        yield f"topic {name} is {topic.state}, and its settings say {told}"
    if deletion is None:
        return
    if (topic.state is TopicState.HALTED) != (deletion.halted is not None):
        yield f"topic {name} is {topic.state}, and waits because: {deletion.halted}"
    if topic.state is TopicState.DELETING and not deletion.started:
        yield f"topic {name} is {topic.state} though nobody was told to remove a log"


def _partition_faults(context: Context, p: Partition) -> Iterator[str]:
    assignment = p.assignment
    replicas = set(assignment.replicas)
    if len(replicas) != len(assignment.replicas):
        yield f"{p.id} has a replica twice: {assignment.replicas}"
    if not set(assignment.adding) <= replicas or not set(assignment.removing) <= replicas:
        yield f"{p.id} adds or removes a stranger: {assignment}"
    if set(assignment.adding) & set(assignment.removing):
        yield f"{p.id} adds what it removes: {assignment}"
    if not set(p.replica_states) <= replicas:
        yield f"{p.id} has states of strangers: {p.replica_states}"
    if p.leadership is not None:
        yield from _leadership_faults(context, p, replicas)
    elif p.state is PartitionState.ONLINE:
        yield f"{p.id} is Online without leadership"
    if not context.is_queued(p.id.topic):
        yield from _life_faults(context, p)
    elif context.deletions[p.id.topic].started and p.state is not PartitionState.NON_EXISTENT:
        yield f"{p.id} is {p.state} though its deletion has started"


def _leadership_faults(context: Context, p: Partition, replicas: set[BrokerId]) -> Iterator[str]:
    leadership = p.leadership
    assert leadership is not None, p.id
    if leadership.leader != NO_LEADER and leadership.leader not in leadership.isr:
        yield f"{p.id} is led from outside its ISR: {leadership}"
    if not leadership.isr or not set(leadership.isr) <= replicas:
        yield f"{p.id} has an ISR outside its replicas {p.assignment.replicas}: {leadership.isr}"
    if leadership.controller_epoch > context.epoch:
        yield f"{p.id} was decided by a later controller: {leadership}"


def _life_faults(context: Context, p: Partition) -> Iterator[str]:
    if p.state is PartitionState.NON_EXISTENT:
        yield f"{p.id} is NonExistent though nobody deletes it"
    if p.state is PartitionState.ONLINE and p.leadership is not None:
        leader = p.leadership.leader
        if leader not in context.brokers:
            yield f"{p.id} is Online under {leader}, which is not there"
    dying = [b for b, state in p.replica_states.items() if state in _DELETION]
    if dying:
        yield f"{p.id} is being deleted on {dying} though its topic is not"


def _index_faults(context: Context, seen: set[TopicPartition]) -> Iterator[str]:
    hosted = {(b, id) for b, ids in context.hosted.items() for id in ids}
    assigned = {(b, p.id) for p in context.partitions() for b in p.assignment.replicas}
    for index in context.hosted.values():
        yield from (f"{id} is another in the index" for id, p in index.items() if p.id != id)
    if hosted != assigned:
        yield f"the index by broker is off: {sorted(hosted ^ assigned)[:4]}"
    unled = {
        p.id
        for p in context.partitions()
        if p.state in (PartitionState.NEW, PartitionState.OFFLINE)
    }
    if unled != context.unled.keys():
        yield f"the index of partitions without leader is off: {unled ^ context.unled.keys()}"
    displaced = {
        p.id
        for p in context.partitions()
        if p.leadership is not None and p.leadership.leader != p.assignment.replicas[0]
    }
    if displaced != context.displaced.keys():
        yield f"the index of leaders out of place is off: {displaced ^ context.displaced.keys()}"
    begun = {p.id for p in context.partitions() if p.assignment.is_reassigning}
    if begun != context.reassigning.keys():
        yield f"the index of reassignments is off: {begun ^ context.reassigning.keys()}"
    if context.fenced.keys() & context.brokers.keys():
        yield f"brokers are fenced and live: {context.fenced.keys() & context.brokers.keys()}"
    for name in context.deletions.keys() - context.topics.keys():
        yield f"topic {name} is queued for deletion and not known"
    for broker, dirs in (*context.offline_dirs.items(), *context.lost_logs.items()):
        if not dirs.keys() <= seen:
            yield f"broker {broker} has unknown partitions on bad disks: {dirs.keys() - seen}"
    for broker, foreign in context.foreign.items():
        if not foreign.keys() <= context.offline_dirs.get(broker, {}).keys():
            yield f"broker {broker} serves next to logs of other topics: {foreign.keys()}"
    for broker, ids in context.refused.items():
        if not ids.keys() <= context.hosted.get(broker, {}).keys():
            yield f"broker {broker} refused replicas that are not its own: {ids.keys()}"
