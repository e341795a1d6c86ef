"""DescribeCluster (60), versions 0-1: the brokers and the controller.

Left out: the endpoints of KRaft controllers, of which there are none.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.describe_cluster import DescribeClusterBroker, Request, Response
from klamm.security.authorization.acls import CLUSTER_NAME, ResourceType
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(ApiKey.DESCRIBE_CLUSTER, "cluster operations")

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return Response(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if known
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="there are no endpoints but those of brokers",
        )
    snapshot = parts.metadata.snapshot
    response = Response(
        cluster_id=parts.cluster_id,
        controller_id=snapshot.controller_id,
        brokers=[
            DescribeClusterBroker(known.id, endpoint.host, endpoint.port, known.rack)
            for known in snapshot.brokers.values()
            if (endpoint := known.endpoint(context.listener)) is not None
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = (
            parts.access.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
            if parts.access.permits(context, _CLUSTER)
            else 0
        )
    return response
