"""AlterConfigs (33), versions 0-2: replace all settings of topics and brokers.

Deprecated in favour of IncrementalAlterConfigs, because what a request does not name is lost; older
clients know nothing else.
"""

from __future__ import annotations

from klamm.broker.admin import configs
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.admission.alteration import Change
from klamm.model.errors import ErrorCode
from klamm.protocol.messages.alter_configs import (
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
        incremental=False,
        validate_only=request.validate_only,
    )
    return Response(responses=responses)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    answer = AlterConfigsResourceResponse
    return Response(responses=configs.refuse_all(request.resources, code, message, answer))


def _changes(resource: AlterConfigsResource) -> list[Change]:
    return [Change(config.name, config.value) for config in resource.configs]
