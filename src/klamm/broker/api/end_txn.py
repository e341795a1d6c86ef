"""EndTxn (key 26), versions 0-4: commit or abort. Answered when the decision is durable."""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import end_txn as messages
from klamm.security.authorization.apis import need_of

_TRANSACTION: Final = need_of(ApiKey.END_TXN, "transaction")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    parts.access.demand(context, _TRANSACTION, request.transactional_id)
    error = await parts.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commit=request.committed,
    )
    if error is ErrorCode.PRODUCER_FENCED and context.version < 2:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return messages.Response(error_code=error)
