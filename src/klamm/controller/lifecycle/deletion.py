"""Topic deletion.

A topic is gone only when every replica has confirmed. One replica that cannot confirm, because its
broker is down, its disk is bad or it is being moved, halts the whole topic; the topic goes on when
that broker is back or that move has ended, and a timer asks again in case a broker refused for a
reason that nobody announces the end of. An operator may also give up the copies on a broker that
stays away: they are written down and removed when it returns, and the topic's last line in the
ledger says so. From then on the deletion cannot be called off, and its moves are over: a copy that
nobody waits for is not brought up again to take part in one.

Each deletion has two rounds of StopReplica. The first stops every copy everywhere, the second
removes the logs, so that no copy is fetched from while another is being removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from klamm.controller.context import Context, Partition
from klamm.controller.effects import RemoveMarkers, RemoveTopic, Stored
from klamm.controller.events import (
    MarkersChanged,
    PartitionFault,
    ReplicaGivenUp,
    StopReplicaAnswered,
    TopicArchived,
)
from klamm.controller.lifecycle import leftovers
from klamm.controller.reassignments import reassignment_requests
from klamm.controller.states import PartitionState, ReplicaState, TopicState, topic_machine
from klamm.controller.states.machines import move_partitions, move_replicas
from klamm.controller.states.topic_machine import move_topic
from klamm.controller.turn import Flow, Turn, commit, pause
from klamm.model.errors import ErrorCode
from klamm.model.names import Replica, TopicPartition

_S = ReplicaState
_GONE = ReplicaState.NON_EXISTENT
# Of more partitions than this clients hear that they are gone before the work on their copies.
_SHOWN_FIRST: Final = 100


class Halt(StrEnum):
    """The reasons why a deletion waits."""

    MOVING = topic_machine.IS_MOVING
    OFFLINE = topic_machine.IS_OFFLINE
    REFUSED = "a broker could not delete its copy"


class Release(StrEnum):
    """The reasons why a waiting deletion continues."""

    BROKER_BACK = "a broker with a replica is back"
    DISK_GOOD = "a replica's directory is good again"
    MOVE_ENDED = "the move has ended"
    GIVEN_UP = "the missing copies were given up"
    TIMER = "another try"


def markers_changed(turn: Turn, event: MarkersChanged) -> Flow[None]:
    """Somebody asked to delete topics."""
    context = turn.context
    unknown = [name for name in event.topics if name not in context.topics]
    known = [name for name in event.topics if name in context.topics]
    if unknown:
        turn.warn(f"delete markers of unknown topics are removed: {', '.join(unknown)}")
    if known and not turn.settings.deletion_enabled:
        turn.warn(f"topic deletion is disabled; markers are removed: {', '.join(known)}")
        unknown, known = list(event.topics), []
    if unknown:
        yield from commit([RemoveMarkers(tuple(unknown))])
    fresh = [name for name in known if not context.is_queued(name)]
    for name in fresh:
        move_topic(turn, context.topics[name], TopicState.QUEUED)
        why = topic_machine.obstacle(turn, context.topics[name])
        if why is not None:
            halt(turn, name, why)
    yield from resume(turn, fresh)


def halt(turn: Turn, name: str, why: str) -> None:
    """Let a queued topic wait."""
    deletion = turn.context.deletions.get(name)
    if deletion is not None and deletion.halted != why:
        move_topic(turn, turn.context.topics[name], TopicState.HALTED, why)


def release(turn: Turn, names: Iterable[str], why: Release) -> Flow[None]:
    """Let topics that waited go on, as far as they can."""
    released = []
    for name in names:
        deletion = turn.context.deletions.get(name)
        if deletion is None:
            continue
        if deletion.halted is not None:
            refused = move_topic(turn, turn.context.topics[name], TopicState.DELETING, why)
            if refused is not None:
                halt(turn, name, refused.why)  # it may wait for something else by now
                continue
        released.append(name)
    yield from resume(turn, released)


def retry(turn: Turn) -> Flow[None]:
    """Ask again for what a broker refused, now that some time has passed."""
    context = turn.context
    ready = [
        name
        for name, deletion in context.deletions.items()
        if deletion.halted is not None and not context.absentees(name)
    ]
    # A topic that is neither halted nor waiting for an answer lost its completion to the store.
    stuck = [
        name
        for name, deletion in context.deletions.items()
        if deletion.halted is None and not _any_in(context, name, _S.DELETION_STARTED)
    ]
    yield from release(turn, [*ready, *stuck], Release.TIMER)


def resume(turn: Turn, names: Iterable[str]) -> Flow[None]:
    """Complete, try again or start: whatever each of these topics is ready for."""
    context = turn.context
    again: list[Replica] = []
    ready: list[str] = []
    for name in names:
        if not context.is_queued(name):
            continue
        if context.is_confirmed(name):
            yield from _complete(turn, name)
        elif not _any_in(context, name, _S.DELETION_STARTED):
            again += _replicas_in(context, name, _S.DELETION_INELIGIBLE)
            if context.deletions[name].halted is None:
                ready.append(name)
    if again:
        yield from move_replicas(turn, again, _S.OFFLINE)
    if ready:
        yield from _start(turn, ready)


def _complete(turn: Turn, name: str) -> Flow[None]:
    """Remove a topic from the store, then from memory."""
    context = turn.context
    topic = context.topics[name]
    if topic.state is not TopicState.DELETING:  # one without partitions has nothing to start with
        move_topic(turn, topic, TopicState.DELETING)
    yield from reassignment_requests.drop(turn, [p.id for p in topic.partitions.values()])
    (outcome,) = yield from commit([RemoveTopic(name)])
    if not isinstance(outcome, Stored):
        turn.warn(f"topic {name} could not be removed from the store yet")
        return
    context.deletions[name].removed = True
    yield from move_replicas(turn, _replicas_in(context, name, _S.DELETION_SUCCESSFUL), _GONE)
    move_topic(turn, topic, TopicState.ABSENT)


def stop_replica_answered(turn: Turn, event: StopReplicaAnswered) -> Flow[None]:
    """A broker removed logs, or could not."""
    context = turn.context
    broker = event.request.to
    if not context.is_current(broker, event.request.broker_epoch):
        return  # an answer of a life that is over; its end has been dealt with
    failed: list[Replica] = []
    done: list[Replica] = []
    confirmed: list[TopicPartition] = []
    left = context.leftovers.get(broker, {})
    for order in event.request.orders:
        id = order.partition
        code = event.code or event.errors.get(id, ErrorCode.NONE)
        if not order.delete:
            continue
        if code is ErrorCode.NONE and left.get(id) == order.topic_id:
            confirmed.append(id)
        replica = Replica(id, broker)
        is_awaited = context.replica_state(replica) is _S.DELETION_STARTED
        if is_awaited and context.topics[id.topic].id == order.topic_id:
            (done if code is ErrorCode.NONE else failed).append(replica)
            if code is not ErrorCode.NONE:
                turn.warn(f"{replica} could not be deleted: {code.name}")
    if confirmed:
        yield from leftovers.confirm(turn, broker, confirmed)
    if failed:
        yield from fail(turn, failed, Halt.REFUSED)
    if done:
        yield from move_replicas(turn, done, _S.DELETION_SUCCESSFUL)
        yield from resume(turn, _topics(done))


def fail(turn: Turn, replicas: Sequence[Replica], why: Halt) -> Flow[None]:
    """These replicas cannot be deleted now: their topics wait."""
    ineligible = [
        r for r in replicas if turn.context.replica_state(r) in (_S.OFFLINE, _S.DELETION_STARTED)
    ]
    # What was confirmed before its broker went is missed by nobody.
    missed = [r for r in replicas if turn.context.replica_state(r) is not _S.DELETION_SUCCESSFUL]
    yield from move_replicas(turn, ineligible, _S.DELETION_INELIGIBLE)
    for name in _topics(missed):
        halt(turn, name, why)


def replica_given_up(turn: Turn, event: ReplicaGivenUp) -> Flow[PartitionFault]:
    """An operator gives up a topic's copies on a broker that is away."""
    context = turn.context
    if not context.is_queued(event.topic):
        return PartitionFault(
            ErrorCode.INVALID_REQUEST, f"topic {event.topic} is not being deleted"
        )
    if event.broker in context.brokers:
        return PartitionFault(ErrorCode.INVALID_REQUEST, f"broker {event.broker} is alive")
    topic = context.topics[event.topic]
    hosted = [p for p in topic.partitions.values() if event.broker in p.assignment.replicas]
    if not hosted:
        return PartitionFault(
            ErrorCode.INVALID_REQUEST, f"broker {event.broker} has no copy of {event.topic}"
        )
    copies = [Replica(p.id, event.broker) for p in hosted]
    left = [r for r in copies if context.replica_state(r) is not _S.DELETION_SUCCESSFUL]
    if left:
        yield from leftovers.write_down(
            turn, {event.broker: {replica.partition: topic.id for replica in left}}
        )
        context.deletions[event.topic].given_up[event.broker] = None
        yield from move_replicas(turn, left, _S.DELETION_SUCCESSFUL, "given up by hand")
    waits_for_move = context.deletions[event.topic].halted == Halt.MOVING
    if waits_for_move or not context.absentees(event.topic):
        yield from release(turn, [event.topic], Release.GIVEN_UP)
    else:
        yield from resume(turn, [event.topic])
    return PartitionFault()


