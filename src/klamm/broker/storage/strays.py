"""Logs of topics that are no more, or that are kept elsewhere.

A topic may end while a broker is away: its nodes were removed by hand, or its deletion was
completed by another machine under this broker's id. Nobody tells the broker about it then, and its
logs would lie there for ever, or stand in the way of a later topic of the name. So a broker that
starts compares the id in each log with the topics in the store, and sets aside what belongs to none
of them, or to a partition that has no replica here: the records are kept, under a name that ends in
-stray, for an operator to look at.

A copy that the controller has written down to be removed is left to the controller.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from klamm.log.partition import PartitionLog
from klamm.model.names import ZERO_ID, BrokerId, TopicPartition
from klamm.store import layout
from klamm.store.port import Session


async def find_strays(
    session: Session, broker: BrokerId, logs: Iterable[PartitionLog]
) -> list[TopicPartition]:
    """Those of these logs that belong to no replica that this broker has by the store."""
    held = list(logs)
    names = list(dict.fromkeys(log.topic_partition.topic for log in held))
    nodes = await session.get_many([layout.topic_path(name) for name in names])
    tombstones = await session.get(layout.forgotten_path(broker))
    leftovers = (layout.decode_forgotten(tombstones.data) if tombstones else None) or ()
    awaited = {replica.partition: replica.topic_id for replica in leftovers}
    present = {
        name: layout.decode_topic(node.data)
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    }
    lone = [
        log
        for log in held
        if not _belongs(log, broker, present)
        and not _is_same(awaited.get(log.topic_partition, ZERO_ID), log.topic_id)
    ]
    renamed = await _called_otherwise(session, broker, lone)
    return [log.topic_partition for log in lone if log.topic_partition not in renamed]


async def _called_otherwise(
    session: Session, broker: BrokerId, logs: Iterable[PartitionLog]
) -> set[TopicPartition]:
    """Those of these logs that are replicas of topics which have got another name meanwhile.

    They are given it when the controller orders them to lead or follow.
    """
    known = [log for log in logs if not _is_missing(log.topic_id)]
    names = await session.children(layout.TOPICS) if known else None
    if not names:
        return set()
    nodes = await session.get_many([layout.topic_path(name) for name in names])
    topics = [layout.decode_topic(node.data) for node in nodes if node is not None]
    by_id = {topic.topic_id: topic.assignments for topic in topics if topic is not None}
    found = set()
    for log in known:
        assignment = by_id.get(log.topic_id, {}).get(log.topic_partition.partition)
        if assignment is not None and broker in assignment.replicas:
            found.add(log.topic_partition)
    return found


def _belongs(
    log: PartitionLog, broker: BrokerId, present: Mapping[str, layout.TopicNode | None]
) -> bool:
    name, index = log.topic_partition
    if name not in present:
        return False
    topic = present[name]
    if topic is None:
        return True  # a node that cannot be read proves nothing
    assignment = topic.assignments.get(index)
    is_here = assignment is not None and broker in assignment.replicas
    if log.topic_id is topic.topic_id:
        return is_here  # nearly always, and to compare ids takes long
    # An id that is missing on either side says nothing against it.
    either_missing = _is_missing(topic.topic_id) or _is_missing(log.topic_id)
    return is_here and (either_missing or topic.topic_id == log.topic_id)


def _is_same(awaited: uuid.UUID, found: uuid.UUID | None) -> bool:
    return not _is_missing(awaited) and (_is_missing(found) or awaited == found)


def _is_missing(id: uuid.UUID | None) -> bool:
    return id is None or id == ZERO_ID
