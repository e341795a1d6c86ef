"""Waiting until everybody can see what was asked for.

What a client asked for is done when this broker's own metadata shows it: by then the controller has
decided, and told the brokers. Only a deletion can be waited for longer, until its marker, the last
of its nodes, is gone from the store.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from klamm.broker.metadata_cache import MetadataCache, MetadataSnapshot
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import ZERO_ID
from klamm.store import layout
from klamm.store.port import Session

_NEVER_WAITED: Final = Refused(
    "accepted, but the request allowed no time to wait for it", ErrorCode.REQUEST_TIMED_OUT
)
_TIMED_OUT: Final = Refused("", ErrorCode.REQUEST_TIMED_OUT)


async def for_leaders(
    metadata: MetadataCache, counts: Mapping[str, int], timeout_ms: int
) -> dict[str, Refused]:
    """Wait for so many partitions of each topic to be led; the topics that are late."""
    if timeout_ms <= 0:
        return dict.fromkeys(counts, _NEVER_WAITED)
    late = dict(counts)

    def all_led(snapshot: MetadataSnapshot) -> bool:
        for topic in [t for t, count in late.items() if snapshot.is_led(t, count)]:
            del late[topic]
        return not late

    await metadata.wait_for(all_led, timeout_ms)
    return dict.fromkeys(late, _TIMED_OUT)


async def for_absence(
    metadata: MetadataCache,
    ids: Mapping[str, uuid.UUID],
    timeout_ms: int,
    completed_in: Session | None = None,
) -> dict[str, Refused]:
    """Wait for topics to be gone, also from the store where one is given; those that are late."""
    if timeout_ms <= 0:
        return dict.fromkeys(ids, _NEVER_WAITED)
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    late = dict(ids)

    def all_gone(snapshot: MetadataSnapshot) -> bool:
        for topic in [t for t, topic_id in late.items() if is_gone(snapshot, t, topic_id)]:
            del late[topic]
        return not late

    await metadata.wait_for(all_gone, timeout_ms)
    marked: set[str] = set()
    if completed_in is not None:
        marked = await for_markers(completed_in, ids.keys() - late.keys(), deadline)
    return dict.fromkeys(late.keys() | marked, _TIMED_OUT)


def is_gone(snapshot: MetadataSnapshot, topic: str, topic_id: uuid.UUID) -> bool:
    """Whether a topic is not known any more; one of the same name may have taken its place."""
    return topic not in snapshot.topics or snapshot.topic_ids.get(topic, ZERO_ID) != topic_id


async def for_markers(session: Session, topics: Iterable[str], deadline: float) -> set[str]:
    """Wait for deletions to end, of which the marker is the last; those that have not."""
    left = set(topics)
    for topic in sorted(left):
        try:
            async with asyncio.timeout_at(deadline):
                await until_absent(session, layout.delete_topic_path(topic))
        except TimeoutError:
            continue
        left.discard(topic)
    return left


async def until_absent(session: Session, path: str) -> None:
    """Wait until a node is gone."""
    changed = asyncio.Event()
    unwatch = session.watch_node(path, changed.set)
    try:
        while await session.get(path) is not None:
            await changed.wait()
            changed.clear()
    finally:
        unwatch()
