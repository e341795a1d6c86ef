"""ISR changes that leaders ask for (AlterPartition, KIP-497).

The sender is not asked whether it leads: the leader epoch it names is what protects. A change keeps
the leader epoch and raises the partition epoch by one.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from klamm.controller import reassignment
from klamm.controller.context import Context, Partition
from klamm.controller.effects import Stored, UpdateState
from klamm.controller.events import IsrAnswer, IsrChange, IsrChangesAsked
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId, TopicPartition


def isr_changes_asked(turn: Turn, event: IsrChangesAsked) -> Flow[IsrAnswer]:
    """Check each change, store the good ones, tell everybody."""
    context = turn.context
    sender = context.brokers.get(event.broker)
    if sender is None or sender.epoch != event.broker_epoch:
        return IsrAnswer(ErrorCode.STALE_BROKER_EPOCH)
    verdicts: list[ErrorCode | Leadership] = []
    partitions: list[Partition | None] = []
    for change in event.changes:
        partition, code = _find(context, change)
        partitions.append(partition)
        verdicts.append(_judge(context, event, change, partition) if partition else code)
    accepted = [i for i, verdict in enumerate(verdicts) if isinstance(verdict, Leadership)]
    written: dict[int, Leadership] = {}
    for i in accepted:
        value, partition = verdicts[i], partitions[i]
        assert isinstance(value, Leadership), value
        assert partition is not None, event.changes[i]
        if value == partition.leadership:
            verdicts[i] = ErrorCode.NONE  # a repeated request: answered again, not written again
        else:
            written[i] = value
    yield from _write(turn, event, partitions, verdicts, written)
    requested = [p for p in partitions if p is not None and p.leadership is not None]
    batch = turn.batch()
    batch.publish(requested)
    turn.send(batch)
    yield from reassignment.finish_caught_up(turn, [p.id for p in requested])
    results = [
        (change, code, partition.leadership if partition else None)
        for change, code, partition in zip(event.changes, verdicts, partitions, strict=True)
        if isinstance(code, ErrorCode)
    ]
    return IsrAnswer(ErrorCode.NONE, tuple(results))


def _write(
    turn: Turn,
    event: IsrChangesAsked,
    partitions: list[Partition | None],
    verdicts: list[ErrorCode | Leadership],
    written: dict[int, Leadership],
) -> Flow[None]:
    outcomes = yield from commit(
        [UpdateState(p.id, v) for i, v in written.items() if (p := partitions[i])]
    )
    for (i, value), outcome in zip(written.items(), outcomes, strict=True):
        partition = partitions[i]
        assert partition is not None, event.changes[i]
        if isinstance(outcome, Stored):
            before = partition.leadership.isr if partition.leadership else ()
            turn.note(
                f"{partition.id} ISR",
                partition.id.topic,
                _text(before),
                _text(value.isr),
                f"asked by leader {event.broker}",
            )
            turn.context.lead(partition, value)
            verdicts[i] = ErrorCode.NONE
        else:
            if isinstance(outcome.found, Leadership):
                turn.context.lead(partition, outcome.found)
            verdicts[i] = ErrorCode.INVALID_UPDATE_VERSION


def _find(context: Context, change: IsrChange) -> tuple[Partition | None, ErrorCode]:
    if isinstance(change.topic, uuid.UUID):
        name = context.names.get(change.topic)
        if name is None:
            return None, ErrorCode.UNKNOWN_TOPIC_ID
    else:
        name = change.topic
    partition = context.partition(TopicPartition(name, change.partition))
    if partition is None or partition.leadership is None:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return partition, ErrorCode.NONE


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
    if not change.isr or not set(change.isr) <= set(partition.assignment.replicas):
        return ErrorCode.INVALID_REQUEST
    if change.recovery is Recovery.RECOVERING and len(change.isr) > 1:
        return ErrorCode.INVALID_REQUEST
    if change.recovery is Recovery.RECOVERING and now.recovery is Recovery.RECOVERED:
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(context, change, broker) for broker in change.isr):
        return event.ineligible
    return replace(
        now,
        isr=context.shared(change.isr),
        recovery=change.recovery,
        controller_epoch=context.epoch,
        partition_epoch=now.partition_epoch + 1,
    )


def _is_eligible(context: Context, change: IsrChange, broker: BrokerId) -> bool:
    member = context.brokers.get(broker)
    if member is None or broker in context.shutting_down:
        return False
    # A member that registered again since the leader saw it may have lost what it had.
    return change.isr_epochs.get(broker, -1) in (-1, member.epoch)


def _text(isr: tuple[BrokerId, ...]) -> str:
    return ",".join(map(str, isr))
