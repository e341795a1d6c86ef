"""DeleteRecords (21), versions 0-2: raise the start of a log, on all replicas.

The answer waits until every live replica has done so, for only then can the records not come back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from klamm.broker.context import RequestContext
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition, is_internal
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
    Request,
    Response,
)

if TYPE_CHECKING:
    from klamm.broker.server import Broker

_ALL_COMMITTED: Final = -1
_NO_WATERMARK: Final = -1


async def handle(broker: Broker, context: RequestContext, request: Request) -> Response:
    work = [
        (
            topic.name,
            asyncio.gather(
                *(
                    _delete(broker, topic.name, wanted, request.timeout_ms)
                    for wanted in topic.partitions
                )
            ),
        )
        for topic in request.topics
    ]
    return Response(
        topics=[DeleteRecordsTopicResult(name, list(await results)) for name, results in work]
    )


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    return Response(
        topics=[
            DeleteRecordsTopicResult(topic.name, [_refused(w, code) for w in topic.partitions])
            for topic in request.topics
        ]
    )


def _refused(wanted: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(wanted.partition_index, _NO_WATERMARK, code)


async def _delete(
    broker: Broker, topic: str, wanted: DeleteRecordsPartition, timeout_ms: int
) -> DeleteRecordsPartitionResult:
    if is_internal(topic):
        return _refused(wanted, ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = broker.replicas.find_leader(TopicPartition(topic, wanted.partition_index))
    if isinstance(partition, ErrorCode):
        return _refused(wanted, partition)
    local = partition.log
    if local is None:
        return _refused(wanted, partition.not_leading())
    if not local.settings.delete:
        return _refused(wanted, ErrorCode.POLICY_VIOLATION)
    offset = local.high_watermark if wanted.offset == _ALL_COMMITTED else wanted.offset
    if not 0 <= offset <= local.high_watermark:
        return _refused(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
    partition.raise_log_start(offset)
    code = ErrorCode.NONE
    try:
        async with asyncio.timeout(max(timeout_ms, 0) / 1000):
            await partition.low_watermark_reaches(offset)
    except TimeoutError:
        code = ErrorCode.REQUEST_TIMED_OUT
    if not partition.is_leader:
        return _refused(wanted, partition.not_leading())
    return DeleteRecordsPartitionResult(wanted.partition_index, partition.low_watermark(), code)
