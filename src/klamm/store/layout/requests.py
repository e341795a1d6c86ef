"""Nodes by which tools and brokers ask the controller for something, and klamm's own notes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from klamm.model.names import BrokerId, TopicPartition, id_from_text, id_text
from klamm.store.layout.jsontext import broker_ids, dump, load, or_none

_LOG_DIR_FAILED: Final = 1


class ForgottenReplica(NamedTuple):
    """A copy that an operator gave up; the id tells it from a later topic of the same name."""

    topic_id: uuid.UUID
    partition: TopicPartition


def encode_reassignment(targets: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> bytes:
    """The legacy request to move partitions (`/admin/reassign_partitions`)."""
    partitions = [
        {"topic": p.topic, "partition": p.partition, "replicas": replicas}
        for p, replicas in targets.items()
    ]
    return dump({"version": 1, "partitions": partitions})


@or_none
def decode_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """The targets of a legacy reassignment request."""
    return {_partition(entry): broker_ids(entry["replicas"]) for entry in load(data)["partitions"]}


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """A list of partitions: preferred elections asked for, or ISR changes announced."""
    entries = [{"topic": p.topic, "partition": p.partition} for p in partitions]
    return dump({"version": 1, "partitions": entries})


@or_none
def decode_partitions(data: bytes | None) -> tuple[TopicPartition, ...]:
    """The partitions of a preferred election or of an ISR change, each once."""
    return tuple(dict.fromkeys(_partition(entry) for entry in load(data)["partitions"]))


def encode_log_dir_event(broker: BrokerId) -> bytes:
    """A broker's word that one of its log directories failed."""
    return dump({"version": 1, "broker": broker, "event": _LOG_DIR_FAILED})


@or_none
def decode_log_dir_event(data: bytes | None) -> BrokerId:
    """The broker whose log directory failed."""
    return BrokerId(int(load(data)["broker"]))


def encode_forgotten(replicas: Iterable[ForgottenReplica]) -> bytes:
    """The copies that a broker has to drop when it comes back."""
    entries = [
        {
            "topic_id": id_text(replica.topic_id),
            "topic": replica.partition.topic,
            "partition": replica.partition.partition,
        }
        for replica in replicas
    ]
    return dump({"version": 1, "replicas": entries})


@or_none
def decode_forgotten(data: bytes | None) -> tuple[ForgottenReplica, ...]:
    """The copies that a broker has to drop when it comes back."""
    return tuple(
        ForgottenReplica(id_from_text(entry["topic_id"]), _partition(entry))
        for entry in load(data)["replicas"]
    )


def _partition(entry: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(str(entry["topic"]), int(entry["partition"]))
