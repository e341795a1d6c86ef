"""ListPartitionReassignments (key 46): the moves that are under way; others are left out."""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_parts
from klamm.broker.parts import Parts
from klamm.controller.events import ReassignmentsListed
from klamm.model.assignment import Assignment
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.list_partition_reassignments import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(ApiKey.LIST_PARTITION_REASSIGNMENTS, "cluster")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    parts.access.demand(context, _CLUSTER)
    wanted = None
    if request.topics is not None:
        wanted = tuple(
            TopicPartition(topic.name, index)
            for topic in request.topics
            for index in topic.partition_indexes
        )
    topics: dict[str, OngoingTopicReassignment] = {}
    found: dict[TopicPartition, Assignment] = {}
    for part in in_parts(wanted):
        listed = await parts.controller.submit(ReassignmentsListed(part))
        found.update(listed)
    for id, assignment in found.items():
        entry = topics.setdefault(id.topic, OngoingTopicReassignment(name=id.topic))
        entry.partitions.append(
            OngoingPartitionReassignment(
                partition_index=id.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    return Response(topics=list(topics.values()))
