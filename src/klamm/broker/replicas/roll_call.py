"""What this broker holds, as the answer to a new controller's roll call.

Ids and epochs travel as flat lists of numbers, so that the answer of a broker with ten thousand
replicas is a tenth of a megabyte: `{"replicas": {topic id: [index, leader epoch, index, ...]},
"metadata": {topic: digest}}`. What a broker does not say it is told.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from klamm.broker.metadata_cache import Snapshot
from klamm.broker.replicas.partition import Partition, Role
from klamm.controller.membership.roll_call import Holdings, digest
from klamm.model.errors import ProtocolError
from klamm.model.names import ZERO_ID, id_from_text, id_text

_SERVING = (Role.LEADER, Role.FOLLOWER)


def holdings(partitions: Iterable[Partition], snapshot: Snapshot) -> Holdings:
    """What is served here, and what clients are shown.

    A partition on a failed disk, one that was stopped and one whose log has no id yet are not
    served: an order for them could have an effect, or an answer that the controller must hear.
    """
    replicas: dict[uuid.UUID, dict[int, int]] = {}
    for partition in partitions:
        topic_id = partition.log.topic_id if partition.log is not None else None
        if partition.role in _SERVING and topic_id not in (None, ZERO_ID):
            epochs = replicas.setdefault(topic_id, {})
            epochs[partition.topic_partition.partition] = partition.leader_epoch
    metadata = {
        topic: digest(snapshot.topic_ids[topic], ((i, *info) for i, info in shown.items()))
        for topic, shown in snapshot.topics.items()
        if topic in snapshot.topic_ids
    }
    return Holdings(replicas, metadata)


def to_json(held: Holdings) -> dict[str, Any]:
    """The holdings as they travel."""
    return {
        "replicas": {
            id_text(topic_id): [number for pair in epochs.items() for number in pair]
            for topic_id, epochs in held.replicas.items()
        },
        "metadata": dict(held.metadata),
    }


def from_json(answer: Mapping[str, Any]) -> Holdings:
    """The inverse of `to_json`; nonsense is a `ProtocolError`."""
    try:
        replicas = {
            id_from_text(topic_id): dict(zip(flat[::2], flat[1::2], strict=True))
            for topic_id, flat in answer["replicas"].items()
        }
        return Holdings(replicas, dict(answer["metadata"]))
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise ProtocolError(f"the answer to a roll call makes no sense: {fault}") from fault
