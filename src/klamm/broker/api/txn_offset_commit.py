"""TxnOffsetCommit (key 28), versions 0-4: a group's offsets inside a transaction.

Sent to the group's coordinator. The offsets are appended under the producer's id and count when its
transaction commits. The first ones of a transaction are verified like its first records (KIP-890).
"""

from __future__ import annotations

from typing import Final

from klamm.broker.coordinators.commits import commit
from klamm.broker.coordinators.transaction_openings import ask_coordinator, not_open, opening_in
from klamm.broker.coordinators.verification import TRY_AGAIN
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.replicas.partition import Partition
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import txn_offset_commit as messages
from klamm.security.authorization.apis import need_of

_TRANSACTION: Final = need_of(ApiKey.TXN_OFFSET_COMMIT, "transaction")
_GROUP: Final = need_of(ApiKey.TXN_OFFSET_COMMIT, "group")
_TOPIC: Final = need_of(ApiKey.TXN_OFFSET_COMMIT, "topic")

_KNOWS_ABORTABLE: Final = 4  # the version whose clients know TRANSACTION_ABORTABLE


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    async def refusal() -> ErrorCode | None:
        fault = await _unverified(parts, request, context.version)
        return fault or parts.groups.txn_commit_fault(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )

    denied = parts.access.refusal(context, _TRANSACTION, request.transactional_id)
    denied = denied or parts.access.refusal(context, _GROUP, request.group_id)
    if denied is not None:
        return failure(request, denied, None)
    errors = await commit(
        parts,
        parts.groups,
        request.group_id,
        request.topics,
        refusal,
        readable=parts.access.allowed(context, _TOPIC),
        producer=(request.producer_id, request.producer_epoch),
    )
    return messages.Response(
        topics=[
            messages.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    messages.TxnOffsetCommitResponsePartition(
                        partition_index=p.partition_index,
                        error_code=errors[TopicPartition(topic.name, p.partition_index)],
                    )
                    async for p in in_turns(topic.partitions)
                ],
            )
            async for topic in in_turns(request.topics)
        ]
    )


def failure(request: messages.Request, code: ErrorCode, _: str | None) -> messages.Response:
    """The same refusal for every partition."""
    return messages.Response(
        topics=[
            messages.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    messages.TxnOffsetCommitResponsePartition(p.partition_index, code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _unverified(parts: Parts, request: messages.Request, version: int) -> ErrorCode | None:
    """The reason why these offsets may not be part of the transaction; None if they may."""
    shard = parts.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        return shard
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if request.producer_id < 0:
        # Nobody has this id: its offsets would wait for a marker that never comes.
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not parts.settings.bool("transaction.partition.verification.enable"):
        return None
    at = shard.partition
    opening = opening_in(parts, at, request.producer_id, request.producer_epoch)
    if opening is None:
        return None
    await ask_coordinator(parts.coordinators.verifier, request.transactional_id, {at: opening})
    partition = parts.replicas.find_leader(at)
    if not isinstance(partition, Partition):
        return ErrorCode.NOT_COORDINATOR
    code = opening.outcome(partition)
    if code in TRY_AGAIN:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is ErrorCode.NONE:
        return None
    return not_open(code, knows_abortable=version >= _KNOWS_ABORTABLE)
