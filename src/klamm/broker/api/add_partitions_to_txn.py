"""AddPartitionsToTxn (key 24), versions 0-5: a transaction is about to write to these partitions.

If one of them does not exist none is added: the others are told that they were not attempted.
Versions 4 and 5 carry several transactions at once and are taken from brokers only; `verify_only`
asks without adding. From version 5 on, a partition that is not part of the open transaction is
answered with TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from klamm.broker.coordinators.transaction_openings import not_open
from klamm.broker.metadata_cache import MetadataSnapshot
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import INTERNAL_TOPICS, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import add_partitions_to_txn as messages
from klamm.security.authorization.apis import need_of

_TRANSACTION: Final = need_of(ApiKey.ADD_PARTITIONS_TO_TXN, "transaction", 0)
_TOPIC: Final = need_of(ApiKey.ADD_PARTITIONS_TO_TXN, "topic", 0)
_CLUSTER: Final = need_of(ApiKey.ADD_PARTITIONS_TO_TXN, "cluster", 4)

_KNOWS_ABORTABLE: Final = 5  # the version whose brokers know TRANSACTION_ABORTABLE


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    version = context.version
    if version >= 4:
        if not parts.access.admits_broker(context, _CLUSTER):
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
                        knows_abortable=version >= _KNOWS_ABORTABLE,
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
        denied=_denied(parts, context, request),
        fenced=ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH,
    )
    return messages.Response(results_by_topic_v3_and_below=results)


# The code that a topic is refused with; None where it may be written to.
Denied = Callable[[str], ErrorCode | None]


def _denied(parts: Parts, context: RequestContext, request: messages.Request) -> Denied:
    """The denials of one transaction: of the whole of it, or of some of its topics."""
    code = parts.access.refusal(context, _TRANSACTION, request.v3_and_below_transactional_id)
    if code is not None:
        return lambda _: code
    allowed = parts.access.allowed(context, _TOPIC)
    return lambda topic: None if topic in allowed else _TOPIC.code


def _nobody(_: str) -> ErrorCode | None:
    return None


def _fault(
    snapshot: MetadataSnapshot, at: TopicPartition, denied: Denied, *, verify_only: bool
) -> ErrorCode | None:
    """The reason why a partition cannot be part of a transaction.

    Internal topics are not for clients to write to; brokers do, and ask whether they may.
    """
    if (code := denied(at.topic)) is not None:
        return code
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
    denied: Denied = _nobody,
    knows_abortable: bool = False,
    fenced: ErrorCode = ErrorCode.PRODUCER_FENCED,
) -> list[messages.AddPartitionsToTxnTopicResult]:
    wanted = [TopicPartition(t.name, p) async for t in in_turns(topics) for p in t.partitions]
    snapshot = parts.metadata.snapshot
    errors = {
        at: fault
        async for at in in_turns(wanted)
        if (fault := _fault(snapshot, at, denied, verify_only=verify_only)) is not None
    }
    if errors:
        errors = dict.fromkeys(wanted, ErrorCode.OPERATION_NOT_ATTEMPTED) | errors
    elif verify_only:
        verdicts = parts.transactions.verify(transactional_id, *producer, wanted)
        errors = {
            at: not_open(code, knows_abortable=knows_abortable) for at, code in verdicts.items()
        }
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
