"""OffsetDelete (key 47), version 0: drop single offsets of a group that does not read them now."""

from __future__ import annotations

from typing import Final

from klamm.broker.coordinators.group_offsets import subscription_of
from klamm.broker.coordinators.shards import Shard
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import offset_delete as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.OFFSET_DELETE, "group")
_TOPIC: Final = need_of(ApiKey.OFFSET_DELETE, "topic")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    parts.access.demand(context, _GROUP, request.group_id)
    readable = parts.access.allowed(context, _TOPIC)
    shard = parts.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        return messages.Response(error_code=shard)
    fault, read = _what_is_read(shard, request.group_id)
    if fault is not None:
        return messages.Response(error_code=fault)
    errors: dict[TopicPartition, ErrorCode] = {}
    async for topic in in_turns(request.topics):
        async for partition in in_turns(topic.partitions):
            at = TopicPartition(topic.name, partition.partition_index)
            if topic.name not in readable:
                errors[at] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic.name in read:
                errors[at] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif parts.metadata.snapshot.partition(at) is None:
                errors[at] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                errors[at] = ErrorCode.NONE
    kept = shard.offsets_of(request.group_id).committed
    dropped = [at for at, error in errors.items() if error is ErrorCode.NONE and at in kept]
    outcome = await parts.groups.offsets.delete(shard, request.group_id, dropped)
    errors |= dict.fromkeys(dropped, outcome)
    if dropped and outcome is ErrorCode.NONE and _is_bare(shard, request.group_id):
        await parts.groups.offsets.delete_group(request.group_id)
    return messages.Response(
        topics=[
            messages.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    messages.OffsetDeleteResponsePartition(
                        partition_index=p.partition_index,
                        error_code=errors[TopicPartition(topic.name, p.partition_index)],
                    )
                    async for p in in_turns(topic.partitions)
                ],
            )
            async for topic in in_turns(request.topics)
        ]
    )


def _is_bare(shard: Shard, group_id: str) -> bool:
    """Tells whether a group has nothing left to be kept for: no members and no offsets."""
    group = shard.groups.get(group_id)
    has_members = shard.consumer(group_id) is not None or (group is not None and group.members)
    return not has_members and shard.offsets_of(group_id).is_empty


def _what_is_read(shard: Shard, group_id: str) -> tuple[ErrorCode | None, frozenset[str]]:
    consumer = shard.consumer(group_id)
    if consumer is not None:
        return None, consumer.subscribed
    group = shard.groups.get(group_id)
    if group is None:
        offsets = shard.offsets.get(group_id)
        if offsets is None or offsets.is_empty:
            return ErrorCode.GROUP_ID_NOT_FOUND, frozenset()
        return None, frozenset()
    if not group.members:
        return None, frozenset()
    read = subscription_of(group)
    return (ErrorCode.NON_EMPTY_GROUP, frozenset()) if read is None else (None, read)
