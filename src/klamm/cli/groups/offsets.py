"""Committed offsets beside the ends of the partitions they are in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from klamm.client.aio.admin import Admin
from klamm.client.aio.groups import Groups
from klamm.client.errors import refuse
from klamm.model.errors import NotThere
from klamm.model.names import TopicPartition
from klamm.model.offsets import LATEST


class GroupPosition(NamedTuple):
    """The position of a group in one partition."""

    topic: str
    partition: int
    offset: int
    end: int
    lag: int


async def standings(admin: Admin, group: str) -> list[GroupPosition]:
    """Every partition in which the group has committed."""
    found = await Groups(admin.client).offsets(group)
    committed = {tp: entry.committed_offset for tp, entry in found.items()}
    at = {tp: offset for tp, offset in sorted(committed.items()) if offset >= 0}
    ends = await offsets_at(admin, dict.fromkeys(at, LATEST))
    return [
        GroupPosition(tp.topic, tp.partition, offset, ends[tp], max(0, ends[tp] - offset))
        for tp, offset in at.items()
    ]


async def targets(
    admin: Admin, topics: Iterable[str], timestamp: int, offset: int | None
) -> dict[TopicPartition, int]:
    """The offset from which each partition of these topics should be read."""
    names = list(topics)
    found = await admin.topics(names)
    for name in names:
        if name not in found or found[name].error_code:
            raise NotThere(f"there is no topic {name!r}")
    wanted = [TopicPartition(n, p.partition_index) for n in names for p in found[n].partitions]
    if offset is not None:
        return dict.fromkeys(wanted, offset)
    at = await offsets_at(admin, dict.fromkeys(wanted, timestamp))
    # A moment after the last record has no offset: go on behind the end then.
    late = [tp for tp, where in at.items() if where < 0]
    return at | await offsets_at(admin, dict.fromkeys(late, LATEST))


async def offsets_at(
    admin: Admin, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The offsets at these timestamps, from each partition's leader."""
    if not wanted:
        return {}
    answers = await admin.list_offsets(wanted)
    for tp, answer in answers.items():
        refuse(answer.error_code, tp)
    return {tp: answer.offset for tp, answer in answers.items()}


async def commit(admin: Admin, group: str, wanted: Mapping[TopicPartition, int]) -> None:
    """Let a group without members stand at these offsets."""
    for tp, code in (await Groups(admin.client).set_offsets(group, wanted)).items():
        refuse(code, tp)
