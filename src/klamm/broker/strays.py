"""Logs of topics that are no more.

A topic may end while a broker is away: its nodes were removed by hand, or its deletion was
completed by another machine under this broker's id. Nobody tells the broker about it then, and its
logs would lie there for ever, or stand in the way of a later topic of the name. So a broker that
starts compares the id in each log with the topics in the store, and sets aside what belongs to none
of them: the records are kept, under a name that ends in -stray, for an operator to look at.

A copy that the controller has written down to be removed is left to the controller.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from klamm.log.partition import PartitionLog
from klamm.model.names import ZERO_ID, BrokerId, TopicPartition
from klamm.store import layout
from klamm.store.port import Session


async def find_strays(
    session: Session, broker: BrokerId, logs: Iterable[PartitionLog]
) -> list[TopicPartition]:
    """Those of these logs that belong to no topic in the store."""
    held = list(logs)
    names = list(dict.fromkeys(log.topic_partition.topic for log in held))
    nodes = await session.get_many([layout.topic_path(name) for name in names])
    tombstones = await session.get(layout.forgotten_path(broker))
    forgotten = (layout.decode_forgotten(tombstones.data) if tombstones else None) or ()
    awaited = {replica.partition: replica.topic_id for replica in forgotten}
    present: dict[str, uuid.UUID | None] = {}
    for name, node in zip(names, nodes, strict=True):
        if node is not None:
            topic = layout.decode_topic(node.data)
            present[name] = topic.topic_id if topic else None
    return [
        log.topic_partition
        for log in held
        if not _belongs(log, present)
        and not _is_same(awaited.get(log.topic_partition, ZERO_ID), log.topic_id)
    ]


def _belongs(log: PartitionLog, present: dict[str, uuid.UUID | None]) -> bool:
    name = log.topic_partition.topic
    # An id that is missing on either side says nothing against it.
    return name in present and (
        _is_missing(present[name]) or _is_missing(log.topic_id) or present[name] == log.topic_id
    )


def _is_same(awaited: uuid.UUID, found: uuid.UUID | None) -> bool:
    return not _is_missing(awaited) and (_is_missing(found) or awaited == found)


def _is_missing(id: uuid.UUID | None) -> bool:
    return id is None or id == ZERO_ID
