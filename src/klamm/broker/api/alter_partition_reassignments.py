"""AlterPartitionReassignments (key 45): move partitions to other brokers, or call a move off.

Answered when the moves have begun, not when they have ended (KIP-455).
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_parts, in_turns
from klamm.broker.parts import Parts
from klamm.controller.events import PartitionFault, ReassignmentsAsked
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.alter_partition_reassignments import (
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "cluster")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    parts.access.demand(context, _CLUSTER)
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
        results |= (
            await parts.controller.submit(ReassignmentsAsked(asked), context.asked_by)
        ).results
    return await _response(results)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The whole request fails, and so does each partition of it."""
    return Response(
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [
                    ReassignablePartitionResponse(p.partition_index, code, message)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


async def _response(results: dict[TopicPartition, PartitionFault]) -> Response:
    topics: dict[str, ReassignableTopicResponse] = {}
    async for id, fault in in_turns(results.items()):
        entry = topics.setdefault(id.topic, ReassignableTopicResponse(name=id.topic))
        entry.partitions.append(
            ReassignablePartitionResponse(id.partition, fault.code, fault.message)
        )
    return Response(responses=list(topics.values()))
