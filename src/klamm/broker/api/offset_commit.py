"""OffsetCommit (key 8), versions 1-10: a group keeps how far it has read.

Answered when the offsets are durable. The retention time that versions 2-4 name is not heeded:
offsets live by the broker's rule. A partition that does not exist spoils only itself. From 10 on a
topic is its id (KIP-848): who still reads a topic that was deleted and created again commits
nothing for the new one, and is told UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from klamm.broker.coordinators.commits import commit
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages import offset_commit as messages


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
    errors = await commit(parts, parts.groups, request.group_id, known, refusal)
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


def _by_id(
    parts: Parts, topics: list[messages.OffsetCommitRequestTopic]
) -> tuple[list[messages.OffsetCommitRequestTopic], list[messages.OffsetCommitRequestTopic]]:
    """The topics that exist, with their names, and those that do not."""
    names = parts.metadata.snapshot.topic_names
    known = [t for t in topics if t.topic_id in names]
    for topic in known:
        topic.name = names[topic.topic_id]
    return known, [t for t in topics if t.topic_id not in names]
