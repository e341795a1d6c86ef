"""ImportRecords (private, key 1012): batches with their offsets, for a topic that is imported.

The body is the length of a JSON object in four bytes, the object, and record batches as they lie in
a log. The object is `{"topic": name, "topic_id": id, "partition": index, "log_start": offset,
"timeout_ms": n}`. The leader looks through all records, as it does with those of producers, appends
the batches that it does not have, and answers `{"log_start": offset, "log_end": offset,
"leader_epoch": n}` when every replica in sync has them. Without batches it only tells that. Bounded
as Produce is.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.net.peer import Answer
from klamm.broker.net.replies import Reply
from klamm.broker.parts import Parts
from klamm.broker.replicas.acknowledged import acknowledged
from klamm.broker.replicas.importing import import_batches
from klamm.broker.replicas.partition import Partition
from klamm.broker.storage.openers import opened
from klamm.log.partition import StorageTrouble
from klamm.log.writing.append import AppendRefused
from klamm.log.writing.importing import records_fault
from klamm.model.errors import ErrorCode, ProtocolError, RequestRefused
from klamm.model.names import TopicPartition, id_from_text, is_internal
from klamm.protocol import private
from klamm.protocol.frames import encode_response_frame
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(PrivateKey.IMPORT_RECORDS, "cluster")

_SIZE: Final = struct.Struct(">I")
_HEAD_BYTES_MAX: Final = 4096
_ITEMS_MAX: Final = 16
_TIMEOUT_MS: Final = 30_000


def serve(parts: Parts, context: RequestContext, body: memoryview) -> Answer:
    request, batches = _parsed(body)
    try:
        timeout_ms = min(max(asked.number(request, "timeout_ms", _TIMEOUT_MS), 0), _TIMEOUT_MS)
        partition = _led(parts, context, request)
    except RequestRefused as refusal:
        return _refused(context, refusal)
    # The connection's buffer is not ours for as long as a look takes.
    kept = memoryview(bytes(batches))
    return _imported(parts, context, partition, request, kept, timeout_ms)


async def _imported(
    parts: Parts,
    context: RequestContext,
    partition: Partition,
    request: Mapping[str, Any],
    batches: memoryview,
    timeout_ms: int,
) -> Reply:
    try:
        await _look_through(partition, batches)
        _append(parts, partition, request, batches)
    except RequestRefused as refusal:
        return _refused(context, refusal)
    return await _confirmed(context, partition, timeout_ms)


async def _look_through(partition: Partition, batches: memoryview) -> None:
    """RequestRefused where records make no sense, as of what producers send."""
    local = partition.log
    if local is None or not local.settings.importing:
        return  # whoever appends says so
    size_max = local.settings.expanded_size_max
    refused = await opened(lambda room: records_fault(batches, size_max, room))
    if refused is not None:
        raise RequestRefused(refused.code, refused.message)


def _parsed(body: memoryview) -> tuple[Mapping[str, Any], memoryview]:
    if len(body) < _SIZE.size:
        raise ProtocolError("an import has no beginning")
    (size,) = _SIZE.unpack_from(body)
    stop = _SIZE.size + size
    if size > _HEAD_BYTES_MAX or stop > len(body):
        raise ProtocolError(f"an import begins with {size} bytes")
    return private.decode(body[_SIZE.size : stop], _ITEMS_MAX), body[stop:]


def _led(parts: Parts, context: RequestContext, request: Mapping[str, Any]) -> Partition:
    parts.access.demand(context, _CLUSTER)
    topic = asked.text(request, "topic")
    if is_internal(topic):
        raise RequestRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
    index = asked.number(request, "partition", -1)
    partition = parts.replicas.find_leader(TopicPartition(topic, index))
    if isinstance(partition, ErrorCode):
        raise RequestRefused(partition, f"{topic}-{index} is not led here")
    try:
        wanted = id_from_text(asked.text(request, "topic_id"))
    except ValueError:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "the topic's id is none") from None
    if partition.log is None or partition.log.topic_id != wanted:
        raise RequestRefused(ErrorCode.INCONSISTENT_TOPIC_ID, f"topic {topic} is another one now")
    return partition


def _append(
    parts: Parts, partition: Partition, request: Mapping[str, Any], batches: memoryview
) -> None:
    log_start = asked.number(request, "log_start", 0)
    if log_start < 0:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"no log begins at {log_start}")
    try:
        refused = import_batches(
            partition, batches, log_start=log_start, now_ms=parts.clock.now_ms()
        )
    except StorageTrouble as trouble:
        parts.storage_trouble(trouble)
        refused = ErrorCode.KAFKA_STORAGE_ERROR
    if isinstance(refused, AppendRefused):
        raise RequestRefused(refused.code, refused.message)
    if refused is not None:
        raise RequestRefused(refused, f"{partition.topic_partition} cannot be written to now")
    parts.metrics.bytes_in += len(batches)


async def _confirmed(context: RequestContext, partition: Partition, timeout_ms: int) -> Reply:
    local = partition.log
    assert local is not None, partition
    end = local.log_end_offset
    told: dict[str, Any] = {
        "error_code": 0,
        "log_start": local.log_start_offset,
        "log_end": end,
        "leader_epoch": partition.leader_epoch,
    }
    code = await acknowledged(partition, end, timeout_ms / 1000)
    if code is not ErrorCode.NONE:
        told.update({"error_code": int(code), "error_message": f"it is {code.name}"})
    return _reply(context, told)


def _refused(context: RequestContext, refusal: RequestRefused) -> Reply:
    return _reply(context, {"error_code": int(refusal.code), "error_message": str(refusal)})


def _reply(context: RequestContext, told: Mapping[str, Any]) -> Reply:
    return Reply((encode_response_frame(context.header, private.encode(told)),))
