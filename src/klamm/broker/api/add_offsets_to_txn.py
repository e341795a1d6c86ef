"""AddOffsetsToTxn (key 25), versions 0-4: a transaction is about to commit a group's offsets."""

from __future__ import annotations

from typing import Final

from klamm.broker.coordinators.journal import partition_for
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.model.names import CONSUMER_OFFSETS, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import add_offsets_to_txn as messages
from klamm.security.authorization.apis import need_of

_TRANSACTION: Final = need_of(ApiKey.ADD_OFFSETS_TO_TXN, "transaction")
_GROUP: Final = need_of(ApiKey.ADD_OFFSETS_TO_TXN, "group")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    parts.access.demand(context, _TRANSACTION, request.transactional_id)
    parts.access.demand(context, _GROUP, request.group_id)
    count = len(parts.metadata.snapshot.topics.get(CONSUMER_OFFSETS, ()))
    if count == 0:
        await parts.auto_creation.create_internal_topic(CONSUMER_OFFSETS)
        return messages.Response(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    at = TopicPartition(CONSUMER_OFFSETS, partition_for(request.group_id, count))
    error = await parts.transactions.add_partitions(
        request.transactional_id, request.producer_id, request.producer_epoch, [at]
    )
    if error is ErrorCode.PRODUCER_FENCED and context.version < 2:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return messages.Response(error_code=error)
