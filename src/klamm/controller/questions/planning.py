"""Plans: says what the controller would do, without doing it.

The core is a function, so a plan is the core itself run on a copy: the copy holds the topics in
question and every broker, the store is assumed to say yes, and nobody is told. What comes at once
is one part of a plan; the other is what would come of it if every broker did as it was told: logs
are removed, new replicas catch up. How long that takes, and what fails meanwhile, no plan knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from klamm.controller import events as on
from klamm.controller.context import Context, Partition
from klamm.controller.effects import (
    Copy,
    LeaderAndIsr,
    Outcome,
    PlannedEffects,
    Request,
    RewriteTopic,
    StopReplica,
    Stored,
    Transition,
    Write,
)
from klamm.controller.turn import ControllerSettings, Flow, Turn
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, Replica, TopicPartition

Work = Callable[[Turn, on.Event], Flow[object]]

# A deletion is over after one round of answers, a move after two; what goes on is stuck.
_ROUNDS_MAX: Final = 8


def plan(
    context: Context, settings: ControllerSettings, about: on.Plannable, work: Work
) -> PlannedEffects:
    """Run an event on a copy of the topics it is about, then what follows from it."""
    copy = _copy(context, _topics(context, about))
    first = _Run(copy, settings, work)
    answer = first.take(about)
    later = _Run(copy, settings, work)
    requests: Sequence[Request] = first.requests
    for _ in range(_ROUNDS_MAX):
        seen = len(later.requests)
        for event in list(_follow_ups(copy, requests)):
            later.take(event)
        requests = later.requests[seen:]
        if not requests:
            break
    told = {request.to for request in (*first.requests, *later.requests)}
    return PlannedEffects(
        transitions=tuple(first.transitions),
        later=tuple(later.transitions),
        brokers=tuple(sorted(told)),
        writes_count=first.writes_count + later.writes_count,
        warnings=(*first.warnings, *later.warnings),
        copies=tuple(_copies(context, first.requests)),
        removals=tuple(dict.fromkeys(_removals((*first.requests, *later.requests)))),
        answer=answer,
    )


class _Run:
    """Takes events on a copied context, with a store that says yes."""

    def __init__(self, context: Context, settings: ControllerSettings, work: Work) -> None:
        self.context = context
        self.settings = settings
        self.work = work
        self.requests: list[Request] = []
        self.transitions: list[Transition] = []
        self.warnings: list[str] = []
        self.writes_count = 0

    def take(self, event: on.Event) -> object:
        turn = Turn(self.context, self.settings, "plan")
        flow = self.work(turn, event)
        try:
            writes = next(flow)
            while True:
                self.writes_count += len(writes)
                writes = flow.send(_all_stored(writes))
        except StopIteration as end:
            self.requests += turn.requests
            self.transitions += turn.transitions
            self.warnings += turn.warnings
            return end.value


def _all_stored(writes: Sequence[Write]) -> list[Outcome]:
    return [Stored(w.node.version + 1 if isinstance(w, RewriteTopic) else 0) for w in writes]


def _topics(context: Context, about: on.Plannable) -> Iterable[str]:
    match about:
        case on.TopicsChanged(appeared, vanished):
            return [*appeared, *vanished]
        case on.TopicModified(topic, _):
            return [topic]
        case on.MarkersChanged(topics):
            return topics
        case on.ReassignmentsAsked(targets):
            return [id.topic for id in targets]
        case on.ElectionsAsked(_, partitions):
            return _out_of_place(context) if partitions is None else [id.topic for id in partitions]


def _out_of_place(context: Context) -> Iterator[str]:
    """The topics in which an election of any kind could find something to say or to do.

    Asked about everything, a plan must not copy a big cluster that is as it should be.
    """
    for name, topic in context.topics.items():
        if context.is_queued(name) or any(
            p.leadership is None
            or p.leadership.leader != p.assignment.replicas[0]
            or not context.is_live(p.leadership.leader)
            for p in topic.partitions.values()
        ):
            yield name


def _follow_ups(context: Context, requests: Sequence[Request]) -> Iterator[on.Event]:
    """The answers that brokers would give to these requests if everything went well."""
    for request in requests:
        if isinstance(request, StopReplica) and any(order.delete for order in request.orders):
            yield on.StopReplicaAnswered(request, ErrorCode.NONE, {})
    for id in list(context.reassigning):
        partition = context.partition(id)
        if partition is not None and not context.is_queued(id.topic):
            yield from _caught_up(context, partition)


def _caught_up(context: Context, partition: Partition) -> Iterator[on.Event]:
    now = partition.leadership
    sender = context.brokers.get(now.leader) if now is not None else None
    if now is None or sender is None:
        return
    adding = [b for b in partition.assignment.adding if context.is_online(b, partition.id)]
    change = on.IsrChange(
        topic=partition.id.topic,
        partition=partition.id.partition,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        isr=tuple(dict.fromkeys((*now.isr, *adding))),
    )
    if change.isr != now.isr:
        yield on.IsrChangesAsked(broker=sender.id, broker_epoch=sender.epoch, changes=(change,))


def _copies(context: Context, requests: Iterable[Request]) -> Iterator[Copy]:
    """Replicas that would be new on a broker, of partitions that have records to fetch."""
    found: dict[TopicPartition, tuple[BrokerId, dict[BrokerId, None]]] = {}
    for request in requests:
        if isinstance(request, LeaderAndIsr):
            for order in request.orders:
                known = context.partition(order.partition)
                if order.is_new and known is not None and known.leadership is not None:
                    leader = order.leadership.leader
                    found.setdefault(order.partition, (leader, {}))[1][request.to] = None
    for id, (source, to) in found.items():
        yield Copy(id, source, tuple(to))


def _removals(requests: Iterable[Request]) -> Iterator[Replica]:
    for request in requests:
        if isinstance(request, StopReplica):
            for order in request.orders:
                if order.delete:
                    yield Replica(order.partition, request.to)


def _copy(context: Context, names: Iterable[str]) -> Context:
    """A context of its own with these topics; the rest of the cluster is brokers only."""
    kept = {
        name: context.topics[name].copy() for name in dict.fromkeys(names) if name in context.topics
    }
    copy = Context(
        context.controller,
        context.epoch,
        context.now_ms,
        context.began_ms,
        brokers=dict(context.brokers),
        shutting_down=dict(context.shutting_down),
        topics=kept,
        names={topic.id: topic.name for topic in kept.values()},
        deletions={
            name: deletion.copy() for name, deletion in context.deletions.items() if name in kept
        },
        unclean_default=context.unclean_default,
    )
    ids = [p.id for p in copy.partitions()]
    for partition in copy.partitions():
        for broker in partition.assignment.replicas:
            copy.hosted.setdefault(broker, {})[partition.id] = partition
    copy.unled = {id: context.unled[id] for id in ids if id in context.unled}
    copy.displaced = {id: None for id in ids if id in context.displaced}
    copy.reassigning = {id: context.reassigning[id] for id in ids if id in context.reassigning}
    copy.reassignment_requests = {
        id: context.reassignment_requests[id] for id in ids if id in context.reassignment_requests
    }
    for broker, dirs in context.offline_dirs.items():
        copy.offline_dirs[broker] = {id: dirs[id] for id in ids if id in dirs}
    for broker, foreign in context.foreign.items():
        copy.foreign[broker] = {id: None for id in ids if id in foreign}
    for broker, lost in context.lost_logs.items():
        copy.lost_logs[broker] = {id: lost[id] for id in ids if id in lost}
    return copy
