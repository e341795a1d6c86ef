"""TxnOffsetCommit (key 28), versions 0-4: a group's offsets inside a transaction.

Sent to the group's coordinator. The offsets are appended under the producer's id and count when its
transaction commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.context import RequestContext
from klamm.groups.offsets import CommittedOffset
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages import txn_offset_commit as messages

if TYPE_CHECKING:
    from klamm.broker.server import Broker


async def handle(
    broker: Broker, context: RequestContext, request: messages.Request
) -> messages.Response:
    errors: dict[TopicPartition, ErrorCode] = {}
    offsets: dict[TopicPartition, CommittedOffset] = {}
    fault = broker.groups.txn_commit_fault(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    now_ms = broker.clock.now_ms()
    for topic in request.topics:
        for partition in topic.partitions:
            at = TopicPartition(topic.name, partition.partition_index)
            metadata = partition.committed_metadata or ""
            if fault is not None:
                errors[at] = fault
            elif broker.metadata.snapshot.partition(at) is None:
                errors[at] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(metadata) > broker.settings.int("offset.metadata.max.bytes"):
                errors[at] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                offsets[at] = CommittedOffset(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_time_ms=now_ms,
                )
    if offsets:
        outcome = await broker.groups.commit(
            request.group_id,
            offsets,
            producer=(request.producer_id, request.producer_epoch),
        )
        errors |= dict.fromkeys(offsets, outcome)
    return messages.Response(
        topics=[
            messages.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    messages.TxnOffsetCommitResponsePartition(
                        partition_index=p.partition_index,
                        error_code=errors[TopicPartition(topic.name, p.partition_index)],
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
