"""DescribeTransactions (key 65), version 0: transactional ids kept by this broker."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.groups.transactions import TxnState
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import describe_transactions as messages
from klamm.security.authorization.apis import need_of

_TRANSACTION: Final = need_of(ApiKey.DESCRIBE_TRANSACTIONS, "transaction")
_TOPIC: Final = need_of(ApiKey.DESCRIBE_TRANSACTIONS, "topic")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    # One that is asked for twice is told once: its partitions may be many times what was asked.
    asked = dict.fromkeys(request.transactional_ids)
    describable = parts.access.allowed(context, _TOPIC)
    return messages.Response(
        transaction_states=[
            _described(parts, context, name, describable) async for name in in_turns(asked)
        ]
    )


def _described(
    parts: Parts, context: RequestContext, name: str, describable: Container[str]
) -> messages.TransactionState:
    denied = parts.access.refusal(context, _TRANSACTION, name)
    if denied is not None:
        return messages.TransactionState(transactional_id=name, error_code=denied)
    told = _describe(parts, name)
    told.topics = [topic for topic in told.topics if topic.topic in describable]
    return told


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


def failure(request: messages.Request, code: ErrorCode, _: str | None) -> messages.Response:
    return messages.Response(
        transaction_states=[
            messages.TransactionState(transactional_id=name, error_code=code)
            for name in request.transactional_ids
        ]
    )
