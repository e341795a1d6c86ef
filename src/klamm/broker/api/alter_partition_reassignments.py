"""AlterPartitionReassignments (key 45): move partitions to other brokers, or call a move off.

Answered when the moves have begun, not when they have ended (KIP-455).
"""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_parts, in_turns
from klamm.broker.parts import Parts
from klamm.controller.events import PartitionFault, ReassignmentsAsked
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.messages.alter_partition_reassignments import (
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    Request,
    Response,
)


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    targets = {
        TopicPartition(topic.name, p.partition_index): (
            None if p.replicas is None else tuple(map(BrokerId, p.replicas))
        )
        async for topic in in_turns(request.topics)
        for p in topic.partitions
    }
    results: dict[TopicPartition, PartitionFault] = {}
    for part in in_parts(tuple(targets)):
        assert part is not None, targets
        asked = {id: targets[id] for id in part}
        results |= (await parts.controller.submit(ReassignmentsAsked(asked))).results
    topics: dict[str, ReassignableTopicResponse] = {}
    async for id, fault in in_turns(results.items()):
        entry = topics.setdefault(id.topic, ReassignableTopicResponse(name=id.topic))
        entry.partitions.append(
            ReassignablePartitionResponse(id.partition, fault.code, fault.message)
        )
    return Response(responses=list(topics.values()))
