"""DescribeProducers (key 61), version 0: who writes to the partitions led here, and since when."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition, name_fault
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import describe_producers as messages
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(ApiKey.DESCRIBE_PRODUCERS, "topic")
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    # A partition that is asked for twice is told once: its producers may be many times what was
    # asked.
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    readable = parts.access.allowed(context, _TOPIC)
    return messages.Response(
        topics=[
            messages.TopicResponse(
                name=name,
                partitions=[
                    _describe(parts, TopicPartition(name, number), readable)
                    async for number in in_turns(numbers)
                ],
            )
            async for name, numbers in in_turns(asked.items())
        ]
    )


def _describe(
    parts: Parts, at: TopicPartition, readable: Container[str]
) -> messages.PartitionResponse:
    if (fault := name_fault(at.topic)) is not None:
        illegal = ErrorCode.INVALID_TOPIC_EXCEPTION
        return messages.PartitionResponse(
            partition_index=at.partition, error_code=illegal, error_message=fault
        )
    if at.topic not in readable:
        return messages.PartitionResponse(
            partition_index=at.partition, error_code=_DENIED, error_message=_TOPIC.message
        )
    if parts.metadata.snapshot.partition(at) is None:
        return messages.PartitionResponse(
            partition_index=at.partition,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"there is no partition {at}",
        )
    hosted = parts.replicas.partition(at)
    if hosted is None or not hosted.is_leader or hosted.log is None:
        elsewhere = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return messages.PartitionResponse(partition_index=at.partition, error_code=elsewhere)
    return messages.PartitionResponse(
        partition_index=at.partition,
        active_producers=[
            messages.ProducerState(
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_start,
            )
            for producer in hosted.log.producers.by_id.values()
        ],
    )


def failure(request: messages.Request, code: ErrorCode, message: str | None) -> messages.Response:
    return messages.Response(
        topics=[
            messages.TopicResponse(
                name=topic.name,
                partitions=[
                    messages.PartitionResponse(number, code, message)
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )
