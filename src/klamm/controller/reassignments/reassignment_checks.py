"""Whether a partition may be moved where somebody wants it, and where a cancelled move leads."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.controller.context import Context, Partition
from klamm.controller.events import PartitionFault
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, TopicPartition


def where_it_was(context: Context, id: TopicPartition) -> tuple[BrokerId, ...]:
    """The replicas that a cancelled move returns to, in their old order if that is known."""
    partition = context.partition(id)
    assert partition is not None, f"{id} is not known"
    origin = partition.assignment.origin
    if partition.original is not None and set(partition.original) == set(origin):
        return partition.original
    return origin


def fault_of(
    context: Context, id: TopicPartition, replicas: Sequence[BrokerId] | None
) -> PartitionFault | None:
    """The reason why this move is refused; the first in Kafka's order."""
    bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    partition = context.partition(id)
    if replicas is not None:
        if not replicas:
            return PartitionFault(bad, "Empty replica list specified in partition reassignment.")
        if len(set(replicas)) != len(replicas):
            return PartitionFault(
                bad,
                f"Duplicate replica ids in partition reassignment replica list: {list(replicas)}",
            )
        if min(replicas) < 0:
            return PartitionFault(bad, f"Invalid broker id in replica list: {list(replicas)}")
        added = partition.assignment.towards(replicas).adding if partition else replicas
        absent = [broker for broker in added if not context.is_live(broker)]
        if absent:
            return PartitionFault(
                bad,
                "Replica assignment has brokers that are not alive. "
                f"Replica list: {list(added)}, brokers that are not: {absent}",
            )
    elif id not in context.reassigning:
        return PartitionFault(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            f"No partition reassignment is in progress. {id} is not being moved.",
        )
    if partition is None or context.is_queued(id.topic):
        return PartitionFault(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"The partition does not exist. {id} is unknown, or being deleted.",
        )
    target = where_it_was(context, id) if replicas is None else replicas
    if loses_in_sync(partition, target):
        return PartitionFault(bad, f"{id} would lose every replica that has its records")
    return None


def loses_in_sync(partition: Partition, target: Sequence[BrokerId]) -> bool:
    """Whether a change of plan drops all that is in sync: added replicas may be all there is."""
    if partition.leadership is None:
        return False
    after = partition.assignment.towards(target)
    return not set(partition.leadership.isr) & set(after.replicas)
