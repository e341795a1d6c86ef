"""The requests of one step, collected and put in order.

A batch is a value made for one step: nothing is left over from the one before. For one broker the
order is fixed: become leader or follower, update metadata, stop replica. Brokers that are not
registered are left out, for there is nobody to tell.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from klamm.controller.context import Context, Partition
from klamm.controller.effects import (
    LeaderAndIsr,
    PartitionMetadata,
    ReplicaOrder,
    Request,
    StopOrder,
    StopReplica,
    UpdateMetadata,
)
from klamm.model.brokers import Registration
from klamm.model.leadership import Leadership
from klamm.model.names import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    NO_LEADER,
    BrokerId,
    TopicPartition,
)


class Batch:
    """The requests to send after one step."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._orders: defaultdict[BrokerId, dict[TopicPartition, ReplicaOrder]] = defaultdict(dict)
        self._stops: defaultdict[BrokerId, dict[TopicPartition, StopOrder]] = defaultdict(dict)
        self._metadata: dict[TopicPartition, Partition] = {}
        self._told: dict[BrokerId, None] = {}
        self._tells_all = False

    def order(self, brokers: Iterable[BrokerId], partition: Partition, *, is_new: bool) -> None:
        """Tell replicas what to be, and every broker how the partition stands."""
        assert partition.leadership is not None, f"{partition.id} is {partition.state}"
        id = partition.id
        order = ReplicaOrder(id, partition.leadership, partition.assignment, is_new)
        for broker in brokers:
            if broker not in self._context.brokers:
                continue
            orders = self._orders[broker]
            before = orders.get(id)
            # A log that may be created stays one that may be created.
            stays_new = before is not None and before.is_new and not is_new
            orders[id] = replace(order, is_new=True) if stays_new else order
            if self._context.leftovers and id in self._context.leftovers.get(broker, ()):
                orders[id] = replace(orders[id], is_question=True)
        self._tells_all = True
        self._metadata[id] = partition

    def publish(
        self, partitions: Iterable[Partition] = (), to: Iterable[BrokerId] | None = None
    ) -> None:
        """Tell brokers (all, unless some are named) how partitions stand; no partition: just who
        is there."""
        if to is None:
            self._tells_all = True
        else:
            self._told.update((b, None) for b in to if b in self._context.brokers)
        self._metadata.update((p.id, p) for p in partitions)

    def stop(self, broker: BrokerId, partition: Partition, *, delete: bool) -> None:
        """Have a replica stopped."""
        topic = partition.id.topic
        if self._context.is_queued(topic):
            epoch = EPOCH_DURING_DELETE
        else:
            epoch = partition.leadership.leader_epoch if partition.leadership else NO_EPOCH
        topic_id = self._context.topics[topic].id
        self.stop_with(broker, StopOrder(partition.id, topic_id, epoch, delete))

    def stop_with(self, broker: BrokerId, order: StopOrder) -> None:
        """Have a replica stopped, even one of a topic that is not known any more."""
        if broker not in self._context.brokers:
            return
        before = self._stops[broker].get(order.partition)
        if before is None or order.delete or not before.delete:
            self._stops[broker][order.partition] = order

    def requests(self) -> list[Request]:
        """Everything collected, in the order of sending."""
        context = self._context
        result: list[Request] = []
        for to in sorted(self._orders):
            orders = tuple(self._orders[to].values())
            leaders = sorted({o.leadership.leader for o in orders} & context.brokers.keys())
            result.append(
                LeaderAndIsr(
                    to=to,
                    broker_epoch=context.brokers[to].epoch,
                    orders=orders,
                    topic_ids=self._ids(o.partition.topic for o in orders),
                    leaders=tuple(context.brokers[b] for b in leaders),
                )
            )
        result += self._metadata_requests()
        result += [
            StopReplica(
                to=to,
                broker_epoch=context.brokers[to].epoch,
                orders=tuple(self._stops[to].values()),
            )
            for to in sorted(self._stops)
        ]
        return result

    def _metadata_requests(self) -> list[Request]:
        context = self._context
        known = tuple(
            metadata_of(context, p)
            for p in self._metadata.values()
            if p.leadership is not None or context.is_queued(p.id.topic)
        )
        ids = self._ids(m.partition.topic for m in known)
        brokers: tuple[Registration, ...] = tuple(context.brokers[b] for b in context.live())
        return [
            UpdateMetadata(
                to=to,
                broker_epoch=context.brokers[to].epoch,
                partitions=known,
                topic_ids=ids,
                brokers=brokers,
            )
            for to in (context.live() if self._tells_all else sorted(self._told))
        ]

    def _ids(self, topics: Iterable[str]) -> dict[str, uuid.UUID]:
        return {name: self._context.topics[name].id for name in topics}


def metadata_of(context: Context, partition: Partition) -> PartitionMetadata:
    """The metadata of a partition for clients."""
    is_deleted = context.is_queued(partition.id.topic)
    leadership = partition.leadership
    if leadership is None:
        # Its state may be gone before it is, and brokers may still know it from an earlier term.
        assert is_deleted, f"{partition.id} is {partition.state}"
        leadership = Leadership(
            leader=NO_LEADER, leader_epoch=NO_EPOCH, isr=(), controller_epoch=context.epoch
        )
    replicas = partition.assignment.replicas
    return PartitionMetadata(
        partition.id,
        leadership,
        replicas,
        tuple(b for b in replicas if not context.is_online(b, partition.id)),
        is_deleted,
    )
