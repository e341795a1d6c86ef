"""AddPartitionsToTxn (key 24), versions 0-5: a transaction is about to write to these partitions.

If one of them does not exist none is added: the others are told that they were not attempted.
Versions 4 and 5 carry several transactions at once and are taken from brokers only; `verify_only`
asks without adding.
"""

from __future__ import annotations

from collections.abc import Sequence

from klamm.broker.metadata_cache import Snapshot
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import INTERNAL_TOPICS, TopicPartition
from klamm.protocol.messages import add_partitions_to_txn as messages


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    version = context.version
    if version >= 4:
        if not context.peer.is_broker:
            raise RequestRefused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return messages.Response(
            results_by_transaction=[
                messages.AddPartitionsToTxnResult(
                    transactional_id=txn.transactional_id,
                    topic_results=await _add(
                        parts,
                        txn.transactional_id,
                        (txn.producer_id, txn.producer_epoch),
                        txn.topics,
                        verify_only=txn.verify_only,
                    ),
                )
                for txn in request.transactions
            ]
        )
    results = await _add(
        parts,
        request.v3_and_below_transactional_id,
        (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        request.v3_and_below_topics,
        fenced=ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH,
    )
    return messages.Response(results_by_topic_v3_and_below=results)


def _fault(snapshot: Snapshot, at: TopicPartition, *, verify_only: bool) -> ErrorCode | None:
    """The reason why a partition cannot be part of a transaction.

    Internal topics are not for clients to write to; brokers do, and ask whether they may.
    """
    if at.topic in INTERNAL_TOPICS and not verify_only:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if snapshot.partition(at) is None else None


async def _add(
    parts: Parts,
    transactional_id: str,
    producer: tuple[int, int],
    topics: Sequence[messages.AddPartitionsToTxnTopic],
    *,
    verify_only: bool = False,
    fenced: ErrorCode = ErrorCode.PRODUCER_FENCED,
) -> list[messages.AddPartitionsToTxnTopicResult]:
    wanted = [TopicPartition(t.name, p) async for t in in_turns(topics) for p in t.partitions]
    snapshot = parts.metadata.snapshot
    errors = {
        at: fault
        async for at in in_turns(wanted)
        if (fault := _fault(snapshot, at, verify_only=verify_only)) is not None
    }
    if errors:
        errors = dict.fromkeys(wanted, ErrorCode.OPERATION_NOT_ATTEMPTED) | errors
    elif verify_only:
        errors = parts.transactions.verify(transactional_id, *producer, wanted)
    else:
        error = await parts.transactions.add_partitions(transactional_id, *producer, wanted)
        if error is ErrorCode.PRODUCER_FENCED:
            error = fenced
        errors = dict.fromkeys(wanted, error)
    return [
        messages.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                messages.AddPartitionsToTxnPartitionResult(
                    partition_index=number,
                    partition_error_code=errors[TopicPartition(topic.name, number)],
                )
                async for number in in_turns(topic.partitions)
            ],
        )
        async for topic in in_turns(topics)
    ]
