"""OffsetForLeaderEpoch (23), versions 0-4: where the log of an epoch ends, as the leader sees it.

Consumers ask after a change of leader whether what they have read is still there.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from klamm.broker.access.access import FOLLOWER
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.replicas.refusals import epoch_fault
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(ApiKey.OFFSET_FOR_LEADER_EPOCH, "topic")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if request.replica_id >= 0 and not parts.access.admits_broker(context, FOLLOWER):
        return failure(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    describable = parts.access.allowed(context, _TOPIC)
    return Response(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic,
                [
                    _end_of(parts, topic.topic, asked, describable)
                    async for asked in in_turns(topic.partitions)
                ],
            )
            async for topic in in_turns(request.topics)
        ]
    )


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    return Response(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [EpochEndOffset(code, asked.partition) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end_of(
    parts: Parts, topic: str, asked: OffsetForLeaderPartition, describable: Container[str]
) -> EpochEndOffset:
    if topic not in describable:
        return EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, asked.partition)
    partition = parts.replicas.find_leader(TopicPartition(topic, asked.partition))
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(partition, asked.partition)
    fault = epoch_fault(partition, asked.current_leader_epoch)
    if fault is not ErrorCode.NONE or partition.log is None:
        return EpochEndOffset(fault, asked.partition)
    epoch, end = partition.log.epochs.end_offset_for(asked.leader_epoch)
    return EpochEndOffset(ErrorCode.NONE, asked.partition, epoch, end)
