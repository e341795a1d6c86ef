"""Looks over the whole cluster for whatever is not as it should be.

Brokers that nobody has seen in this term are known from the assignments that name them. The cost is
one look at every partition; nothing is kept in step for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from klamm.controller.context import Context, Partition
from klamm.controller.questions.survey import (
    BrokerStatus,
    DeletionStatus,
    MoveStatus,
    Presence,
    Status,
)
from klamm.model.names import NO_LEADER, BrokerId, TopicPartition


def status(context: Context) -> Status:
    """Everything worth knowing about the cluster as of now."""
    short, leads = _look(context)
    offline = tuple(sorted(p for p in context.unled if not context.is_queued(p.topic)))
    return Status(
        controller=context.controller,
        epoch=context.epoch,
        began_ms=context.began_ms,
        topics=len(context.topics),
        partitions=sum(len(topic.partitions) for topic in context.topics.values()),
        brokers=tuple(_broker(context, broker, leads) for broker in _known(context)),
        offline=offline,
        under_replicated=tuple(sorted(set(short).difference(offline))),
        deletions=tuple(_deletion(context, name) for name in sorted(context.deletions)),
        moves=tuple(_moves(context)),
        frozen=tuple(sorted(t.name for t in context.topics.values() if t.frozen)),
        importing=tuple(sorted(t.name for t in context.topics.values() if t.importing)),
        refused=tuple(
            sorted((broker, id) for broker, found in context.refused.items() for id in found)
        ),
    )


def _look(context: Context) -> tuple[list[TopicPartition], Counter[BrokerId]]:
    """The partitions with fewer copies in sync than they have replicas, and who leads how many."""
    short: list[TopicPartition] = []
    leads: Counter[BrokerId] = Counter()
    for name, topic in context.topics.items():
        if context.is_queued(name):
            continue
        for partition in topic.partitions.values():
            leadership = partition.leadership
            if leadership is None:
                continue
            if leadership.leader != NO_LEADER:
                leads[leadership.leader] += 1
            if len(leadership.isr) < len(partition.assignment.replicas) and _is_short(partition):
                short.append(partition.id)
    return short, leads


def _is_short(partition: Partition) -> bool:
    """Whether a copy is missing that is not just on its way to a new place."""
    assert partition.leadership is not None, "looked at above"
    return not set(partition.assignment.origin).issubset(partition.leadership.isr)


def _known(context: Context) -> list[BrokerId]:
    named = {broker for broker, replicas in context.hosted.items() if replicas}
    return sorted({*context.brokers, *context.fenced, *named})


def _broker(context: Context, broker: BrokerId, leads: Counter[BrokerId]) -> BrokerStatus:
    presence, since_ms = _presence(context, broker)
    registered = context.brokers.get(broker) or context.fenced.get(broker)
    endpoint = registered.endpoints[0] if registered and registered.endpoints else None
    return BrokerStatus(
        id=broker,
        presence=presence,
        since_ms=since_ms,
        address=f"{endpoint.host}:{endpoint.port}" if endpoint else None,
        rack=registered.rack if registered else None,
        leads=leads[broker],
        replicas=len(context.hosted.get(broker, ())),
        offline_logs=len(context.offline_dirs.get(broker, ())),
        refused_orders=len(context.refused.get(broker, ())),
    )


def _presence(context: Context, broker: BrokerId) -> tuple[Presence, int | None]:
    if broker in context.fenced:
        return Presence.FENCED, context.away.get(broker)
    if broker not in context.brokers:
        return Presence.DOWN, context.away.get(broker)
    if broker in context.shutting_down:
        return Presence.LEAVING, context.shutting_down[broker]
    return Presence.UP, None


def _deletion(context: Context, name: str) -> DeletionStatus:
    deletion = context.deletions[name]
    return DeletionStatus(
        topic=name,
        state=context.topics[name].state,
        since_ms=deletion.queued_ms,
        why_halted=deletion.halted,
        waits_for=tuple(sorted(context.absentees(name))),
    )


def _moves(context: Context) -> Iterator[MoveStatus]:
    for id, since_ms in sorted(context.reassigning.items()):
        partition = context.partition(id)
        if partition is None:
            continue
        adding = partition.assignment.adding
        in_sync = partition.leadership.isr if partition.leadership else ()
        yield MoveStatus(
            partition=id,
            adding=tuple(adding),
            removing=tuple(partition.assignment.removing),
            caught_up=tuple(broker for broker in adding if broker in in_sync),
            since_ms=since_ms,
        )
