"""OffsetCommit (key 8), versions 1-10: a group keeps how far it has read.

Answered when the offsets are durable. The retention time that versions 2-4 name is not heeded:
offsets live by the broker's rule. A partition that does not exist spoils only itself. From 10 on a
topic is its id (KIP-848): who still reads a topic that was deleted and created again commits
nothing for the new one, and is told UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.coordinators.commits import commit
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import offset_commit as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.OFFSET_COMMIT, "group")
_TOPIC: Final = need_of(ApiKey.OFFSET_COMMIT, "topic")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    async def refusal() -> ErrorCode | None:
        return parts.groups.commit_fault(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            knows_epochs=context.version >= 9,
        )

    known, unknown = request.topics, list[messages.OffsetCommitRequestTopic]()
    if context.version >= 10:
        known, unknown = _by_id(parts, request.topics)
    denied = parts.access.refusal(context, _GROUP, request.group_id)
    if denied is not None:
        return failure(request, denied, None)
    errors = await commit(
        parts,
        parts.groups,
        request.group_id,
        known,
        refusal,
        readable=parts.access.allowed(context, _TOPIC),
    )
    return messages.Response(
        topics=[
            messages.OffsetCommitResponseTopic(
                topic_id=topic.topic_id,
                name=topic.name,
                partitions=[
                    messages.OffsetCommitResponsePartition(
                        partition_index=p.partition_index,
                        error_code=errors.get(
                            TopicPartition(topic.name, p.partition_index),
                            ErrorCode.UNKNOWN_TOPIC_ID,
                        ),
                    )
                    async for p in in_turns(topic.partitions)
                ],
            )
            async for topic in in_turns((*known, *unknown))
        ]
    )


def failure(request: messages.Request, code: ErrorCode, _: str | None) -> messages.Response:
    """The same refusal for every partition; names that only we know of an id are not told."""
    return messages.Response(
        topics=[
            messages.OffsetCommitResponseTopic(
                topic_id=topic.topic_id,
                name=topic.name,
                partitions=[
                    messages.OffsetCommitResponsePartition(p.partition_index, code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _by_id(
    parts: Parts, topics: list[messages.OffsetCommitRequestTopic]
) -> tuple[list[messages.OffsetCommitRequestTopic], list[messages.OffsetCommitRequestTopic]]:
    """The topics that exist, with their names, and those that do not."""
    names = parts.metadata.snapshot.topic_names
    known = [t for t in topics if t.topic_id in names]
    for topic in known:
        topic.name = names[topic.topic_id]
    return known, [t for t in topics if t.topic_id not in names]
