"""DeleteTopics (20), versions 0-6: mark topics for deletion, by name or (version 6) by id.

Only the controller answers, once its own metadata has lost the topics. That says that clients no
longer see them, not that their files are gone, unless klamm.delete.topic.wait.for.completion is on.
From version 5 on quotas are strict, and there is room for a message.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.admin.topic_admin import Deleted
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.quotas.quotas import Client
from klamm.controller.admission import Doomed
from klamm.model.errors import ErrorCode, Refused
from klamm.protocol.messages.delete_topics import DeletableTopicResult, Request, Response

_STRICT_FROM: Final = 5


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if not parts.is_controller:
        return failure(request, ErrorCode.NOT_CONTROLLER, None)
    client = Client.of(context.principal, context.client_id)
    quota = parts.quotas.mutations(client, parts.settings, strict=context.version >= _STRICT_FROM)
    asks = _asks(request)
    outcomes = await parts.admin.delete_topics(
        asks, quota, version=context.version, timeout_ms=request.timeout_ms
    )
    pairs = zip(asks, outcomes, strict=True)
    results = [_result(ask, outcome) async for ask, outcome in in_turns(pairs)]
    return Response(throttle_time_ms=quota.throttle_ms, responses=results)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every entry."""
    refused = Refused(message or "", code)
    return Response(responses=[_result(ask, refused) for ask in _asks(request)])


def _asks(request: Request) -> list[Doomed]:
    named = [Doomed(name) for name in request.topic_names]
    return named + [Doomed(topic.name, topic.topic_id) for topic in request.topics]


def _result(ask: Doomed, outcome: Deleted | Refused) -> DeletableTopicResult:
    if isinstance(outcome, Deleted):
        return DeletableTopicResult(outcome.topic, outcome.topic_id)
    return DeletableTopicResult(ask.name, ask.topic_id, outcome.code, outcome.why or None)
