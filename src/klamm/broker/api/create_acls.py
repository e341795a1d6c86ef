"""CreateAcls (30), versions 0-3: refused, for this cluster has no authorizer."""

from __future__ import annotations

from klamm.broker.net.authorization import NO_AUTHORIZER
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.protocol.messages.create_acls import AclCreationResult, Request, Response


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    raise RequestRefused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    return Response(results=[AclCreationResult(code, message) for _ in request.creations])
