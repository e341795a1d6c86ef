"""OffsetCommit (key 8), versions 2-9: a group keeps how far it has read.

Answered when the offsets are durable. The retention time that versions 2-4 name is not heeded:
offsets live by the broker's rule. A partition that does not exist spoils only itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.context import RequestContext
from klamm.broker.coordinators.commits import commit
from klamm.model.names import TopicPartition
from klamm.protocol.messages import offset_commit as messages

if TYPE_CHECKING:
    from klamm.broker.server import Broker


async def handle(
    broker: Broker, context: RequestContext, request: messages.Request
) -> messages.Response:
    fault = broker.groups.commit_fault(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        knows_epochs=context.version >= 9,
    )
    errors = await commit(broker, request.group_id, request.topics, fault)
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
