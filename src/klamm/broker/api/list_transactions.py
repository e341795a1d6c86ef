"""ListTransactions (key 66), versions 0-1: the transactional ids this broker keeps.

State filters that name no state are returned as unknown. Version 1 can ask for those that have been
running longer than a while.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.groups.transactions import Transaction, TxnState
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import list_transactions as messages
from klamm.security.authorization.apis import need_of

_TRANSACTION: Final = need_of(ApiKey.LIST_TRANSACTIONS, "transaction")

_STATES = {state.text for state in TxnState}


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    if parts.transactions.is_loading:
        return messages.Response(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    now_ms = parts.clock.now_ms()
    shown = parts.access.allowed(context, _TRANSACTION)
    return messages.Response(
        unknown_state_filters=[name for name in request.state_filters if name not in _STATES],
        transaction_states=[
            messages.TransactionState(
                transactional_id=txn.id,
                producer_id=txn.producer_id,
                transaction_state=txn.state.text,
            )
            for txn in parts.transactions.transactions()
            if _is_wanted(txn, request, now_ms) and txn.id in shown
        ],
    )


def _is_wanted(txn: Transaction, request: messages.Request, now_ms: int) -> bool:
    if request.state_filters and txn.state.text not in request.state_filters:
        return False
    if request.producer_id_filters and txn.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter < 0:
        return True
    return txn.started_ms >= 0 and now_ms - txn.started_ms > request.duration_filter
