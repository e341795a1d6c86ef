"""CreateTopics (19), versions 0-7: new topics, by counts or with an assignment of their own.

Only the controller answers, once its own metadata shows a leader for every partition. From version
5 on it tells what was created, from version 6 on quotas are strict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Final

from klamm.broker.admin import configs
from klamm.broker.admin.topic_admin import Created
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.quotas.quotas import QuotaClient
from klamm.broker.term.requesters import CREATION, came_to_nothing
from klamm.controller.admission import NewTopic
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import BrokerId
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(ApiKey.CREATE_TOPICS, "topic")
_CONFIGS: Final = need_of(ApiKey.CREATE_TOPICS, "configs", 5)

_CONFIGS_FROM: Final = 5
_STRICT_FROM: Final = 6
# The settings of a topic are a hundred times as long as what creates it: an answer about more
# topics than this leaves them out, which it can say, and who wants them asks for them.
_CONFIGS_MAX: Final = 5_000


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if not parts.is_controller:
        return failure(request, ErrorCode.NOT_CONTROLLER, None)
    client = QuotaClient.of(context.principal, context.client_id)
    quota = parts.quotas.mutations(client, parts.settings, strict=context.version >= _STRICT_FROM)
    asks = [_ask(topic) async for topic in in_turns(request.topics)]
    denied = _denied(parts, context, asks)
    wanted = [ask for ask in asks if ask.name not in denied]
    requesters = parts.controller.requesters
    if not request.validate_only:
        names = [ask.name for ask in wanted]
        requesters.note(CREATION, names, context.asked_by, more=not context.peer.has_proven)
    done = await parts.admin.create_topics(
        wanted,
        quota,
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
        # A broker that passes on a client's wish for an unknown topic must not keep it waiting.
        is_patient=not context.peer.has_proven,
    )
    pairs = zip(wanted, done, strict=True)
    requesters.drop(CREATION, (ask.name for ask, outcome in pairs if came_to_nothing(outcome)))
    rest = iter(done)
    outcomes = [denied.get(ask.name) or next(rest) for ask in asks]
    tells_configs = context.version >= _CONFIGS_FROM and len(outcomes) <= _CONFIGS_MAX
    configs_shown = parts.access.allowed(context, _CONFIGS)
    results = [
        _result(parts, topic.name, outcome, configs_shown, tells_configs=tells_configs)
        async for topic, outcome in in_turns(zip(request.topics, outcomes, strict=True))
    ]
    return Response(throttle_time_ms=quota.throttle_ms, topics=results)


def _denied(parts: Parts, context: RequestContext, asks: Sequence[NewTopic]) -> dict[str, Refused]:
    """The topics that the caller may not create; one that is named twice is a fault before that."""
    if parts.access.is_open:
        return {}
    counts = Counter(ask.name for ask in asks)
    allowed = parts.access.allowed(context, _TOPIC)
    refused = Refused(_TOPIC.message or "", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return {name: refused for name, n in counts.items() if n == 1 and name not in allowed}


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every topic."""
    return Response(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )


def _ask(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        factor=topic.replication_factor,
        assignment=tuple(
            (each.partition_index, tuple(map(BrokerId, each.broker_ids)))
            for each in topic.assignments
        ),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )


def _result(
    parts: Parts,
    name: str,
    outcome: Created | Refused,
    configs_shown: Container[str],
    *,
    tells_configs: bool,
) -> CreatableTopicResult:
    if isinstance(outcome, Refused):
        return CreatableTopicResult(
            name=name, error_code=outcome.code, error_message=outcome.why or None
        )
    creation = outcome.creation
    if tells_configs and name not in configs_shown:
        return CreatableTopicResult(
            name=name,
            topic_id=outcome.topic_id,
            num_partitions=-1,
            replication_factor=-1,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    result = CreatableTopicResult(
        name=name,
        topic_id=outcome.topic_id,
        num_partitions=len(creation.placement),
        replication_factor=creation.factor,
    )
    if tells_configs:
        result.configs = _configs(parts, creation.configs)
    else:
        result.configs = None
        result.topic_config_error_code = ErrorCode.INVALID_REQUEST
    return result


def _configs(parts: Parts, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.definition.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.definition.is_sensitive,
        )
        for entry in configs.topic_entries(parts.settings, overrides)
    ]
