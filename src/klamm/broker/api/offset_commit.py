"""OffsetCommit (key 8), versions 2-9: a group keeps how far it has read.

Answered when the offsets are durable. The retention time that versions 2-4 name is not heeded:
offsets live by the broker's rule. A partition that does not exist spoils only itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.context import RequestContext
from klamm.groups.offsets import CommittedOffset
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages import offset_commit as messages

if TYPE_CHECKING:
    from klamm.broker.server import Broker


async def handle(
    broker: Broker, context: RequestContext, request: messages.Request
) -> messages.Response:
    errors: dict[TopicPartition, ErrorCode] = {}
    offsets: dict[TopicPartition, CommittedOffset] = {}
    fault = broker.groups.commit_fault(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
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
    outcome = await broker.groups.commit(request.group_id, offsets) if offsets else ErrorCode.NONE
    errors |= dict.fromkeys(offsets, outcome)
    return messages.Response(
        topics=[
            messages.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    messages.OffsetCommitResponsePartition(
                        partition_index=p.partition_index,
                        error_code=errors[TopicPartition(topic.name, p.partition_index)],
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
