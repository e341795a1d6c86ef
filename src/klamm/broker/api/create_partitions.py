"""CreatePartitions (37), versions 0-3: more partitions for topics that are there.

Only the controller answers, once every partition of the topics has a leader. `count` is the new
total. From version 3 on quotas are strict.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.quotas.quotas import Client
from klamm.controller.admission import Growth
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import BrokerId
from klamm.protocol.messages.create_partitions import (
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    Request,
    Response,
)

_STRICT_FROM: Final = 3


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if not parts.is_controller:
        return failure(request, ErrorCode.NOT_CONTROLLER, None)
    client = Client.of(context.principal, context.client_id)
    quota = parts.quotas.mutations(client, parts.settings, strict=context.version >= _STRICT_FROM)
    outcomes = await parts.admin.create_partitions(
        [_ask(topic) async for topic in in_turns(request.topics)],
        quota,
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )
    return Response(
        throttle_time_ms=quota.throttle_ms,
        results=[
            _result(topic.name, outcome)
            async for topic, outcome in in_turns(zip(request.topics, outcomes, strict=True))
        ],
    )


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every topic."""
    return Response(
        results=[CreatePartitionsTopicResult(topic.name, code, message) for topic in request.topics]
    )


def _ask(topic: CreatePartitionsTopic) -> Growth:
    chosen = topic.assignments
    return Growth(
        topic.name,
        topic.count,
        None if chosen is None else tuple(tuple(map(BrokerId, c.broker_ids)) for c in chosen),
    )


def _result(name: str, outcome: Refused | None) -> CreatePartitionsTopicResult:
    if outcome is None:
        return CreatePartitionsTopicResult(name)
    return CreatePartitionsTopicResult(name, outcome.code, outcome.why or None)
