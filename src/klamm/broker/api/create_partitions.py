"""CreatePartitions (37), versions 0-3: more partitions for topics that are there.

Only the controller answers, once every partition of the topics has a leader. `count` is the new
total. From version 3 on quotas are strict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.quotas.quotas import QuotaClient
from klamm.broker.term.requesters import GROWTH, came_to_nothing
from klamm.controller.admission import Growth
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import BrokerId
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.create_partitions import (
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(ApiKey.CREATE_PARTITIONS, "topic")

_STRICT_FROM: Final = 3


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if not parts.is_controller:
        return failure(request, ErrorCode.NOT_CONTROLLER, None)
    client = QuotaClient.of(context.principal, context.client_id)
    quota = parts.quotas.mutations(client, parts.settings, strict=context.version >= _STRICT_FROM)
    asks = [_ask(topic) async for topic in in_turns(request.topics)]
    denied = _denied(parts, context, asks)
    wanted = [ask for ask in asks if ask.topic not in denied]
    requesters = parts.controller.requesters
    if not request.validate_only:
        requesters.note(GROWTH, (ask.topic for ask in wanted), context.asked_by)
    done = await parts.admin.create_partitions(
        wanted,
        quota,
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )
    pairs = zip(wanted, done, strict=True)
    requesters.drop(GROWTH, (ask.topic for ask, outcome in pairs if came_to_nothing(outcome)))
    rest = iter(done)
    outcomes = [denied[ask.topic] if ask.topic in denied else next(rest) for ask in asks]
    return Response(
        throttle_time_ms=quota.throttle_ms,
        results=[
            _result(topic.name, outcome)
            async for topic, outcome in in_turns(zip(request.topics, outcomes, strict=True))
        ],
    )


def _denied(parts: Parts, context: RequestContext, asks: Sequence[Growth]) -> dict[str, Refused]:
    """The topics that the caller may not alter; one that is named twice is a fault before that."""
    if parts.access.is_open:
        return {}
    counts = Counter(ask.topic for ask in asks)
    allowed = parts.access.allowed(context, _TOPIC)
    refused = Refused(_TOPIC.message or "", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return {name: refused for name, n in counts.items() if n == 1 and name not in allowed}


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
