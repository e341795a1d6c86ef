"""Answers a new controller's roll call with what this broker holds (`roll_call_form.py`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from klamm.broker.metadata_cache import MetadataSnapshot
from klamm.broker.replicas.partition import Partition, Role
from klamm.controller.membership.roll_call import Holdings, digest
from klamm.model.names import ZERO_ID

_SERVING = (Role.LEADER, Role.FOLLOWER)


def holdings(partitions: Iterable[Partition], snapshot: MetadataSnapshot) -> Holdings:
    """The replicas that are served here, and the metadata that clients get.

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
