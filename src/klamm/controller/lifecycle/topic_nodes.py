"""A topic's node, written as the context has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from klamm.controller.context import Topic
from klamm.controller.effects import RewriteTopic, Stale, Stored
from klamm.controller.turn import ATTEMPTS_MAX, Flow, Turn, commit
from klamm.model.assignment import Assignment
from klamm.model.topics import StoredTopic

_NOTHING: Final[Mapping[int, Assignment]] = MappingProxyType({})


def node_of(topic: Topic, changed: Mapping[int, Assignment] = _NOTHING) -> StoredTopic:
    """The node of a topic, with some partitions assigned anew."""
    partitions = {
        index: changed.get(index, p.assignment) for index, p in sorted(topic.partitions.items())
    }
    return StoredTopic(
        topic_id=topic.id,
        partitions=partitions,
        version=topic.version,
        original={
            index: original
            for index, assignment in partitions.items()
            if assignment.is_reassigning
            and (original := topic.partitions[index].original) is not None
        },
        unclean=topic.unclean,
        frozen=topic.frozen,
        importing=topic.importing,
        first_epoch=topic.first_epoch,
    )


def rewrite_topic(
    turn: Turn, topic: Topic, changed: Mapping[int, Assignment] = _NOTHING
) -> Flow[bool]:
    """Store a topic's assignments; partitions the context has not seen yet are kept."""
    node = node_of(topic, changed)
    known = node.partitions
    for _ in range(ATTEMPTS_MAX):
        (outcome,) = yield from commit([RewriteTopic(topic.name, node)])
        if isinstance(outcome, Stored):
            # With unseen partitions in it the version is not ours to know: the next write has to
            # find them again, and so has whoever takes them up.
            if node.partitions.keys() == known.keys():
                topic.version = outcome.version
            return True
        if not isinstance(outcome, Stale) or not isinstance(outcome.found, StoredTopic):
            return False  # the node is gone, and a hint is on its way
        found = outcome.found
        unseen = {} if turn.context.is_queued(topic.name) else dict(found.partitions)
        node = replace(node, version=found.version, partitions={**unseen, **known})
    return False
