"""ISR changes that leaders ask for (AlterPartition, KIP-497).

The sender is not asked whether it leads: the leader epoch it names is what protects. A change keeps
the leader epoch and raises the partition epoch by one.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from klamm.controller.context import Context, Partition
from klamm.controller.effects import RemoveNotifications, Stored, UpdateState
from klamm.controller.events import IsrAnswer, IsrChange, IsrChangesAsked, IsrChangesNoticed
from klamm.controller.reassignments import reassignment
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId, TopicPartition


@dataclass(slots=True)
class _Case:
    """One change on its way through the checks."""

    change: IsrChange
    partition: Partition | None
    code: ErrorCode
    wanted: Leadership | None = None  # to be stored; None where there is nothing to store


def isr_changes_asked(turn: Turn, event: IsrChangesAsked) -> Flow[IsrAnswer]:
    """Check each change, store the good ones, tell everybody."""
    context = turn.context
    if not context.is_current(event.broker, event.broker_epoch):
        return IsrAnswer(ErrorCode.STALE_BROKER_EPOCH)
    cases = [_examine(context, event, change) for change in event.changes]
    yield from _store(turn, event.broker, cases)
    known = [case.partition for case in cases if case.partition is not None]
    batch = turn.batch()
    batch.publish(known)
    turn.send(batch)
    yield from reassignment.finish_caught_up(turn, [p.id for p in known])
    results = [(c.change, c.code, c.partition.leadership if c.partition else None) for c in cases]
    return IsrAnswer(ErrorCode.NONE, tuple(results))


def isr_changes_noticed(turn: Turn, event: IsrChangesNoticed) -> Flow[None]:
    """Take up what leaders before AlterPartition stored themselves, and tell everybody."""
    context = turn.context
    changed = []
    for id, stored in event.states.items():
        partition = context.partition(id)
        if partition is None or partition.leadership is None:
            continue
        known = partition.leadership
        # A notice says nothing about what this controller has written since.
        if stored.partition_epoch > known.partition_epoch:
            why = f"stored by leader {stored.leader}"
            turn.note(f"{id} ISR", id.topic, _text(known.isr), _text(stored.isr), why)
            context.lead(partition, stored)
            changed.append(partition)
    batch = turn.batch()
    batch.publish(changed)
    turn.send(batch)
    yield from reassignment.finish_caught_up(turn, [p.id for p in changed])
    yield from commit([RemoveNotifications((), event.notices)])


def _store(turn: Turn, leader: BrokerId, cases: Sequence[_Case]) -> Flow[None]:
    accepted = [(c, c.partition, c.wanted) for c in cases if c.partition and c.wanted]
    outcomes = yield from commit([UpdateState(p.id, wanted) for _, p, wanted in accepted])
    for (case, partition, wanted), outcome in zip(accepted, outcomes, strict=True):
        if isinstance(outcome, Stored):
            before = partition.leadership.isr if partition.leadership else ()
            why = f"asked by leader {leader}"
            topic = partition.id.topic
            turn.note(f"{partition.id} ISR", topic, _text(before), _text(wanted.isr), why)
            turn.context.lead(partition, wanted)
        else:
            case.code = ErrorCode.INVALID_UPDATE_VERSION
            if isinstance(outcome.found, Leadership):
                turn.context.lead(partition, outcome.found)


def _examine(context: Context, event: IsrChangesAsked, change: IsrChange) -> _Case:
    name = change.topic
    if isinstance(name, uuid.UUID):
        found = context.names.get(name)
        if found is None:
            return _Case(change, None, ErrorCode.UNKNOWN_TOPIC_ID)
        name = found
    partition = context.partition(TopicPartition(name, change.partition))
    if partition is None or partition.leadership is None:
        return _Case(change, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    verdict = _judge(context, event, change, partition)
    if isinstance(verdict, ErrorCode):
        return _Case(change, partition, verdict)
    # A repeated request is answered again and not written again.
    is_news = verdict != partition.leadership
    return _Case(change, partition, ErrorCode.NONE, verdict if is_news else None)


def _judge(
    context: Context, event: IsrChangesAsked, change: IsrChange, partition: Partition
) -> ErrorCode | Leadership:
    """The leadership a change leads to, or why it is refused; Kafka's order of checks."""
    now = partition.leadership
    assert now is not None, f"{partition.id} is {partition.state}"
    if change.partition_epoch > now.partition_epoch or change.leader_epoch > now.leader_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader knows more than we do: we are probably stale
    if change.leader_epoch < now.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if (now.leader, now.isr, now.recovery) == (event.broker, change.isr, change.recovery):
        return now
    if change.partition_epoch < now.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not _is_possible(change, partition):
        return ErrorCode.INVALID_REQUEST
    if change.recovery is Recovery.RECOVERING and len(change.isr) > 1:
        return ErrorCode.INVALID_REQUEST
    if change.recovery is Recovery.RECOVERING and now.recovery is Recovery.RECOVERED:
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(context, change, broker) for broker in change.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return replace(
        now,
        isr=context.shared(change.isr),
        recovery=change.recovery,
        controller_epoch=context.epoch,
        partition_epoch=now.partition_epoch + 1,
    )


def _is_possible(change: IsrChange, partition: Partition) -> bool:
    """Whether this could be an ISR at all: replicas of the partition, each once, and its leader."""
    members = set(change.isr)
    return (
        len(members) == len(change.isr)
        and members <= set(partition.assignment.replicas)
        and partition.leadership is not None
        and partition.leadership.leader in members
    )


def _is_eligible(context: Context, change: IsrChange, broker: BrokerId) -> bool:
    member = context.brokers.get(broker)
    if member is None or broker in context.shutting_down:
        return False
    # A member that registered again since the leader saw it may have lost what it had.
    return change.isr_epochs.get(broker, -1) in (-1, member.epoch)


def _text(isr: tuple[BrokerId, ...]) -> str:
    return ",".join(map(str, isr))
