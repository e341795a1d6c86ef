"""AlterPartitionReassignments (key 45): move partitions to other brokers, or call a move off.

Answered when the moves have begun, not when they have ended (KIP-455).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.controller.events import ReassignmentsAsked
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.messages.alter_partition_reassignments import (
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    Request,
    Response,
)

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext
    from klamm.broker.server import Broker


async def handle(broker: Broker, context: RequestContext, request: Request) -> Response:
    targets = {
        TopicPartition(topic.name, p.partition_index): (
            None if p.replicas is None else tuple(map(BrokerId, p.replicas))
        )
        for topic in request.topics
        for p in topic.partitions
    }
    answer = await broker.controller.submit(ReassignmentsAsked(targets))
    topics: dict[str, ReassignableTopicResponse] = {}
    for id, fault in answer.results.items():
        entry = topics.setdefault(id.topic, ReassignableTopicResponse(name=id.topic))
        entry.partitions.append(
            ReassignablePartitionResponse(id.partition, fault.code, fault.message)
        )
    return Response(responses=list(topics.values()))