def topic_archived(turn: Turn, event: TopicArchived) -> PartitionFault:
    """Write down where what is about to be deleted lies.

    The archive is a subject of its own: the ledger forgets a topic with its end, and this is what
    somebody will look for then.
    """
    name, context = event.topic, turn.context
    topic = context.topics.get(name)
    if topic is None or topic.id != event.topic_id:
        return PartitionFault(
            ErrorCode.UNKNOWN_TOPIC_ID, f"topic {name} is not the one that was archived"
        )
    why = f"{event.records} records, SHA-256 of the manifest {event.sha256}"
    turn.note(f"archive of {name}", name, "none", event.manifest, why)
    return PartitionFault()


def _start(turn: Turn, names: Sequence[str]) -> Flow[None]:
    context = turn.context
    for name in names:
        if context.topics[name].state is TopicState.QUEUED:
            move_topic(turn, context.topics[name], TopicState.DELETING)
    first = [name for name in names if not context.deletions[name].started]
    if first:
        partitions = context.partitions_of(first)
        living = [p for p in partitions if p.state is not PartitionState.NON_EXISTENT]
        yield from move_partitions(turn, living, PartitionState.OFFLINE)
        yield from move_partitions(turn, living, PartitionState.NON_EXISTENT)
        for name in first:
            context.deletions[name].started = True
    doomed = context.partitions_of(names)
    batch = turn.batch()
    batch.publish(doomed)
    turn.send(batch)
    if len(doomed) > _SHOWN_FIRST:
        yield from pause()
    yield from _stop_and_delete(turn, doomed)


def _stop_and_delete(turn: Turn, partitions: Sequence[Partition]) -> Flow[None]:
    context = turn.context
    alive: list[Replica] = []
    dead: list[Replica] = []
    for partition in partitions:
        for broker in partition.assignment.replicas:
            if partition.replica_states.get(broker) is _S.DELETION_SUCCESSFUL:
                continue
            online = context.is_online(broker, partition.id)
            (alive if online else dead).append(Replica(partition.id, broker))
    yield from fail(turn, dead, Halt.OFFLINE)
    yield from move_replicas(turn, alive, _S.OFFLINE)
    yield from move_replicas(turn, alive, _S.DELETION_STARTED)


def _any_in(context: Context, name: str, state: ReplicaState) -> bool:
    return any(state in p.replica_states.values() for p in context.topics[name].partitions.values())


def _replicas_in(context: Context, name: str, state: ReplicaState) -> list[Replica]:
    return [
        Replica(p.id, broker)
        for p in context.topics[name].partitions.values()
        for broker, found in p.replica_states.items()
        if found is state
    ]


def _topics(replicas: Iterable[Replica]) -> list[str]:
    return list(dict.fromkeys(replica.partition.topic for replica in replicas))
