"""Appends to partitions, what became of them, and how that is told to the producer."""

from __future__ import annotations

import logging

from klamm.broker.net.context import RequestContext
from klamm.broker.net.replies import Reply
from klamm.broker.quotas.charging import charge, charge_time
from klamm.broker.quotas.quotas import PRODUCER_BYTE_RATE
from klamm.broker.replicas.hosting import Hosting
from klamm.broker.replicas.leaders import current_leader, endpoints_of
from klamm.broker.replicas.partition import Partition
from klamm.log.partition import StorageTrouble
from klamm.log.writing.append import Appended, AppendRefused, Later
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.frames import encode_response_frame
from klamm.protocol.produce import (
    PartitionResult,
    ProduceResponse,
    TopicResult,
    encode_response,
)

log = logging.getLogger(__name__)


def append(
    hosting: Hosting, partition: Partition, version: int, records: memoryview | None, acks: int
) -> Appended | AppendRefused | ErrorCode | Later:
    """Put what a client sent into a log; what became of it."""
    if records is None:
        return AppendRefused(ErrorCode.INVALID_RECORD, "there are no records")
    try:
        outcome = partition.append(records, acks=acks, version=version)
    except StorageTrouble as trouble:
        hosting.storage_trouble(trouble)
        return ErrorCode.KAFKA_STORAGE_ERROR
    except Exception:
        log.exception("an append failed", extra={"partition": str(partition.topic_partition)})
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if isinstance(outcome, Appended):
        count(hosting, outcome, len(records))
    return outcome


def count(hosting: Hosting, appended: Appended, size: int) -> None:
    """Count what came in; a batch that was sent again is none."""
    base_offset, last_offset, _, _, is_duplicate = appended
    if not is_duplicate:
        metrics = hosting.metrics
        metrics.bytes_in += size
        metrics.messages_in += last_offset - base_offset + 1


def as_result(
    hosting: Hosting, partition: Partition, outcome: Appended | AppendRefused | ErrorCode
) -> PartitionResult:
    """The same as it is told to the client."""
    topic, index = partition.topic_partition
    if isinstance(outcome, Appended):
        base_offset, _, log_start, append_time_ms, _ = outcome
        return PartitionResult(index, 0, base_offset, append_time_ms, log_start)
    if isinstance(outcome, AppendRefused):
        return PartitionResult(
            index,
            outcome.code,
            record_errors=outcome.record_errors,
            error_message=outcome.message,
        )
    return not_here(hosting, topic, index, outcome)


def not_here(hosting: Hosting, topic: str, index: int, code: ErrorCode) -> PartitionResult:
    """The result for a partition that takes nothing here, and who might take it."""
    leader = None
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader = current_leader(hosting, TopicPartition(topic, index))
    return PartitionResult(index, code, current_leader=leader)


def reply_of(
    hosting: Hosting, context: RequestContext, acks: int, topics: list[TopicResult], size: int
) -> Reply:
    """The reply that tells these results, with what the client's quotas make of it."""
    quotas = hosting.quotas
    wait_ms = charge(hosting, context, PRODUCER_BYTE_RATE, size) if quotas.is_active else 0
    failed = [result for topic in topics for result in topic[1] if result[1]]
    if acks == 0:
        return Reply(mute_ms=wait_ms, then_close=bool(failed))
    if quotas.is_timing:
        wait_ms = max(wait_ms, charge_time(hosting, context))
    response = ProduceResponse(topics, wait_ms)
    if failed:
        leaders = [result.current_leader for result in failed if result.current_leader is not None]
        response.node_endpoints = endpoints_of(hosting, context.listener, leaders)
    header = context.header
    frame = encode_response_frame(header, encode_response(header[1], response))
    return Reply((frame,), wait_ms)
