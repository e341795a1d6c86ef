"""TxnOffsetCommit (key 28), versions 0-4: a group's offsets inside a transaction.

Sent to the group's coordinator. The offsets are appended under the producer's id and count when its
transaction commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.context import RequestContext
from klamm.broker.coordinators.commits import commit
from klamm.model.names import TopicPartition
from klamm.protocol.messages import txn_offset_commit as messages

if TYPE_CHECKING:
    from klamm.broker.server import Broker


async def handle(
    broker: Broker, context: RequestContext, request: messages.Request
) -> messages.Response:
    fault = broker.groups.txn_commit_fault(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    errors = await commit(
        broker,
        request.group_id,
        request.topics,
        fault,
        producer=(request.producer_id, request.producer_epoch),
    )
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
