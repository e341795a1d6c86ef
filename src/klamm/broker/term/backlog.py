"""Merges the requests that one broker has not been sent yet.

A newer word on a partition replaces an older one that was not sent yet. StopReplica is a border
that nothing is moved across, and two of them stay two, because what stands before and after one
means different things.

The leaders of very many new partitions are shown before the replicas are ordered to be them: they
are stored, so they are what will be, and whoever comes early waits there
(`broker/replicas/coming.py`). Of a few, metadata tells what is done already.
"""

from __future__ import annotations

import uuid
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from klamm.controller.effects import (
    LeaderAndIsr,
    PartitionMetadata,
    ReplicaOrder,
    Request,
    StopReplica,
    UpdateMetadata,
)
from klamm.model.brokers import Registration
from klamm.model.names import BrokerId, TopicPartition

# So many new replicas are ordered before clients hear of them.
_NEW_BEFORE_SHOWN_MAX: Final = 50


@dataclass(slots=True)
class _Orders:
    """LeaderAndIsr requests merged into one."""

    last: LeaderAndIsr | None = None
    by_partition: dict[TopicPartition, ReplicaOrder] = field(default_factory=dict)
    ids: dict[str, uuid.UUID] = field(default_factory=dict)
    leaders: dict[BrokerId, Registration] = field(default_factory=dict)

    def add(self, request: LeaderAndIsr) -> None:
        self.last = request
        for order in request.orders:
            before = self.by_partition.get(order.partition)
            if before is not None and before.is_new and not order.is_new:
                order = replace(order, is_new=True)
            self.by_partition[order.partition] = order
        self.ids.update(request.topic_ids)
        self.leaders.update((broker.id, broker) for broker in request.leaders)

    @property
    def may_come_last(self) -> bool:
        """Whether these are many new replicas, and nothing else."""
        return len(self.by_partition) > _NEW_BEFORE_SHOWN_MAX and all(
            order.is_new for order in self.by_partition.values()
        )

    def merged(self) -> LeaderAndIsr | None:
        return self.last and replace(
            self.last,
            orders=tuple(self.by_partition.values()),
            topic_ids=self.ids,
            leaders=tuple(self.leaders.values()),
        )


@dataclass(slots=True)
class _Metadata:
    """UpdateMetadata requests merged into one; the last one knows who is there."""

    last: UpdateMetadata | None = None
    by_partition: dict[TopicPartition, PartitionMetadata] = field(default_factory=dict)
    ids: dict[str, uuid.UUID] = field(default_factory=dict)

    def add(self, request: UpdateMetadata) -> None:
        self.last = request
        self.by_partition.update((m.partition, m) for m in request.partitions)
        self.ids.update(request.topic_ids)

    def merged(self) -> UpdateMetadata | None:
        partitions = tuple(self.by_partition.values())
        return self.last and replace(self.last, partitions=partitions, topic_ids=self.ids)


@dataclass(slots=True)
class _Segment:
    """The requests that may be merged: everything between two StopReplicas.

    Metadata that came before an order stays before it, for a broker has to know the others before
    it is told to follow one of them.
    """

    early: _Metadata = field(default_factory=_Metadata)
    orders: _Orders = field(default_factory=_Orders)
    late: _Metadata = field(default_factory=_Metadata)
    stop: StopReplica | None = None

    def add(self, request: Request) -> None:
        match request:
            case LeaderAndIsr():
                if self.orders.last is None and self.late.last is not None:
                    self.early, self.late = self.late, _Metadata()
                self.orders.add(request)
            case UpdateMetadata():
                behind = self.orders.last is not None or self.late.last is not None
                (self.late if behind else self.early).add(request)
            case StopReplica():
                self.stop = request

    @property
    def _shows_first(self) -> bool:
        return self.late.last is not None and self.orders.may_come_last

    @property
    def has_metadata(self) -> bool:
        return self.early.last is not None or self.late.last is not None

    def take(self) -> Request | None:
        """The next request of this segment; None when it is used up."""
        if self.early.last is not None:
            early, self.early = self.early, _Metadata()
            return early.merged()
        if self.orders.last is not None and not self._shows_first:
            orders, self.orders = self.orders, _Orders()
            return orders.merged()
        if self.late.last is not None:
            late, self.late = self.late, _Metadata()
            return late.merged()
        stop, self.stop = self.stop, None
        return stop


class Backlog:
    """The requests one broker has not been sent yet, merged as far as may be."""

    def __init__(self) -> None:
        self._segments: deque[_Segment] = deque()

    @property
    def stops(self) -> int:
        """The number of StopReplicas that wait."""
        return len(self._segments) - (not self._segments or self._segments[-1].stop is None)

    @property
    def has_metadata(self) -> bool:
        """Whether anything waits that everybody is told."""
        return any(segment.has_metadata for segment in self._segments)

    def add(self, request: Request) -> None:
        """Queue a request, or merge it into what is queued."""
        if not self._segments or self._segments[-1].stop is not None:
            self._segments.append(_Segment())
        self._segments[-1].add(request)

    def take(self) -> Request | None:
        """The next request to send, which nothing is merged into any more."""
        while self._segments:
            segment = self._segments[0]
            request = segment.take()
            if request is not None:
                return request
            self._segments.popleft()
        return None
