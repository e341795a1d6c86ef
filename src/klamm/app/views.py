"""A broker's metadata on its way to another process."""

from __future__ import annotations

import uuid
from typing import Any, Final

from klamm.broker.metadata_cache import MetadataSnapshot, PartitionInfo
from klamm.model.brokers import Registration
from klamm.model.names import BrokerId

NOTHING: Final = MetadataSnapshot()  # of a broker that has told nothing yet


def packed(snapshot: MetadataSnapshot) -> dict[str, Any]:
    """The facts that `view` looks at, in JSON's types."""
    return {
        "controller": snapshot.controller_id,
        "live": list(snapshot.brokers),
        "topics": {
            topic: {str(index): list(info) for index, info in partitions.items()}
            for topic, partitions in snapshot.topics.items()
        },
        "ids": {topic: topic_id.hex for topic, topic_id in snapshot.topic_ids.items()},
    }


def unpacked(told: dict[str, Any]) -> MetadataSnapshot:
    """The snapshot again, without brokers' addresses."""
    return MetadataSnapshot(
        topics={
            topic: {int(index): _info(info) for index, info in partitions.items()}
            for topic, partitions in told["topics"].items()
        },
        topic_ids={topic: uuid.UUID(hex=text) for topic, text in told["ids"].items()},
        brokers={
            BrokerId(id): Registration(id=BrokerId(id), epoch=-1, endpoints=())
            for id in told["live"]
        },
        controller_id=BrokerId(told["controller"]),
    )


def _info(told: list[Any]) -> PartitionInfo:
    leader, leader_epoch, isr, replicas, offline, partition_epoch = told
    return PartitionInfo(
        leader, leader_epoch, tuple(isr), tuple(replicas), tuple(offline), partition_epoch
    )
