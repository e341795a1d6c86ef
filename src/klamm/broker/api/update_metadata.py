"""UpdateMetadata (6), versions 0-8: the controller tells this broker what to tell its clients."""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.protocol.messages.update_metadata import Request, Response

BROKERS_ONLY: Final = True


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    return Response(error_code=await parts.replicas.learn(request))
