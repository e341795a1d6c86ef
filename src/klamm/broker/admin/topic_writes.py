"""Writes administrative changes to the store, each as one multi.

An answer can get lost on its way back. A write is therefore never just repeated: what is stored
then tells whether this one got through, a new topic by its id, everything else by its content.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.controller.admission import TopicCreation
from klamm.controller.admission.placement import Placement
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode, Refused, StoreUnavailable
from klamm.model.names import name_fault
from klamm.store import layout
from klamm.store.port import Create, Node, Op, Outcome, Session, SetData

log = logging.getLogger(__name__)

# How often a write is planned again because somebody else's came first, or its answer got lost.
_TRIES: Final = 5
# ZooKeeper takes no node above a mebibyte.
_NODE_SIZE_WARNED: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class NewNode:
    """A topic on its way into the store."""

    creation: TopicCreation
    node: layout.TopicNode

    def operations(self, *, orphan: bool = False) -> list[Op]:
        """Settings and assignment together; the settings of a topic that never was are replaced."""
        topic = self.creation.topic
        config = layout.encode_config(self.creation.configs)
        path = layout.topic_config_path(topic)
        return [
            SetData(path, config) if orphan else Create(path, config),
            Create(layout.topic_path(topic), _topic_data(topic, self.node)),
        ]


def _topic_data(topic: str, node: layout.TopicNode) -> bytes:
    """The bytes of a topic's node; a warning long before ZooKeeper would refuse them."""
    data = layout.encode_topic(node)
    if len(data) > _NODE_SIZE_WARNED:
        log.warning("a topic's node is very large", extra={"topic": topic, "size": len(data)})
    return data


async def create_topics(session: Session, topics: Sequence[NewNode]) -> list[Refused | None]:
    """Write new topics, pipelined; each for itself succeeds or is refused."""
    try:
        written = await session.multis(topic.operations() for topic in topics)
    except StoreUnavailable:
        return [await _create_topic(session, topic) for topic in topics]
    return [
        None if all(result.ok for result in results) else await _create_topic(session, topic)
        for topic, results in zip(topics, written, strict=True)
    ]


async def _create_topic(session: Session, new: NewNode) -> Refused | None:
    """The careful way, for a topic that met something on its way in."""
    topic, orphan = new.creation.topic, False
    for _ in range(_TRIES):
        stored = await session.get(layout.topic_path(topic))
        if stored is not None:
            there = layout.decode_topic(stored.data)
            ours = there is not None and there.topic_id == new.node.topic_id
            return None if ours else _exists(topic)
        try:
            config, _ = results = await session.multi(new.operations(orphan=orphan))
        except StoreUnavailable:
            continue
        if all(result.ok for result in results):
            return None
        if config.outcome in (Outcome.NODE_EXISTS, Outcome.NO_NODE):
            orphan = config.outcome is Outcome.NODE_EXISTS
    return _gave_up(topic)


Plan = Callable[[layout.TopicNode | None], Placement | Refused]


async def grow_topic(session: Session, topic: str, plan: Plan) -> layout.TopicNode | Refused:
    """Add the partitions that are planned from what is stored, if it is still stored then."""
    path = layout.topic_path(topic)
    attempted: layout.TopicNode | None = None
    for _ in range(_TRIES):
        node = await session.get(path)
        known = None if node is None else layout.decode_topic(node.data)
        if attempted is not None and known == attempted:
            return attempted
        placement = plan(known)
        if isinstance(placement, Refused):
            return placement
        assert node is not None, f"{topic} was planned without being there"
        assert known is not None, f"{topic} was planned without being read"
        attempted = grown(known, placement)
        try:
            (result,) = await session.multi(
                [SetData(path, _topic_data(topic, attempted), node.stat.version)]
            )
        except StoreUnavailable:
            continue
        if result.ok:
            return attempted
        attempted = None
    return _gave_up(topic)


def grown(node: layout.TopicNode, placement: Placement) -> layout.TopicNode:
    """A topic with more partitions."""
    added = {number: Assignment(replicas) for number, replicas in placement.items()}
    return layout.TopicNode(node.topic_id, {**node.assignments, **added}, node.original_replicas)


async def mark_for_deletion(session: Session, topics: Sequence[str]) -> list[Refused | None]:
    """Ask for the deletion of topics, pipelined; asking twice is asking once."""
    for _ in range(_TRIES):
        stored = await session.get_many([layout.topic_path(topic) for topic in topics])
        present = [
            topic
            for topic, node in zip(topics, stored, strict=True)
            # A name with a '/' in it leads to a node that is something else.
            if node is not None and name_fault(topic) is None
        ]
        try:
            await session.multis([Create(layout.delete_topic_path(t))] for t in present)
        except StoreUnavailable:
            continue
        return [None if topic in present else _unknown(topic) for topic in topics]
    return [_gave_up(topic) for topic in topics]


Alter = Callable[[Mapping[str, str]], dict[str, str] | Refused]


async def alter_config(
    session: Session, entity: layout.ConfigEntity, alter: Alter
) -> Refused | None:
    """Change the settings of something and tell every broker, in one step."""
    attempted: dict[str, str] | None = None
    for _ in range(_TRIES):
        nodes = await session.get_many(entity.paths)
        stored = layout.decode_configs(node.data if node else None for node in nodes)
        if any(nodes) and stored == attempted:
            return None
        texts = alter(stored)
        if isinstance(texts, Refused):
            return texts
        ops = await _config_operations(session, entity, texts, nodes)
        try:
            results = await session.multi(ops)
        except StoreUnavailable:
            attempted = texts
            continue
        if all(result.ok for result in results):
            return None
    return _gave_up(entity.entity_path)


async def _config_operations(
    session: Session,
    entity: layout.ConfigEntity,
    texts: Mapping[str, str],
    nodes: Sequence[Node | None],
) -> list[Op]:
    ops: list[Op] = []
    for (path, data), node in zip(layout.encode_configs(entity, texts).items(), nodes, strict=True):
        if node is not None:
            ops.append(SetData(path, data, node.stat.version))
        elif path == entity.path or layout.decode_config(data):
            ops += [*await _missing_above(session, path), Create(path, data)]
    marker = layout.encode_config_change(entity)
    return [*ops, Create(layout.CONFIG_CHANGE_PREFIX, marker, sequential=True)]


async def _missing_above(session: Session, path: str) -> list[Op]:
    above = layout.with_parents([layout.parent(path)])
    nodes = await session.get_many(above)
    return [Create(each) for each, node in zip(above, nodes, strict=True) if node is None]


def _unknown(topic: str) -> Refused:
    return Refused(
        f"Topic `{topic}` to delete does not exist", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def _exists(topic: str) -> Refused:
    return Refused(f"Topic '{topic}' already exists.", ErrorCode.TOPIC_ALREADY_EXISTS)


def _gave_up(subject: str) -> Refused:
    return Refused(
        f"{subject} could not be written: the store is busy or away",
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
