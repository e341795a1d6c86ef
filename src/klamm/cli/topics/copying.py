"""Copying a topic into a new one with another number of partitions.

Kafka can only add partitions, and doing so tears keys apart: old values of a key stay where they
were, new ones go elsewhere. A copy puts every record where its key belongs among the partitions of
the new topic, with its time and its headers. Records of one partition keep their order, and the
oldest of several partitions come first. It ends at what was there when it began: freeze the source
where it is still written to.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from typing import Final

from klamm.cli.groups.offsets import offsets_at
from klamm.cli.topics import changes as topic_changes
from klamm.client.aio.admin import Admin
from klamm.client.aio.consumer import Consumed, Consumer
from klamm.client.aio.producer import Producer
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST
from klamm.model.settings.topic import FROZEN, KEPT_UNTIL
from klamm.protocol.fetch import READ_COMMITTED

# What is said of one topic's writers or replicas does not hold for its copy.
_NOT_COPIED: Final = frozenset(
    {
        FROZEN,
        KEPT_UNTIL,
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
)
_POLL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy."""

    partitions: int
    replication_factor: int
    records: int


async def copy(
    admin: Admin, source: str, target: str, *, partitions: int, replication_factor: int, codec: int
) -> Copied:
    """Create the target with the source's settings and fill it; -1 is as many as the source has."""
    (found,) = await topic_changes.describe(admin, [source])
    if source == target:
        raise UsageError("a topic cannot be copied into itself")
    new = topic_changes.TopicWish(
        target,
        len(found.partitions) if partitions == -1 else partitions,
        found.replication_factor if replication_factor == -1 else replication_factor,
        {name: text for name, text in found.overrides.items() if name not in _NOT_COPIED},
    )
    await topic_changes.create(admin, new, dry_run=False)
    start = {TopicPartition(source, p.index): EARLIEST for p in found.partitions}
    count = await _fill(admin, start, target, codec)
    return Copied(new.partitions, new.replication_factor, count)


async def _fill(admin: Admin, start: dict[TopicPartition, int], target: str, codec: int) -> int:
    ends = await offsets_at(admin, dict.fromkeys(start, LATEST))
    count = 0
    async with Producer(admin.client, codec=codec) as producer:
        sources = [_records(admin, tp, offset, ends[tp]) for tp, offset in start.items()]
        async for record in _merged(sources):
            await producer.send(
                target,
                record.value,
                key=record.key,
                headers=record.headers,
                timestamp=record.timestamp,
            )
            count += 1
    return count


async def _records(
    admin: Admin, tp: TopicPartition, start: int, end: int
) -> AsyncGenerator[Consumed, None]:
    """One partition's records below an offset."""
    async with Consumer(admin.client, {tp: start}, isolation_level=READ_COMMITTED) as consumer:
        while consumer.positions[tp] < end:
            for record in await consumer.poll(timeout_s=_POLL_S):
                if record.offset < end:
                    yield record


async def _merged(sources: Iterable[AsyncGenerator[Consumed, None]]) -> AsyncIterator[Consumed]:
    """The records of all sources, each source in its order, and the oldest of their heads first.

    A topic that grew has the values of one key in two partitions. The times of the records tell
    which came first, and a copy that is compacted keeps the last.
    """
    async with AsyncExitStack() as stack:
        heads: list[tuple[int, int, Consumed, AsyncGenerator[Consumed, None]]] = []
        for number, source in enumerate(sources):
            await stack.enter_async_context(aclosing(source))
            first = await anext(source, None)
            if first is not None:
                heappush(heads, (first.timestamp, number, first, source))
        while heads:
            _, number, record, source = heads[0]
            yield record
            following = await anext(source, None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (following.timestamp, number, following, source))
