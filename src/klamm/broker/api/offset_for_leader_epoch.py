"""OffsetForLeaderEpoch (23), versions 0-4: where the log of an epoch ends, as the leader sees it.

Consumers ask after a change of leader whether what they have read is still there.
"""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.replicas.replicas import epoch_fault
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
    Request,
    Response,
)


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if request.replica_id >= 0 and not context.peer.is_broker:
        return failure(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    return Response(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic,
                [_end_of(parts, topic.topic, asked) async for asked in in_turns(topic.partitions)],
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


def _end_of(parts: Parts, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = parts.replicas.find_leader(TopicPartition(topic, asked.partition))
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(partition, asked.partition)
    fault = epoch_fault(partition, asked.current_leader_epoch)
    if fault is not ErrorCode.NONE or partition.log is None:
        return EpochEndOffset(fault, asked.partition)
    epoch, end = partition.log.epochs.end_offset_for(asked.leader_epoch)
    return EpochEndOffset(ErrorCode.NONE, asked.partition, epoch, end)
