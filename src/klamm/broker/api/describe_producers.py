"""DescribeProducers (key 61), version 0: who writes to the partitions led here, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.context import RequestContext
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages import describe_producers as messages

if TYPE_CHECKING:
    from klamm.broker.server import Broker


async def handle(
    broker: Broker, context: RequestContext, request: messages.Request
) -> messages.Response:
    return messages.Response(
        topics=[
            messages.TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(broker, TopicPartition(topic.name, number))
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: Broker, at: TopicPartition) -> messages.PartitionResponse:
    if broker.metadata.snapshot.partition(at) is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return messages.PartitionResponse(partition_index=at.partition, error_code=unknown)
    hosted = broker.replicas.partition(at)
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
