"""OffsetFetch (key 9), versions 1-10: how far groups have read.

No list of topics (version 2 on) asks for everything a group has. A partition without an offset is
answered with -1 and no error. `require_stable` (version 7 on) refuses offsets that an open
transaction may still change. Versions below 8 name one group, later ones several. From 9 on
a member of the new protocol gives its id and epoch and is refused when it has been left behind.
From 10 on a topic is its id: one that nobody knows gets UNKNOWN_TOPIC_ID, and offsets of topics
that are no more are left out where everything is asked for: they have no id to be called by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.groups.consumer.events import commit_fault
from klamm.groups.offsets import CommittedOffset, GroupOffsets
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import offset_fetch as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.OFFSET_FETCH, "group", 8)
_TOPIC: Final = need_of(ApiKey.OFFSET_FETCH, "topic")
_ALL: Final = need_of(ApiKey.OFFSET_FETCH, "all topics", 2)

_NOTHING = CommittedOffset(offset=-1)
Wanted = list[tuple[str, list[int]]]


@dataclass(frozen=True, slots=True)
class _Found:
    error: ErrorCode
    topics: list[tuple[str, list[tuple[int, CommittedOffset, ErrorCode]]]]


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    stable = request.require_stable
    shown = _Shown(parts, context)
    if context.version >= 8:
        answer = _by_name if context.version < 10 else _by_id
        # A group that is asked for twice is told once, as if it were asked last: everything that it
        # committed may be many times what was asked.
        asked = {group.group_id: group for group in request.groups}
        return messages.Response(
            groups=[
                await answer(parts, group, shown, stable=stable)
                async for group in in_turns(asked.values())
            ]
        )
    wanted = _wanted(request.topics)
    found = await _look_up(parts, request.group_id, wanted, shown, stable=stable)
    return messages.Response(
        error_code=found.error,
        topics=[
            messages.OffsetFetchResponseTopic(
                name=topic,
                partitions=[
                    messages.OffsetFetchResponsePartition(
                        partition_index=number,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        metadata=offset.metadata,
                        # Version 1 has no room for an error of the whole request.
                        error_code=found.error or error,
                    )
                    async for number, offset, error in in_turns(partitions)
                ],
            )
            async for topic, partitions in in_turns(found.topics)
        ],
    )


class _Shown:
    """The groups that the caller may see, and the topics in them."""

    def __init__(self, parts: Parts, context: RequestContext) -> None:
        self.version = context.version
        self._access, self._context = parts.access, context
        self._named = parts.access.allowed(context, _TOPIC)
        self._all = parts.access.allowed(context, _ALL)

    def refusal(self, group_id: str) -> ErrorCode | None:
        return self._access.refusal(self._context, _GROUP, group_id)

    def everything(self, wanted: Wanted) -> Wanted:
        """Of all that a group has, the part that may be shown: nothing tells of the rest."""
        return [(topic, numbers) for topic, numbers in wanted if topic in self._all]

    def code(self, topic: str) -> ErrorCode:
        """The code for a topic that was named."""
        is_shown = topic in self._named
        return ErrorCode.NONE if is_shown else ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def _by_name(
    parts: Parts, group: messages.OffsetFetchRequestGroup, shown: _Shown, *, stable: bool
) -> messages.OffsetFetchResponseGroup:
    found = await _look_up(
        parts,
        group.group_id,
        _wanted(group.topics),
        shown,
        stable=stable,
        member=(group.member_id, group.member_epoch),
    )
    return await _group_answer(group.group_id, found)


async def _by_id(
    parts: Parts, group: messages.OffsetFetchRequestGroup, shown: _Shown, *, stable: bool
) -> messages.OffsetFetchResponseGroup:
    snapshot = parts.metadata.snapshot
    asked = group.topics
    if asked is not None:
        for topic in asked:
            topic.name = snapshot.topic_names.get(topic.topic_id, "")
        group.topics = [topic for topic in asked if topic.name]
    answer = await _by_name(parts, group, shown, stable=stable)
    answer.topics = [topic for topic in answer.topics if topic.name in snapshot.topic_ids]
    for found in answer.topics:
        found.topic_id = snapshot.topic_ids[found.name]
    answer.topics += [_unknown(topic) for topic in asked or () if not topic.name]
    return answer


def _unknown(topic: messages.OffsetFetchRequestTopics) -> messages.OffsetFetchResponseTopics:
    return messages.OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=[
            messages.OffsetFetchResponsePartitions(
                partition_index=number,
                committed_offset=-1,
                metadata="",
                error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
            for number in topic.partition_indexes
        ],
    )


def _wanted(
    topics: Iterable[messages.OffsetFetchRequestTopics | messages.OffsetFetchRequestTopic] | None,
) -> Wanted | None:
    if topics is None:
        return None
    return [(topic.name, topic.partition_indexes) for topic in topics]


async def _group_answer(group_id: str, found: _Found) -> messages.OffsetFetchResponseGroup:
    return messages.OffsetFetchResponseGroup(
        group_id=group_id,
        error_code=found.error,
        topics=[
            messages.OffsetFetchResponseTopics(
                name=topic,
                partitions=[
                    messages.OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        metadata=offset.metadata,
                        error_code=error,
                    )
                    async for number, offset, error in in_turns(partitions)
                ],
            )
            async for topic, partitions in in_turns(found.topics)
        ],
    )


async def _look_up(
    parts: Parts,
    group_id: str,
    wanted: Wanted | None,
    shown: _Shown,
    *,
    stable: bool,
    member: tuple[str | None, int] = (None, -1),
) -> _Found:
    denied = shown.refusal(group_id)
    if denied is not None:
        # Version 1 has no other place for it than the partitions.
        return _nothing(denied, wanted if shown.version < 2 else None)
    shard = parts.groups.shard(group_id, nameless=True)
    if isinstance(shard, ErrorCode):
        return _nothing(shard, wanted)
    consumer = shard.consumer(group_id)
    if consumer is not None and member != (None, -1):
        fault = commit_fault(consumer, member[0] or "", member[1])
        if fault is not None:
            return _nothing(fault, wanted)
    offsets = shard.offsets.get(group_id) or GroupOffsets()
    if wanted is None:
        found = [(t, n, ErrorCode.NONE) for t, n in shown.everything(_everything(offsets))]
    else:
        found = [(topic, numbers, shown.code(topic)) for topic, numbers in wanted]
    return _Found(
        ErrorCode.NONE,
        [
            (
                topic,
                [
                    _one(offsets, TopicPartition(topic, n), code, stable=stable)
                    async for n in in_turns(numbers)
                ],
            )
            async for topic, numbers, code in in_turns(found)
        ],
    )


def _nothing(error: ErrorCode, wanted: Wanted | None) -> _Found:
    topics = [
        (topic, [(n, _NOTHING, ErrorCode.NONE) for n in numbers]) for topic, numbers in wanted or ()
    ]
    return _Found(error, topics)


def _everything(offsets: GroupOffsets) -> Wanted:
    topics: dict[str, list[int]] = {}
    for at in sorted(offsets.committed):
        topics.setdefault(at.topic, []).append(at.partition)
    return list(topics.items())


def _one(
    offsets: GroupOffsets, at: TopicPartition, code: ErrorCode, *, stable: bool
) -> tuple[int, CommittedOffset, ErrorCode]:
    if code is not ErrorCode.NONE:
        return at.partition, _NOTHING, code
    if stable and offsets.is_unstable(at):
        return at.partition, _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
    return at.partition, offsets.committed.get(at, _NOTHING), ErrorCode.NONE
