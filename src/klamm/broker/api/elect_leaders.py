"""ElectLeaders (key 43): preferred elections, and unclean ones where nobody in sync is left.

The answer waits until this broker's own metadata shows the new leaders. Version 0 knows preferred
elections only and has no error of its own: a broker that is not the controller says so for every
partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_parts
from klamm.broker.parts import Parts
from klamm.controller.events import ElectionsAsked, ElectionType, PartitionFault
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.messages.elect_leaders import (
    PartitionResult,
    ReplicaElectionResult,
    Request,
    Response,
)


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if request.election_type not in ElectionType.__members__.values():
        raise RequestRefused(
            ErrorCode.INVALID_REQUEST, f"there is no election of type {request.election_type}"
        )
    results: dict[TopicPartition, PartitionFault] = {}
    leaders: dict[TopicPartition, BrokerId] = {}
    for wanted in in_parts(_wanted(request)):
        answer = await parts.controller.submit(
            ElectionsAsked(ElectionType(request.election_type), wanted)
        )
        results |= answer.results
        leaders |= answer.leaders
    for id in await _not_seen(parts, leaders, request.timeout_ms):
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
    parts: Parts, leaders: Mapping[TopicPartition, BrokerId], timeout_ms: int
) -> list[TopicPartition]:
    """The partitions whose new leader this broker has not heard of when the time is up."""

    def missing() -> list[TopicPartition]:
        snapshot = parts.metadata.snapshot
        found = {id: snapshot.partition(id) for id in leaders}
        return [
            id
            for id, leader in leaders.items()
            if (info := found[id]) is None or info.leader != leader
        ]

    await parts.metadata.wait_for(lambda _: not missing(), max(timeout_ms, 0))
    return missing()


def _grouped(
    results: Iterable[tuple[TopicPartition, PartitionFault]],
) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = {}
    for id, fault in results:
        entry = topics.setdefault(id.topic, ReplicaElectionResult(topic=id.topic))
        entry.partition_result.append(PartitionResult(id.partition, fault.code, fault.message))
    return list(topics.values())
