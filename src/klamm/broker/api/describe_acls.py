"""DescribeAcls (29), versions 0-3: refused, for this cluster has no authorizer."""

from __future__ import annotations

from klamm.broker.net.authorization import NO_AUTHORIZER
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.protocol.messages.describe_acls import Request, Response


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    raise RequestRefused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
