"""UpdateMetadata (6), versions 0-8: the controller tells this broker what to tell its clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.net.context import RequestContext
from klamm.protocol.messages.update_metadata import Request, Response

if TYPE_CHECKING:
    from klamm.broker.server import Broker

BROKERS_ONLY: Final = True


async def handle(broker: Broker, context: RequestContext, request: Request) -> Response:
    return Response(error_code=await broker.replicas.learn(request))
