"""Compares what a broker holds already with what it has to be told.

A new controller has its brokers told everything: it cannot know what its predecessor got through to
them. Most of that they know. So it asks each one first, and leaves out what would change nothing:

- an order whose partition the broker serves already, for this topic id, under this leader epoch. A
  leader epoch is a leadership's name, and brokers refuse to obey one twice. Not where the answer
  tells what became of an earlier topic's copy;
- the metadata of a topic of which the broker shows just these partitions, just so.

Only what a broker claims is left out, and only from what was decided before it was asked. A replica
on a failed disk is not claimed, so its order is sent and its refusal heard as ever.
"""

from __future__ import annotations

import marshal
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

from klamm.controller.effects import (
    LeaderAndIsr,
    PartitionMetadata,
    ReplicaOrder,
    Request,
    StopReplica,
    UpdateMetadata,
)
from klamm.model.names import BrokerId

# One partition as clients are told of it: index, leader, leader epoch, in-sync set, replicas,
# offline replicas, partition epoch.
Shown = tuple[
    int, BrokerId, int, tuple[BrokerId, ...], tuple[BrokerId, ...], tuple[BrokerId, ...], int
]
# Numbers and tuples come out the same for equal values, without a look at who shares them.
_MARSHAL_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class Holdings:
    """The replicas and metadata that a broker reports to have; empty until it reports."""

    # The leader epoch under which it leads or follows, by topic id and partition index.
    replicas: Mapping[uuid.UUID, Mapping[int, int]] = field(default_factory=dict)
    # What it shows clients, by topic name, as `digest` has it.
    metadata: Mapping[str, str] = field(default_factory=dict)


def digest(topic_id: uuid.UUID, partitions: Iterable[Shown]) -> str:
    """A short text that is the same on both sides where a topic looks the same."""
    content = marshal.dumps((topic_id.bytes, sorted(partitions)), _MARSHAL_VERSION)
    return blake2b(content, digest_size=16).hexdigest()


def left_to_say(request: Request, held: Holdings) -> tuple[Request | None, Holdings]:
    """The part of a request that is news to a broker which holds this (None: nothing is).

    And what still counts as held behind it: what was said since is not compared with what was
    claimed before.
    """
    match request:
        case LeaderAndIsr():
            return _unmet(request, held), held
        case UpdateMetadata():
            rest = _untold(request, held)
            shown = {t: seen for t, seen in held.metadata.items() if t not in rest.topic_ids}
            return rest, replace(held, metadata=shown)
        case StopReplica():
            return request, replace(held, replicas={})


def _unmet(request: LeaderAndIsr, held: Holdings) -> LeaderAndIsr | None:
    orders = tuple(order for order in request.orders if not _is_met(order, request, held))
    if not orders:
        return None
    leaders = {order.leadership.leader for order in orders}
    return replace(
        request,
        orders=orders,
        topic_ids={o.partition.topic: request.topic_ids[o.partition.topic] for o in orders},
        leaders=tuple(broker for broker in request.leaders if broker.id in leaders),
    )


def _is_met(order: ReplicaOrder, request: LeaderAndIsr, held: Holdings) -> bool:
    if order.is_question:
        return False
    topic, index = order.partition
    epochs = held.replicas.get(request.topic_ids[topic])
    return epochs is not None and epochs.get(index) == order.leadership.leader_epoch


def _untold(request: UpdateMetadata, held: Holdings) -> UpdateMetadata:
    """The brokers that are there are told in any case, and who speaks now."""
    if not held.metadata:
        return request
    by_topic: defaultdict[str, list[PartitionMetadata]] = defaultdict(list)
    for metadata in request.partitions:
        by_topic[metadata.partition.topic].append(metadata)
    ids = request.topic_ids
    news = {
        topic: told
        for topic, told in by_topic.items()
        if not _is_shown(told, ids[topic], held.metadata.get(topic))
    }
    return replace(
        request,
        partitions=tuple(metadata for told in news.values() for metadata in told),
        topic_ids={topic: ids[topic] for topic in news},
    )


def _is_shown(told: list[PartitionMetadata], topic_id: uuid.UUID, seen: str | None) -> bool:
    if seen is None or any(metadata.is_deleted for metadata in told):
        return False
    return digest(topic_id, map(_shown, told)) == seen


def _shown(metadata: PartitionMetadata) -> Shown:
    now = metadata.leadership
    return (
        metadata.partition.partition,
        now.leader,
        now.leader_epoch,
        now.isr,
        metadata.replicas,
        metadata.offline,
        now.partition_epoch,
    )
