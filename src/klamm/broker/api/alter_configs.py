"""AlterConfigs (33), versions 0-2: replace all settings of topics and brokers.

Deprecated in favour of IncrementalAlterConfigs, because what a request does not name is lost; older
clients know nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from klamm.broker import configs
from klamm.broker.context import RequestContext
from klamm.controller.alteration import Change
from klamm.model.errors import ErrorCode, Refused
from klamm.protocol.messages.alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    Request,
    Response,
)

if TYPE_CHECKING:
    from klamm.broker.server import Broker


async def handle(broker: Broker, context: RequestContext, request: Request) -> Response:
    counts = Counter((r.resource_type, r.resource_name) for r in request.resources)
    responses = []
    for resource in request.resources:
        if counts[resource.resource_type, resource.resource_name] > 1:
            outcome: Refused | None = Refused("the resource is in the request more than once")
        else:
            outcome = await configs.alter(
                broker,
                resource.resource_type,
                resource.resource_name,
                [Change(config.name, config.value) for config in resource.configs],
                incremental=False,
                validate_only=request.validate_only,
            )
        responses.append(_response(resource, outcome))
    return Response(responses=responses)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every resource."""
    refused = Refused(message or "", code)
    return Response(responses=[_response(resource, refused) for resource in request.resources])


def _response(
    resource: AlterConfigsResource, outcome: Refused | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if outcome is None else outcome.code,
        error_message=None if outcome is None else outcome.why or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
