"""DescribeClientQuotas (48), versions 0-1: the quotas of users, client ids and addresses."""

from __future__ import annotations

from typing import Final

from klamm.broker.admin.client_quotas import Component, entity_of, filter_fault, matches
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.describe_client_quotas import (
    EntityData,
    EntryData,
    Request,
    Response,
    ValueData,
)
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(ApiKey.DESCRIBE_CLIENT_QUOTAS, "cluster")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    denied = parts.access.refusal(context, _CLUSTER)
    if denied is not None:
        return Response(error_code=denied, entries=None)
    components = [Component(c.entity_type, c.match_type, c.match) for c in request.components]
    fault = filter_fault(components)
    if fault is not None:
        return Response(error_code=fault.code, error_message=fault.why, entries=None)
    limits = await parts.dynamic_config.stored_quotas()
    found = ((entity_of(stored), values) for stored, values in limits.items())
    return Response(
        entries=[
            EntryData(
                entity=[EntityData(entity_type, name) for entity_type, name in entity.items()],
                values=[ValueData(key, value) for key, value in values.items()],
            )
            for entity, values in found
            if matches(components, request.strict, entity)
        ]
    )
