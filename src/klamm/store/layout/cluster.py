"""Nodes of which the cluster has one: the controller, the epoch, the ids, the features."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from klamm.model.names import BrokerId
from klamm.model.topics import ProducerIdBlock
from klamm.store.layout.jsontext import dump, load, or_none


class ControllerNode(NamedTuple):
    """The content of `/controller`: who leads the cluster."""

    broker: BrokerId
    timestamp_ms: int
    kraft_epoch: int = -1  # of a migration to KRaft, which klamm does not do


@dataclass(frozen=True, slots=True)
class FeatureNode:
    """The content of `/feature`: the finalized level of each feature."""

    enabled: bool
    levels: Mapping[str, int] = field(default_factory=dict)


def encode_controller(node: ControllerNode) -> bytes:
    """Version 2, of 3.4 and later."""
    return dump(
        {
            "version": 2,
            "brokerid": node.broker,
            "timestamp": str(node.timestamp_ms),
            "kraftControllerEpoch": node.kraft_epoch,
        }
    )


@or_none
def decode_controller(data: bytes | None) -> ControllerNode:
    """Versions 1 and 2."""
    fields = load(data)
    return ControllerNode(
        BrokerId(int(fields["brokerid"])),
        int(fields.get("timestamp", 0)),
        int(fields.get("kraftControllerEpoch", -1)),
    )


def encode_controller_epoch(epoch: int) -> bytes:
    """Plain digits, the one node that is not JSON."""
    return b"%d" % epoch


@or_none
def decode_controller_epoch(data: bytes | None) -> int:
    """The epoch of the last election."""
    return int(data or b"")


def encode_cluster_id(cluster_id: str) -> bytes:
    """The cluster's id; the version is text here, as Kafka has it."""
    return dump({"version": "1", "id": cluster_id})


@or_none
def decode_cluster_id(data: bytes | None) -> str:
    """The 22 characters of the cluster's id."""
    return str(load(data)["id"])


def encode_cluster_secret(key: bytes) -> bytes:
    """The secret that only the brokers of this cluster know."""
    return dump({"version": 1, "secret": b64encode(key).decode()})


@or_none
def decode_cluster_secret(data: bytes | None) -> bytes:
    """The bytes of the cluster's secret."""
    return b64decode(load(data)["secret"], validate=True)


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    """The block handed out last. Ids are text, for they are wider than JSON's safe numbers."""
    return dump(
        {
            "version": 1,
            "broker": block.broker,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


@or_none
def decode_producer_id_block(data: bytes | None) -> ProducerIdBlock:
    """The block handed out last; None before the first."""
    fields = load(data)
    return ProducerIdBlock(
        BrokerId(int(fields["broker"])), int(fields["block_start"]), int(fields["block_end"])
    )


def encode_feature(node: FeatureNode) -> bytes:
    """Version 2, which has no lowest level any more."""
    levels = {name: {"max_version_level": level} for name, level in sorted(node.levels.items())}
    return dump({"version": 2, "status": int(node.enabled), "features": levels})


@or_none
def decode_feature(data: bytes | None) -> FeatureNode:
    """Versions 1 and 2."""
    fields = load(data)
    levels = fields["features"]
    return FeatureNode(
        {0: False, 1: True}[fields["status"]],
        {name: int(level["max_version_level"]) for name, level in levels.items()},
    )
