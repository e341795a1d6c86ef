"""DescribeTransactions (key 65), version 0: transactional ids kept by this broker."""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.groups.transactions import TxnState
from klamm.model.errors import ErrorCode
from klamm.protocol.messages import describe_transactions as messages


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    # One that is asked for twice is told once: its partitions may be many times what was asked.
    asked = dict.fromkeys(request.transactional_ids)
    return messages.Response(
        transaction_states=[_describe(parts, name) async for name in in_turns(asked)]
    )


def _describe(parts: Parts, name: str) -> messages.TransactionState:
    if not name:
        nameless = ErrorCode.INVALID_REQUEST
        return messages.TransactionState(transactional_id=name, error_code=nameless)
    shard = parts.transactions.shard(name)
    if isinstance(shard, ErrorCode):
        return messages.TransactionState(transactional_id=name, error_code=shard)
    kept = shard.ids.get(name)
    if kept is None:
        missing = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return messages.TransactionState(transactional_id=name, error_code=missing)
    txn = kept.current
    topics: dict[str, list[int]] = {}
    for at in sorted(txn.partitions):
        topics.setdefault(at.topic, []).append(at.partition)
    return messages.TransactionState(
        transactional_id=name,
        transaction_state=txn.state.text,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_start_time_ms=txn.started_ms if txn.state is TxnState.ONGOING else -1,
        producer_id=txn.producer_id,
        producer_epoch=txn.epoch,
        topics=[messages.TopicData(topic=t, partitions=p) for t, p in topics.items()],
    )
