"""Decides whether what is asked of one partition is refused, from its role and its epochs."""

from __future__ import annotations

import uuid

from klamm.broker.replicas.orders import Order, Stop
from klamm.broker.replicas.partition import Partition, Role
from klamm.model.errors import ErrorCode
from klamm.model.names import EPOCH_DURING_DELETE, NO_EPOCH, ZERO_ID, BrokerId


def refused_at_once(
    order: Order, partition: Partition | None, broker_id: BrokerId
) -> ErrorCode | None:
    """The reason to refuse an order, as far as no log has to be looked at for that."""
    _, topic_id, state = order
    if partition is not None and partition.role is Role.OFFLINE:
        return ErrorCode.KAFKA_STORAGE_ERROR
    known_id = _topic_id(partition)
    # To compare ids takes long, and nearly always they are one.
    is_another = known_id is not topic_id and known_id is not ZERO_ID
    if is_another and ZERO_ID not in (known_id, topic_id) and known_id != topic_id:
        return ErrorCode.INCONSISTENT_TOPIC_ID
    if partition is not None and state.leader_epoch <= partition.leader_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if broker_id not in state.replicas:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


def is_only_called_otherwise(order: Order, partition: Partition) -> bool:
    """Whether an order repeats a leader epoch, and has or lacks the topic's id unlike before."""
    known = _topic_id(partition)
    calls_by_id = partition.has_id and known != ZERO_ID
    return (
        partition.role is not Role.OFFLINE
        and order.state.leader_epoch == partition.leader_epoch
        and partition.log is not None
        and calls_by_id is not (order.topic_id != ZERO_ID)
        and (order.topic_id in (ZERO_ID, known) or known == ZERO_ID)
    )


def stop_fault(stop: Stop, partition: Partition | None) -> ErrorCode:
    """The reason not to stop a replica; NONE if it may be stopped."""
    if partition is None:
        return ErrorCode.NONE
    if partition.role is Role.OFFLINE:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if stop.leader_epoch in (NO_EPOCH, EPOCH_DURING_DELETE):
        return ErrorCode.NONE
    if stop.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.NONE


def epoch_fault(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """Whether the caller and this broker speak of the same leadership."""
    if current_leader_epoch in (NO_EPOCH, partition.leader_epoch):
        return ErrorCode.NONE
    if current_leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def _topic_id(partition: Partition | None) -> uuid.UUID:
    if partition is None or partition.log is None:
        return ZERO_ID
    return partition.log.topic_id or ZERO_ID
