"""Parses a controller's orders to this broker, partition by partition."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, NamedTuple

from klamm.model.errors import ErrorCode
from klamm.model.names import NO_EPOCH, ZERO_ID, TopicPartition, partition_faults
from klamm.protocol.messages import leader_and_isr, stop_replica, update_metadata

log = logging.getLogger(__name__)

# Partitions that are worked on before others get their turn; their files are made by a worker.
_SLICE: Final = 250


class Order(NamedTuple):
    """The order of a LeaderAndIsr request for one partition."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    state: leader_and_isr.LeaderAndIsrPartitionState


class Stop(NamedTuple):
    """The order of a StopReplica request for one partition."""

    topic_partition: TopicPartition
    leader_epoch: int
    delete: bool


def in_slices(orders: Sequence[Order]) -> Iterable[Sequence[Order]]:
    return (orders[at : at + _SLICE] for at in range(0, len(orders), _SLICE))


def faults_in(partitions: Iterable[tuple[str, int]]) -> AbstractSet[tuple[str, int]]:
    """The invalid partitions; the first is logged, for it may be an attack."""
    faults = partition_faults(partitions)
    if faults:
        log.error(
            "a control request names what cannot be a partition",
            extra={"count": len(faults), "why": next(iter(faults.values()))},
        )
    return faults.keys()


def leave_out_faults(request: update_metadata.Request) -> ErrorCode:
    """Take out of a request what is no partition; the answer has one code for all of it."""
    named = (
        (t.topic_name, s.partition_index) for t in request.topic_states for s in t.partition_states
    )
    flat = ((s.topic_name, s.partition_index) for s in request.ungrouped_partition_states)
    faults = faults_in(chain(named, flat))
    if not faults:
        return ErrorCode.NONE
    for topic in request.topic_states:
        topic.partition_states = [
            state
            for state in topic.partition_states
            if (topic.topic_name, state.partition_index) not in faults
        ]
    request.topic_states = [topic for topic in request.topic_states if topic.partition_states]
    request.ungrouped_partition_states = [
        state
        for state in request.ungrouped_partition_states
        if (state.topic_name, state.partition_index) not in faults
    ]
    return ErrorCode.INVALID_TOPIC_EXCEPTION


def orders_of(request: leader_and_isr.Request) -> Iterable[Order]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            topic_partition = TopicPartition(topic.topic_name, state.partition_index)
            yield Order(topic_partition, topic.topic_id, state)
    for state in request.ungrouped_partition_states:
        yield Order(TopicPartition(state.topic_name, state.partition_index), ZERO_ID, state)


def stops_of(request: stop_replica.Request) -> Iterable[Stop]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            topic_partition = TopicPartition(topic.topic_name, state.partition_index)
            yield Stop(topic_partition, state.leader_epoch, state.delete_partition)
    for old in request.topics:
        for index in old.partition_indexes:
            yield Stop(TopicPartition(old.name, index), NO_EPOCH, request.delete_partitions)
    for oldest in request.ungrouped_partitions:
        topic_partition = TopicPartition(oldest.topic_name, oldest.partition_index)
        yield Stop(topic_partition, NO_EPOCH, request.delete_partitions)
