"""Counts the gauges of Kafka's controller.

They are read off the context when somebody looks, which is every few seconds, and not kept in step
with every event. What would take a look at every partition has an index in the context; the rest
costs what is offline, being deleted, or the number of topics.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from klamm.controller.context import Context
from klamm.controller.states import PartitionState, ReplicaState, TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Kafka's names; topics on their way out count only where the name says so."""

    active_broker_count: int = 0
    fenced_broker_count: int = 0  # registered, out of reach, held to be dead
    global_topic_count: int = 0
    global_partition_count: int = 0
    offline_partitions_count: int = 0
    preferred_replica_imbalance_count: int = 0
    topics_to_delete_count: int = 0
    topics_ineligible_to_delete_count: int = 0  # halted: they wait for a replica or a move
    replicas_to_delete_count: int = 0
    replicas_ineligible_to_delete_count: int = 0
    reassigning_partitions_count: int = 0


def read(context: Context) -> Gauges:
    """The numbers as of now."""
    doomed = Counter(
        partition.replica_states.get(broker, ReplicaState.NON_EXISTENT)
        for partition in context.partitions_of(context.deletions)
        for broker in partition.assignment.replicas
    )
    return Gauges(
        active_broker_count=len(context.brokers),
        fenced_broker_count=len(context.fenced),
        global_topic_count=len(context.topics),
        global_partition_count=sum(len(t.partitions) for t in context.topics.values()),
        offline_partitions_count=_offline(context),
        preferred_replica_imbalance_count=sum(
            not context.is_queued(id.topic) for id in context.displaced
        ),
        topics_to_delete_count=len(context.deletions),
        topics_ineligible_to_delete_count=sum(
            context.topics[name].state is TopicState.HALTED for name in context.deletions
        ),
        replicas_to_delete_count=doomed.total() - doomed[ReplicaState.DELETION_SUCCESSFUL],
        replicas_ineligible_to_delete_count=doomed[ReplicaState.DELETION_INELIGIBLE],
        reassigning_partitions_count=len(context.reassigning),
    )


def _offline(context: Context) -> int:
    count = 0
    for id in context.unled:
        partition = context.partition(id)
        assert partition is not None, f"{id} is not known"
        if partition.state is PartitionState.OFFLINE and not context.is_queued(id.topic):
            count += 1
    return count
