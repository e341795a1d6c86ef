"""Moving partitions to other brokers (KIP-455).

A move is written into the topic's node before anything happens, as what is being added and what is
being removed; the origin is lost only by the last write. Whoever is controller finds in the node
how far a move got and takes it up from there. While replicas are added the partition serves as
before (phase A); when all of the target is in sync the old replicas go (phase B). Cancelling is a
move back to where the partition came from, in the order it had there.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

from klamm.controller.admission.node_size import NODE_BYTES_MAX, node_bytes
from klamm.controller.context import Context, Partition, Topic
from klamm.controller.events import (
    PartitionFault,
    ReassignmentsAnswer,
    ReassignmentsAsked,
    ReassignmentsListed,
    ReassignmentsRequested,
)
from klamm.controller.lifecycle import deletion, leftovers
from klamm.controller.lifecycle.topic_nodes import rewrite_topic
from klamm.controller.reassignments import reassignment_requests
from klamm.controller.reassignments.reassignment_checks import fault_of, loses_in_sync, where_it_was
from klamm.controller.states import PartitionState, ReplicaState
from klamm.controller.states.machines import bump_epochs, move_partitions, move_replicas
from klamm.controller.states.strategies import Strategy
from klamm.controller.turn import Flow, Turn
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, Replica, TopicPartition

Targets = Mapping[TopicPartition, Sequence[BrokerId]]


def reassignments_asked(turn: Turn, event: ReassignmentsAsked) -> Flow[ReassignmentsAnswer]:
    """AlterPartitionReassignments: check each, then start those that may."""
    context = turn.context
    results: dict[TopicPartition, PartitionFault] = {}
    accepted: dict[TopicPartition, Sequence[BrokerId]] = {}
    for id, replicas in event.targets.items():
        fault = fault_of(context, id, replicas)
        if fault is not None:
            results[id] = fault
        elif replicas is None:
            accepted[id] = where_it_was(context, id)
        else:
            accepted[id] = replicas
    # The newest request wins over what the legacy one says.
    yield from reassignment_requests.drop(turn, accepted)
    failed = yield from start(turn, accepted)
    for id in accepted:
        results[id] = failed.get(id, PartitionFault())
    return ReassignmentsAnswer({id: results[id] for id in event.targets})


def reassignments_requested(turn: Turn, event: ReassignmentsRequested) -> Flow[None]:
    """The legacy request: entries that make no sense are taken out, the rest is started."""
    context = turn.context
    if not event.targets:
        turn.warn(
            "/admin/reassign_partitions asks for nothing that can be read and is removed: "
            'a request is {"version": 1, "partitions": '
            '[{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
        )
        yield from reassignment_requests.clear(turn)
        return
    fresh = {
        id: to for id, to in event.targets.items() if context.reassignment_requests.get(id) != to
    }
    context.reassignment_requests = dict(event.targets)
    known = {}
    for id, replicas in fresh.items():
        partition = context.partition(id)
        if (
            partition is None
            or not replicas
            or context.is_queued(id.topic)
            or loses_in_sync(partition, replicas)
            or (
                turn.settings.legacy_reassignments_checked
                and fault_of(context, id, replicas) is not None
            )
        ):
            turn.warn(f"the request to move {id} cannot be followed and is removed")
        else:
            known[id] = tuple(dict.fromkeys(replicas))
    yield from reassignment_requests.drop(turn, [id for id in fresh if id not in known])
    yield from start(turn, known)


def reassignments_listed(
    context: Context, event: ReassignmentsListed
) -> dict[TopicPartition, Assignment]:
    """ListPartitionReassignments."""
    wanted = context.reassigning if event.partitions is None else event.partitions
    found = {}
    for id in wanted:
        partition = context.partition(id)
        if partition is not None and id in context.reassigning:
            found[id] = partition.assignment
    return found


def start(turn: Turn, targets: Targets) -> Flow[dict[TopicPartition, PartitionFault]]:
    """Set out for these targets; all partitions of one topic share one write."""
    context = turn.context
    by_topic: dict[str, dict[int, Assignment]] = {}
    for id, target in targets.items():
        partition = context.partition(id)
        assert partition is not None, f"{id} is not known"
        by_topic.setdefault(id.topic, {})[id.partition] = partition.assignment.towards(target)
    failed: dict[TopicPartition, PartitionFault] = {}
    begun: list[Partition] = []
    dropped: list[Replica] = []
    for name, assignments in by_topic.items():
        topic = context.topics[name]
        changed = {
            index: after
            for index, after in assignments.items()
            if after != topic.partitions[index].assignment
        }
        size = node_bytes({i: changed.get(i, p.assignment) for i, p in topic.partitions.items()})
        if size > NODE_BYTES_MAX:
            why = f"the topic's node would take {size} bytes; {NODE_BYTES_MAX} fit: move fewer"
            fault = PartitionFault(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
            failed.update((TopicPartition(name, index), fault) for index in assignments)
            continue
        leaving = _leaving(topic, changed)
        for index in changed:
            _remember_order(topic.partitions[index])
        # The node is the last trace of these copies: a crash behind its write must not lose them.
        yield from _write_down(turn, leaving)
        if changed and not (yield from rewrite_topic(turn, topic, changed)):
            for index in changed:  # they stay assigned, and so are no leftovers
                context.assign(topic.partitions[index], topic.partitions[index].assignment)
            fault = PartitionFault(ErrorCode.UNKNOWN_SERVER_ERROR, "the topic changed meanwhile")
            failed.update((TopicPartition(name, index), fault) for index in assignments)
            continue
        for index in assignments:
            partition = topic.partitions[index]
            before = partition.assignment
            if index in changed:
                after = changed[index]
                turn.note(f"{partition.id} replicas", name, _text(before), _text(after), "move")
                context.assign(partition, after)
            begun.append(partition)
        dropped += leaving
    yield from leftovers.save(turn)
    yield from _replace_leaders(turn, begun)
    yield from _take_out(turn, dropped)
    yield from _go_on(turn, begun)
    return failed


def _replace_leaders(turn: Turn, partitions: Sequence[Partition]) -> Flow[None]:
    """Elect where a replica leads that another move had begun to make, and this one drops."""
    orphaned = [
        p
        for p in partitions
        if p.state is PartitionState.ONLINE
        and p.leadership is not None
        and p.leadership.leader not in p.assignment.replicas
    ]
    yield from move_partitions(turn, orphaned, PartitionState.OFFLINE)
    yield from move_partitions(turn, orphaned, PartitionState.ONLINE)


def _leaving(topic: Topic, changed: Mapping[int, Assignment]) -> list[Replica]:
    """The replicas that another move had begun to make, and that this one does not want."""
    return [
        Replica(topic.partitions[index].id, broker)
        for index, after in changed.items()
        for broker in topic.partitions[index].assignment.replicas
        if broker not in after.replicas
    ]


def resume(turn: Turn, partitions: Iterable[TopicPartition]) -> Flow[None]:
    """Take up those of these partitions that are on the move."""
    yield from _go_on(turn, _reassigning(turn.context, partitions))


def finish_caught_up(turn: Turn, partitions: Iterable[TopicPartition]) -> Flow[None]:
    """End the reassignments whose target has caught up."""
    begun = _reassigning(turn.context, partitions)
    yield from _finish(turn, [p for p in begun if _is_complete(turn.context, p)])


def _reassigning(context: Context, partitions: Iterable[TopicPartition]) -> list[Partition]:
    found = []
    for id in dict.fromkeys(partitions):
        partition = context.partition(id)
        if partition is not None and context.is_moving(id):
            found.append(partition)
    return found


def _go_on(turn: Turn, partitions: Sequence[Partition]) -> Flow[None]:
    complete = [p for p in partitions if _is_complete(turn.context, p)]
    catching_up = [p for p in partitions if not _is_complete(turn.context, p)]
    yield from _add_replicas(turn, catching_up)
    yield from _finish(turn, complete)


def _is_complete(context: Context, partition: Partition) -> bool:
    """Whether the target is in sync, and somebody of it can lead."""
    assignment = partition.assignment
    if not assignment.is_reassigning or partition.leadership is None:
        return True
    return set(assignment.target) <= set(partition.leadership.isr) and any(
        context.is_online(broker, partition.id) for broker in assignment.target
    )


def _add_replicas(turn: Turn, partitions: Sequence[Partition]) -> Flow[None]:
    """Phase A: the added replicas start to follow."""
    bumped = yield from bump_epochs(turn, partitions)
    batch = turn.batch()
    adding: list[Replica] = []
    for partition in bumped:
        assignment = partition.assignment
        batch.order(assignment.origin, partition, is_new=False)
        batch.order(assignment.adding, partition, is_new=True)
        adding += [
            Replica(partition.id, b) for b in assignment.adding if b not in partition.replica_states
        ]
    turn.send(batch)
    yield from move_replicas(turn, adding, ReplicaState.NEW)


def _finish(turn: Turn, partitions: Sequence[Partition]) -> Flow[None]:
    """Phase B: the target takes over, the rest is removed."""
    if not partitions:
        return
    context = turn.context
    adding = [Replica(p.id, b) for p in partitions for b in p.assignment.adding]
    unborn = [r for r in adding if context.replica_state(r) is ReplicaState.NON_EXISTENT]
    yield from move_replicas(turn, unborn, ReplicaState.NEW)
    yield from move_replicas(turn, adding, ReplicaState.ONLINE)
    removing = [Replica(p.id, b) for p in partitions for b in p.assignment.removing]
    for partition in partitions:
        target = partition.assignment.target
        turn.note(
            f"{partition.id} replicas",
            partition.id.topic,
            _text(partition.assignment),
            _text(Assignment(target)),
            "moved",
        )
        context.assign(partition, Assignment(target))
        partition.original = None
    yield from _lead_within_target(turn, partitions)
    yield from _remove(turn, removing)
    for name in dict.fromkeys(p.id.topic for p in partitions):
        yield from rewrite_topic(turn, context.topics[name])
    done = [p.id for p in partitions]
    yield from reassignment_requests.drop(
        turn,
        [
            p.id
            for p in partitions
            if context.reassignment_requests.get(p.id) == p.assignment.replicas
        ],
    )
    batch = turn.batch()
    batch.publish(partitions)
    turn.send(batch)
    queued = dict.fromkeys(id.topic for id in done if context.is_queued(id.topic))
    yield from deletion.release(turn, queued, deletion.Release.MOVE_ENDED)


def _lead_within_target(turn: Turn, partitions: Sequence[Partition]) -> Flow[None]:
    """Move leadership into the target where it is not there yet; tell everybody else to go on."""
    unled: list[Partition] = []  # never led, so never written to: any replica will do
    elect: list[Partition] = []
    keep: list[Partition] = []
    for partition in partitions:
        if partition.leadership is None:
            unled.append(partition)
            continue
        leader = partition.leadership.leader
        stays = leader in partition.assignment.replicas
        online = stays and turn.context.is_online(leader, partition.id)
        (keep if online else elect).append(partition)
    yield from move_partitions(turn, unled, PartitionState.ONLINE)
    yield from move_partitions(turn, elect, PartitionState.ONLINE, Strategy.REASSIGN)
    bumped = yield from bump_epochs(turn, keep)
    batch = turn.batch()
    for partition in bumped:
        batch.order(partition.assignment.replicas, partition, is_new=False)
    turn.send(batch)


def _remove(turn: Turn, replicas: Sequence[Replica]) -> Flow[None]:
    """Stop and remove replicas that are not assigned any more. Nobody waits for the answers, but
    they are tracked until they come."""
    yield from _write_down(turn, replicas)
    yield from _take_out(turn, replicas)


def _write_down(turn: Turn, replicas: Iterable[Replica]) -> Flow[None]:
    left: dict[BrokerId, dict[TopicPartition, uuid.UUID]] = {}
    for id, broker in _known(turn.context, replicas):
        left.setdefault(broker, {})[id] = turn.context.topics[id.topic].id
    yield from leftovers.write_down(turn, dict(left))


def _take_out(turn: Turn, replicas: Iterable[Replica]) -> Flow[None]:
    known = _known(turn.context, replicas)
    for state in (
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        yield from move_replicas(turn, known, state)


def _known(context: Context, replicas: Iterable[Replica]) -> list[Replica]:
    return [r for r in replicas if context.replica_state(r) is not ReplicaState.NON_EXISTENT]


def _remember_order(partition: Partition) -> None:
    if not partition.assignment.is_reassigning:
        partition.original = partition.assignment.replicas


def _text(assignment: Assignment) -> str:
    return ",".join(map(str, assignment.replicas))
