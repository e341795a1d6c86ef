"""The first event of a term: learn everything, then bring the machines to where the facts say.

The order matters. Brokers must know each other before any replica is told whom to follow; replicas
come before partitions so that an ISR holds only who is there when a leader is chosen from it; moves
and deletions that the last controller began are taken up when everything serves.

What the last controller wrote into the ledger is not known here, only what it stored. So whatever
is not found as it should be (a topic that just serves, a partition with a leader, a replica that is
online) gets a first line that begins with "found" instead of a state, and its story goes on there.
"""

from __future__ import annotations

from klamm.controller import elections
from klamm.controller.context import Context
from klamm.controller.effects import RemoveMarkers, RemoveNotifications, RemoveTopic
from klamm.controller.events import ElectionsRequested, ReassignmentsRequested, TermBegan
from klamm.controller.lifecycle import deletion, leftovers
from klamm.controller.lifecycle.topic_nodes import rewrite_topic
from klamm.controller.membership.brokers import elect_for_unled
from klamm.controller.reassignments import reassignment
from klamm.controller.states import PartitionState, ReplicaState
from klamm.controller.states.machines import find_partition, find_replicas, move_replicas
from klamm.controller.states.topic_machine import find_topic, obstacle
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.names import BrokerId, Replica


def term_began(turn: Turn, event: TermBegan) -> Flow[None]:
    """Take over."""
    context = turn.context
    context.began_ms = context.now_ms
    turn.note(f"controller {context.controller}", "", "standby", "active", f"epoch {context.epoch}")
    _learn(turn, event)
    yield from leftovers.save(turn)
    notices = RemoveNotifications(event.log_dir_notices, event.isr_notices)
    if notices.log_dirs or notices.isr_changes:
        yield from commit([notices])
    for name, node in event.topics.items():
        if node.id_missing:
            yield from rewrite_topic(turn, context.topics[name])
    yield from _queue_deletions(turn, event)
    turn.publish_brokers()
    _hide_doomed(turn)
    yield from _start_replicas(turn)
    yield from _start_partitions(turn)
    leftovers.stop(turn, context.live())
    if event.reassignment_requests is not None:
        yield from reassignment.reassignments_requested(
            turn, ReassignmentsRequested(event.reassignment_requests)
        )
    yield from reassignment.resume(turn, list(context.reassigning))
    yield from deletion.resume(turn, _free_to_go(context))
    if event.election_requests:
        yield from elections.elections_requested(turn, ElectionsRequested(event.election_requests))


def _learn(turn: Turn, event: TermBegan) -> None:
    context = turn.context
    marked = frozenset(event.markers) if turn.settings.deletion_enabled else frozenset()
    context.brokers.update(event.brokers)
    for broker, left in event.leftovers.items():
        # A copy that is assigned again since is no leftover: taking up its topic drops it here.
        context.leftovers[broker] = dict(left)
    for name, node in event.topics.items():
        for partition in context.add_topic(name, node):
            leadership = event.states.get(partition.id)
            if leadership is not None:
                context.lead(partition, leadership)
        find_topic(turn, context.topics[name], is_marked=name in marked)


def _queue_deletions(turn: Turn, event: TermBegan) -> Flow[None]:
    context = turn.context
    if not turn.settings.deletion_enabled:
        if event.markers:
            names = ", ".join(event.markers)
            turn.warn(f"topic deletion is disabled; markers are removed: {names}")
            yield from commit([RemoveMarkers(event.markers)])
        return
    # A marker without a topic is the last of a deletion that was interrupted.
    yield from commit([RemoveTopic(name) for name in event.markers if name not in context.topics])
    for name in context.deletions:
        why = obstacle(turn, context.topics[name])
        if why is None and context.absentees(name):
            why = deletion.Halt.OFFLINE
        if why is not None:
            deletion.halt(turn, name, why)


def _hide_doomed(turn: Turn) -> None:
    """Topics on their way out are hidden from clients, whoever began to delete them."""
    batch = turn.batch()
    if turn.context.deletions:
        batch.publish(turn.context.partitions_of(turn.context.deletions))
    turn.send(batch)


def _start_replicas(turn: Turn) -> Flow[None]:
    context = turn.context
    online: list[Replica] = []
    offline: list[Replica] = []
    for partition in context.partitions():
        queued = context.is_queued(partition.id.topic)
        found: dict[BrokerId, ReplicaState] = {}
        for broker in partition.assignment.replicas:
            is_online = context.is_online(broker, partition.id)
            found[broker] = ReplicaState.ONLINE if is_online else ReplicaState.DELETION_INELIGIBLE
            if not queued:
                (online if is_online else offline).append(Replica(partition.id, broker))
        find_replicas(turn, partition, found)
    yield from move_replicas(turn, online, ReplicaState.ONLINE)
    yield from move_replicas(turn, offline, ReplicaState.OFFLINE)


def _start_partitions(turn: Turn) -> Flow[None]:
    context = turn.context
    for partition in context.partitions():
        leadership = partition.leadership
        if leadership is None:
            state = PartitionState.NEW
        elif context.is_online(leadership.leader, partition.id):
            state = PartitionState.ONLINE
        else:
            state = PartitionState.OFFLINE
        find_partition(turn, partition, state)
    yield from elect_for_unled(turn)


def _free_to_go(context: Context) -> list[str]:
    return [name for name, deletion in context.deletions.items() if deletion.halted is None]
