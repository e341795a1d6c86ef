"""AllocateProducerIds (key 67): a block of a thousand producer ids for one broker."""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import ProducerIdsAsked
from klamm.model.names import BrokerId
from klamm.protocol.messages.allocate_producer_ids import Request, Response

BROKERS_ONLY: Final = True


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    answer = await parts.controller.submit(
        ProducerIdsAsked(BrokerId(request.broker_id), request.broker_epoch)
    )
    return Response(
        error_code=answer.code, producer_id_start=answer.first, producer_id_len=answer.count
    )
