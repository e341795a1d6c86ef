"""DescribeConfigs (32), versions 0-4: the settings of topics and brokers, and where they come from.

Any broker answers for topics; a broker answers only for itself, and under an empty name for what is
set for all brokers. Left out: client metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from klamm.broker.admin import configs
from klamm.broker.admin.entries import SettingEntry
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, Refused
from klamm.model.settings import Source
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_BROKER: Final = need_of(ApiKey.DESCRIBE_CONFIGS, "broker")
_TOPIC: Final = need_of(ApiKey.DESCRIBE_CONFIGS, "topic")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    return Response(
        results=[
            await _describe(parts, context, resource, request)
            async for resource in in_turns(await _each_once(request.resources))
        ]
    )


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every resource."""
    refused = Refused(message or "", code)
    return Response(results=[_refused(resource, refused) for resource in request.resources])


async def _each_once(
    resources: Sequence[DescribeConfigsResource],
) -> Collection[DescribeConfigsResource]:
    """One that is asked for twice is told once: its settings are many times what was asked."""
    return {
        (r.resource_type, r.resource_name, tuple(r.configuration_keys or ())): r
        async for r in in_turns(resources)
    }.values()


async def _describe(
    parts: Parts, context: RequestContext, resource: DescribeConfigsResource, request: Request
) -> DescribeConfigsResult:
    denied = configs.denied(parts.access, context, resource, _BROKER, _TOPIC)
    if denied is not None:
        return _refused(resource, denied)
    entries = await configs.describe(
        parts, resource.resource_type, resource.resource_name, resource.configuration_keys
    )
    if isinstance(entries, Refused):
        return _refused(resource, entries)
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(entry, request) for entry in entries],
    )


def _refused(resource: DescribeConfigsResource, refused: Refused) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=refused.code,
        error_message=refused.why or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _entry(entry: SettingEntry, request: Request) -> DescribeConfigsResourceResult:
    definition = entry.definition
    return DescribeConfigsResourceResult(
        name=definition.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.source is Source.DEFAULT,
        config_source=entry.source,
        is_sensitive=definition.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(origin.name, origin.text, origin.source)
            for origin in entry.origins
            if request.include_synonyms
        ],
        config_type=definition.kind,
        documentation=definition.doc if request.include_documentation else None,
    )
