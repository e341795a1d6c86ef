"""DescribeAcls (29), versions 1-3: refused, for this cluster has no authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.net.authorization import NO_AUTHORIZER
from klamm.broker.net.context import RequestContext
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.protocol.messages.describe_acls import Request, Response

if TYPE_CHECKING:
    from klamm.broker.server import Broker


async def handle(broker: Broker, context: RequestContext, request: Request) -> Response:
    raise RequestRefused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
