"""InitProducerId (22), versions 0-5: an identity for an idempotent or a transactional producer.

Without a transactional id every request gets a new id; an old one that a client sends along to have
its epoch raised (KIP-360) is answered with a new id as well, which serves it as well.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.init_producer_id import Request, Response
from klamm.security.authorization.apis import need_of

_TRANSACTION: Final = need_of(ApiKey.INIT_PRODUCER_ID, "transaction")
_IDEMPOTENT: Final = need_of(ApiKey.INIT_PRODUCER_ID, "idempotent")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    denied = _denied(parts, context, request)
    if denied is not None:
        return Response(error_code=denied, producer_id=-1, producer_epoch=-1)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        # An id without its epoch, or the other way round, names no producer.
        return Response(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    if request.transactional_id is None:
        taken = await parts.producer_ids.take()
        if isinstance(taken, ErrorCode):
            return Response(error_code=taken, producer_epoch=-1)
        return Response(producer_id=taken, producer_epoch=0)
    granted = await parts.transactions.initialise(
        request.transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
    )
    error = granted.error
    if error is ErrorCode.PRODUCER_FENCED and context.version < 4:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return Response(error_code=error, producer_id=granted.producer_id, producer_epoch=granted.epoch)


def _denied(parts: Parts, context: RequestContext, request: Request) -> ErrorCode | None:
    if request.transactional_id is None:
        return parts.access.refusal(context, _IDEMPOTENT)
    return parts.access.refusal(context, _TRANSACTION, request.transactional_id)
