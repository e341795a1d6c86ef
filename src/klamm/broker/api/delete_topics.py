"""DeleteTopics (20), versions 0-6: mark topics for deletion, by name or (version 6) by id.

Only the controller answers, once its own metadata has lost the topics. That says that clients no
longer see them, not that their files are gone, unless klamm.delete.topic.wait.for.completion is on.
From version 5 on quotas are strict, and there is room for a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from klamm.broker.admin.topic_admin import Deleted
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.quotas.quotas import QuotaClient
from klamm.broker.term.requesters import DELETION, came_to_nothing
from klamm.controller.admission import Doomed
from klamm.model.errors import ErrorCode, Refused
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.delete_topics import DeletableTopicResult, Request, Response
from klamm.security.authorization.apis import need_of

_NAME: Final = need_of(ApiKey.DELETE_TOPICS, "name", 6)
_TOPIC: Final = need_of(ApiKey.DELETE_TOPICS, "topic", 6)

_STRICT_FROM: Final = 5


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if not parts.is_controller:
        return failure(request, ErrorCode.NOT_CONTROLLER, None)
    client = QuotaClient.of(context.principal, context.client_id)
    quota = parts.quotas.mutations(client, parts.settings, strict=context.version >= _STRICT_FROM)
    asks = _asks(request)
    fault = parts.admin.deletion_fault(asks, context.version)
    denials = [None if fault else _denial(parts, context, ask) for ask in asks]
    wanted = [ask for ask, denial in zip(asks, denials, strict=True) if denial is None]
    names = [parts.admin.named(ask) or "" for ask in wanted]
    requesters = parts.controller.requesters
    requesters.note(DELETION, names, context.asked_by)
    done = await parts.admin.delete_topics(
        wanted,
        quota,
        version=context.version,
        timeout_ms=request.timeout_ms,
    )
    by_name = zip(names, done, strict=True)
    requesters.drop(DELETION, (name for name, outcome in by_name if came_to_nothing(outcome)))
    rest = iter(done)
    outcomes = [denial or next(rest) for denial in denials]
    pairs = zip(asks, outcomes, strict=True)
    results = [_result(ask, outcome) async for ask, outcome in in_turns(pairs)]
    return Response(throttle_time_ms=quota.throttle_ms, responses=results)


@dataclass(frozen=True, slots=True)
class _Denied:
    """A topic that the caller may not delete, under the name that it may know."""

    name: str | None


def _denial(parts: Parts, context: RequestContext, ask: Doomed) -> _Denied | None:
    """The denial of one entry. An id that nobody knows is no secret, and is told as such."""
    name = parts.admin.named(ask)
    if name is None:
        return None
    if ask.name is None and not parts.access.permits(context, _NAME, name):
        return _Denied(None)
    return None if parts.access.permits(context, _TOPIC, name) else _Denied(name)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every entry."""
    refused = Refused(message or "", code)
    return Response(responses=[_result(ask, refused) for ask in _asks(request)])


def _asks(request: Request) -> list[Doomed]:
    named = [Doomed(name) for name in request.topic_names]
    return named + [Doomed(topic.name, topic.topic_id) for topic in request.topics]


def _result(ask: Doomed, outcome: Deleted | Refused | _Denied) -> DeletableTopicResult:
    if isinstance(outcome, _Denied):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return DeletableTopicResult(outcome.name, ask.topic_id, code)
    if isinstance(outcome, Deleted):
        return DeletableTopicResult(outcome.topic, outcome.topic_id)
    return DeletableTopicResult(ask.name, ask.topic_id, outcome.code, outcome.why or None)
