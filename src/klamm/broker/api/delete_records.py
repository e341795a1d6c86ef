"""DeleteRecords (21), versions 0-2: raise the start of a log, on all replicas.

The answer waits until every live replica has done so, for only then can the records not come back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Container
from typing import Final, NamedTuple

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.replicas.partition import Partition
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition, is_internal
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(ApiKey.DELETE_RECORDS, "topic")

_ALL_COMMITTED: Final = -1
_NO_WATERMARK: Final = -1


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    deletable = parts.access.allowed(context, _TOPIC)
    begun = [
        (
            topic.name,
            [
                _begin(parts, topic.name, each, deletable)
                async for each in in_turns(topic.partitions)
            ],
        )
        async for topic in in_turns(request.topics)
    ]
    open_ = [each for _, partitions in begun for each in partitions if isinstance(each, _Begun)]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(request.timeout_ms, 0) / 1000):
            async for each in in_turns(open_):
                await each.partition.low_watermark_reaches(each.offset)
    return Response(
        topics=[
            DeleteRecordsTopicResult(name, [_ended(each) async for each in in_turns(partitions)])
            async for name, partitions in in_turns(begun)
        ]
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


class _Begun(NamedTuple):
    """Records are gone for readers; that all replicas know of it was not seen yet."""

    wanted: DeleteRecordsPartition
    partition: Partition
    offset: int


def _begin(
    parts: Parts, topic: str, wanted: DeleteRecordsPartition, deletable: Container[str]
) -> _Begun | DeleteRecordsPartitionResult:
    if topic not in deletable:
        return _refused(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if is_internal(topic):
        return _refused(wanted, ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = parts.replicas.find_leader(TopicPartition(topic, wanted.partition_index))
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
    return _Begun(wanted, partition, offset)


def _ended(begun: _Begun | DeleteRecordsPartitionResult) -> DeleteRecordsPartitionResult:
    if not isinstance(begun, _Begun):
        return begun
    wanted, partition, offset = begun
    if not partition.is_leader:
        return _refused(wanted, partition.not_leading())
    reached = partition.low_watermark()
    code = ErrorCode.NONE if reached >= offset else ErrorCode.REQUEST_TIMED_OUT
    return DeleteRecordsPartitionResult(wanted.partition_index, reached, code)
