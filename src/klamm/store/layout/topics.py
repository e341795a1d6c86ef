"""A topic's assignment and a partition's leadership as their nodes carry them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from klamm.model.assignment import Assignment
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId, id_from_text, id_text
from klamm.store.layout.jsontext import broker_ids, dump, load, or_none

# Ours, and ignored by Kafka: the order of the replicas before a move, so that cancelling the move
# can give it back. Kafka's own fields hold the original replicas but not their order.
_ORIGINAL_REPLICAS = "klamm_original_replicas"
# A hundred thousand states are a few texts, again and again, and so are assignments: each is read,
# written and held once. What is longer than any of them is somebody's own, and is not kept.
_KEPT_MAX: Final = 4096
_KEPT_BYTES: Final = 256
_KEPT_REPLICAS: Final = 16


@dataclass(frozen=True, slots=True)
class TopicNode:
    """The content of `/brokers/topics/T`."""

    topic_id: uuid.UUID | None  # None in nodes written before 2.8
    assignments: Mapping[int, Assignment]
    original_replicas: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)


def encode_topic(topic: TopicNode) -> bytes:
    """Version 3."""
    by_partition = sorted(topic.assignments.items())
    fields: dict[str, object] = {"version": 3}
    if topic.topic_id is not None:
        fields["topic_id"] = id_text(topic.topic_id)
    fields["partitions"] = {str(p): a.replicas for p, a in by_partition}
    fields["adding_replicas"] = {str(p): a.adding for p, a in by_partition if a.adding}
    fields["removing_replicas"] = {str(p): a.removing for p, a in by_partition if a.removing}
    if topic.original_replicas:
        originals = sorted(topic.original_replicas.items())
        fields[_ORIGINAL_REPLICAS] = {str(p): replicas for p, replicas in originals}
    return dump(fields)


@or_none
def decode_topic(data: bytes | None) -> TopicNode:
    """Versions 1 to 3."""
    fields = load(data)
    adding = _replicas_by_partition(fields.get("adding_replicas"))
    removing = _replicas_by_partition(fields.get("removing_replicas"))
    replicas = _replicas_by_partition(fields["partitions"])
    text = fields.get("topic_id")
    return TopicNode(
        id_from_text(text) if text else None,
        {p: _assigned(replicas[p], adding.get(p, ()), removing.get(p, ())) for p in replicas},
        _replicas_by_partition(fields.get(_ORIGINAL_REPLICAS)),
    )


def _replicas_by_partition(fields: dict[str, Any] | None) -> dict[int, tuple[BrokerId, ...]]:
    if not fields:
        return {}
    return {p: _replicas(ids) for p, ids in sorted((int(p), ids) for p, ids in fields.items())}


def _replicas(ids: Any) -> tuple[BrokerId, ...]:
    if type(ids) is not list or len(ids) > _KEPT_REPLICAS:
        return broker_ids(ids)
    return _known_replicas(*ids)


@lru_cache(maxsize=_KEPT_MAX)
def _known_replicas(*ids: Any) -> tuple[BrokerId, ...]:
    return broker_ids(ids)


def _assigned(
    replicas: tuple[BrokerId, ...], adding: tuple[BrokerId, ...], removing: tuple[BrokerId, ...]
) -> Assignment:
    if adding or removing or len(replicas) > _KEPT_REPLICAS:
        return Assignment(replicas, adding, removing)
    return _known_assignment(replicas)


@lru_cache(maxsize=_KEPT_MAX)
def _known_assignment(replicas: tuple[BrokerId, ...]) -> Assignment:
    return Assignment(replicas)


def encode_state(leadership: Leadership) -> bytes:
    """One partition's leadership; its partition epoch is the version of the node."""
    return _state_text(
        leadership.leader,
        leadership.leader_epoch,
        leadership.controller_epoch,
        leadership.isr,
        leadership.recovery is Recovery.RECOVERING,
    )


@lru_cache(maxsize=_KEPT_MAX)
def _state_text(
    leader: BrokerId,
    leader_epoch: int,
    controller_epoch: int,
    isr: tuple[BrokerId, ...],
    is_recovering: bool,
) -> bytes:
    # By hand, because a failover writes one of these for every partition of the cluster.
    recovering = f',"leader_recovery_state":{Recovery.RECOVERING:d}' if is_recovering else ""
    return (
        f'{{"version":1,"leader":{leader},"leader_epoch":{leader_epoch},'
        f'"controller_epoch":{controller_epoch},"isr":[{",".join(map(str, isr))}]{recovering}}}'
    ).encode()


def decode_state(data: bytes | None, version: int) -> Leadership | None:
    """The leadership in a state node of this version; None where it makes no sense."""
    if data is not None and len(data) <= _KEPT_BYTES:
        return _known_state(data, version)
    return _state(data, version)


@lru_cache(maxsize=_KEPT_MAX)
def _known_state(data: bytes, version: int) -> Leadership | None:
    return _state(data, version)


@or_none
def _state(data: bytes | None, version: int) -> Leadership:
    fields = load(data)
    return Leadership(
        leader=BrokerId(int(fields["leader"])),
        leader_epoch=int(fields["leader_epoch"]),
        isr=broker_ids(fields["isr"]),
        controller_epoch=int(fields["controller_epoch"]),
        partition_epoch=version,
        recovery=Recovery(fields.get("leader_recovery_state", Recovery.RECOVERED)),
    )
