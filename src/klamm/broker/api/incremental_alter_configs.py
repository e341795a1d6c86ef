"""IncrementalAlterConfigs (44), versions 0-1: change single settings of topics and brokers.

Operations: set, delete (back to the default), append to a list, subtract from a list. Any broker
takes changes of topics and of all brokers; those of one broker go to that broker.
"""

from __future__ import annotations

from klamm.broker.admin import configs
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.admission.alteration import Change
from klamm.model.errors import ErrorCode
from klamm.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    Request,
    Response,
)


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    responses = await configs.alter_all(
        parts,
        request.resources,
        _changes,
        AlterConfigsResourceResponse,
        incremental=True,
        validate_only=request.validate_only,
    )
    return Response(responses=responses)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    answer = AlterConfigsResourceResponse
    return Response(responses=configs.refuse_all(request.resources, code, message, answer))


def _changes(resource: AlterConfigsResource) -> list[Change]:
    return [Change(c.name, c.value, c.config_operation) for c in resource.configs]
