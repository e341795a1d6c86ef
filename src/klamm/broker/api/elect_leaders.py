"""ElectLeaders (key 43): preferred elections, and unclean ones where nobody in sync is left.

The answer waits until this broker's own metadata has shown each new leader, or a later one: that
all of them lead at the same moment is more than a busy cluster can promise. Version 0 knows
preferred elections only and has no error of its own: a broker that is not the controller says so
for every partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.broker.metadata_cache import MetadataCache, MetadataSnapshot
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_parts
from klamm.broker.parts import Parts
from klamm.controller.events import ElectionsAsked, ElectionType, PartitionFault
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.elect_leaders import (
    PartitionResult,
    ReplicaElectionResult,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(ApiKey.ELECT_LEADERS, "cluster")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    parts.access.demand(context, _CLUSTER)
    if request.election_type not in ElectionType.__members__.values():
        raise RequestRefused(
            ErrorCode.INVALID_REQUEST, f"there is no election of type {request.election_type}"
        )
    results: dict[TopicPartition, PartitionFault] = {}
    epochs: dict[TopicPartition, int] = {}
    for wanted in in_parts(_wanted(request)):
        answer = await parts.controller.submit(
            ElectionsAsked(ElectionType(request.election_type), wanted), context.asked_by
        )
        results |= answer.results
        epochs |= answer.leader_epochs
    for id in await _not_seen(parts.metadata, epochs, request.timeout_ms):
        results[id] = PartitionFault(
            ErrorCode.REQUEST_TIMED_OUT, "the election was not seen in time"
        )
    return Response(replica_election_results=_grouped(results.items()))


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """Every partition asked for fails alike, for the sake of version 0."""
    fault = PartitionFault(code, message)
    return Response(
        error_code=code,
        replica_election_results=_grouped((id, fault) for id in _wanted(request) or ()),
    )


def _wanted(request: Request) -> tuple[TopicPartition, ...] | None:
    if request.topic_partitions is None:
        return None
    return tuple(
        TopicPartition(topic.topic, index)
        for topic in request.topic_partitions
        for index in topic.partitions
    )


async def _not_seen(
    metadata: MetadataCache, epochs: Mapping[TopicPartition, int], timeout_ms: int
) -> list[TopicPartition]:
    """The partitions whose election this broker has not heard of when the time is up."""
    left = dict(epochs)

    def all_seen(snapshot: MetadataSnapshot) -> bool:
        for id, epoch in list(left.items()):
            info = snapshot.partition(id)
            if info is not None and info.leader_epoch >= epoch:
                del left[id]
        return not left

    await metadata.wait_for(all_seen, max(timeout_ms, 0))
    return list(left)


def _grouped(
    results: Iterable[tuple[TopicPartition, PartitionFault]],
) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = {}
    for id, fault in results:
        entry = topics.setdefault(id.topic, ReplicaElectionResult(topic=id.topic))
        entry.partition_result.append(PartitionResult(id.partition, fault.code, fault.message))
    return list(topics.values())
