"""IncrementalAlterConfigs (44), versions 0-1: change single settings of topics and brokers.

Operations: set, delete (back to the default), append to a list, subtract from a list. Any broker
takes changes of topics and of all brokers; those of one broker go to that broker.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.admin import configs
from klamm.broker.admin.noting import note_settings
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.admission.alteration import Change
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_BROKER: Final = need_of(ApiKey.INCREMENTAL_ALTER_CONFIGS, "broker")
_TOPIC: Final = need_of(ApiKey.INCREMENTAL_ALTER_CONFIGS, "topic")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    responses = await configs.alter_all(
        parts,
        request.resources,
        _changes,
        AlterConfigsResourceResponse,
        denied=lambda each: configs.denied(parts.access, context, each, _BROKER, _TOPIC),
        incremental=True,
        validate_only=request.validate_only,
        note=lambda topics, come: note_settings(parts, topics, context.asked_by if come else ""),
    )
    return Response(responses=responses)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    answer = AlterConfigsResourceResponse
    return Response(responses=configs.refuse_all(request.resources, code, message, answer))


def _changes(resource: AlterConfigsResource) -> list[Change]:
    return [Change(c.name, c.value, c.config_operation) for c in resource.configs]
