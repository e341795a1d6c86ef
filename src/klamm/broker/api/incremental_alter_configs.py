"""IncrementalAlterConfigs (44), versions 0-1: change single settings of topics and brokers.

Operations: set, delete (back to the default), append to a list, subtract from a list. Any broker
takes changes of topics and of all brokers; those of one broker go to that broker.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from klamm.broker import configs
from klamm.broker.context import RequestContext
from klamm.controller.alteration import Change
from klamm.model.errors import ErrorCode, Refused
from klamm.protocol.messages.incremental_alter_configs import (
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
                [Change(c.name, c.value, c.config_operation) for c in resource.configs],
                incremental=True,
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
