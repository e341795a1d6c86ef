"""ListOffsets (2), versions 0-9: from names or times to offsets.

Negative timestamps are names: -1 latest, -2 earliest, -3 the record with the largest timestamp,
-4 earliest on local disks, -5 latest in remote storage, of which there is none. A consumer's latest
is the high watermark, or the last stable offset when it reads committed records; a follower's is
the log's end. Followers are brokers: others that call themselves one are refused.

A time is looked up in batches, which may have to be opened: that is done by other threads, one
batch after the other, and a request with many partitions lets others in between.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Final

from klamm.broker.access.access import FOLLOWER
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.replicas.partition import Partition
from klamm.broker.replicas.refusals import epoch_fault
from klamm.broker.storage.openers import opened
from klamm.log.lookup import Search, TimedOffset, Unknown, look_into
from klamm.log.partition import PartitionLog, StorageTrouble
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
    Request,
    Response,
)
from klamm.protocol.record_scan import RecordPlace
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(ApiKey.LIST_OFFSETS, "topic")

_EARLY_MS: Final = 1_000  # for a partition that is about to be led here

_SINCE: Final = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if request.replica_id >= 0 and not parts.access.admits_broker(context, FOLLOWER):
        return failure(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    asked: Counter[tuple[str, int]] = Counter()
    async for topic in in_turns(request.topics):
        asked.update((topic.name, wanted.partition_index) for wanted in topic.partitions)
    response = Response()
    describable = parts.access.allowed(context, _TOPIC)
    async for topic in in_turns(request.topics):
        answers = []
        async for wanted in in_turns(topic.partitions):
            if topic.name not in describable:
                answers.append(_refused(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif asked[topic.name, wanted.partition_index] > 1:
                answers.append(_refused(wanted, ErrorCode.INVALID_REQUEST))
            else:
                found = await _find(parts, context, request, topic.name, wanted)
                answers.append(_listed(found, wanted) if context.version == 0 else found)
        response.topics.append(ListOffsetsTopicResponse(topic.name, answers))
    return response


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    return Response(
        topics=[
            ListOffsetsTopicResponse(topic.name, [_refused(w, code) for w in topic.partitions])
            for topic in request.topics
        ]
    )


def _refused(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(wanted.partition_index, code)


def _listed(
    found: ListOffsetsPartitionResponse, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    """The answer as version 0 has it: a list, from which clients take the first.

    Kafka fills it with the first offsets of segments, as many as were asked for; here it is the
    one offset that later versions answer with, which is the more exact one.
    """
    if found.error_code == ErrorCode.NONE and wanted.max_num_offsets > 0:
        found.old_style_offsets = [found.offset]
    return found


async def _find(
    parts: Parts,
    context: RequestContext,
    request: Request,
    topic: str,
    wanted: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    if wanted.timestamp < 0 and context.version < _SINCE.get(wanted.timestamp, 1 << 15):
        return _refused(wanted, ErrorCode.UNSUPPORTED_VERSION)
    place = TopicPartition(topic, wanted.partition_index)
    await parts.replicas.coming.arrival((place,), _EARLY_MS)
    partition = parts.replicas.find_leader(place)
    if isinstance(partition, ErrorCode):
        return _refused(wanted, partition)
    fault = epoch_fault(partition, wanted.current_leader_epoch)
    if fault is not ErrorCode.NONE or partition.log is None:
        return _refused(wanted, fault)
    try:
        return await _look_up(context, request, partition, partition.log, wanted)
    except StorageTrouble as trouble:
        parts.storage_trouble(trouble)
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    except FileNotFoundError:
        # The segment has left the log meanwhile, or the log its directory: the next try will do.
        return _refused(wanted, partition.not_leading())
    except OSError as error:
        parts.storage_trouble(partition.log.health.failed(error))
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)


async def _look_up(
    context: RequestContext,
    request: Request,
    partition: Partition,
    local: PartitionLog,
    wanted: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    index, timestamp = wanted.partition_index, wanted.timestamp
    if request.replica_id >= 0:
        bound = local.log_end_offset
    else:
        bound = local.last_stable_offset if request.isolation_level else local.high_watermark
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _at(local, index, local.log_start_offset)
    if timestamp == LATEST_TIERED:
        return ListOffsetsPartitionResponse(index)
    if request.replica_id < 0 and local.high_watermark < partition.epoch_start:
        # What this new leader knows to be committed may be less than consumers have seen already.
        late = context.version >= 5
        code = ErrorCode.OFFSET_NOT_AVAILABLE if late else ErrorCode.LEADER_NOT_AVAILABLE
        return _refused(wanted, code)
    if timestamp == LATEST:
        answer = _at(local, index, bound)
        answer.leader_epoch = partition.leader_epoch
        return answer
    search = (
        local.search_max_timestamp(bound)
        if timestamp == MAX_TIMESTAMP
        else local.search_timestamp(timestamp, bound)
    )
    found = await _carried_out(search, local.settings.expanded_size_max)
    if found is None and context.version == 0:
        return _at(local, index, bound)  # before a time that is yet to come is all there is
    if found is None:
        return ListOffsetsPartitionResponse(index)
    return _at(local, index, found.offset, found.timestamp)


async def _carried_out(search: Search, limit: int) -> TimedOffset | None:
    """The result of a search; workers open the batches it needs."""
    found: RecordPlace | Unknown | None = None
    try:
        wanted = next(search)
        while True:
            if wanted is None:
                await asyncio.sleep(0)
                found = None
            elif wanted.is_quick:
                found = look_into(wanted, limit)
            else:
                found = await opened(partial(look_into, wanted, limit))
            wanted = search.send(found)
    except StopIteration as stop:
        result: TimedOffset | None = stop.value
        return result


def _at(
    local: PartitionLog, index: int, offset: int, timestamp: int = -1
) -> ListOffsetsPartitionResponse:
    epoch = local.epochs.epoch_at(offset)
    return ListOffsetsPartitionResponse(index, ErrorCode.NONE, timestamp, offset, epoch)
