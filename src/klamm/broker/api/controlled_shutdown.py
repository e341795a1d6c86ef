"""ControlledShutdown (key 7): a broker asks the controller to be relieved before it goes.

A broker that is not the controller answers STALE_CONTROLLER_EPOCH, Kafka's word for it here.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import ShutdownAsked
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import BrokerId
from klamm.protocol.messages.controlled_shutdown import RemainingPartition, Request, Response

BROKERS_ONLY: Final = True


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    ask = ShutdownAsked(BrokerId(request.broker_id), request.broker_epoch)
    try:
        answer = await parts.controller.submit(ask)
    except RequestRefused:
        return Response(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    return Response(answer.code, [RemainingPartition(*id) for id in answer.remaining])
