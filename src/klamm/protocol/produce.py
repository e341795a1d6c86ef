"""Produce (key 0), versions 0-11, by hand: records stay where they arrived.

A parsed request holds views into its frame, one for each partition. Version 9 made the API
flexible; 1 added the throttle time to the answer, 2 the time of the append, 5 the log's start, 8
the errors of single records, 10 the current leader. Before 3 there were no transactions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from klamm.model.errors import ProtocolError
from klamm.protocol import wire
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.compiling.reader import ANY_NUMBER
from klamm.protocol.varint import read_uvarint
from klamm.protocol.wire import CurrentLeader, NodeEndpoint

_FLEXIBLE_FROM: Final = APIS[ApiKey.PRODUCE].flexible_from
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
# The beginning of a flexible request with one topic, up to its name, and what follows the name.
_SOLE_HEAD: Final = struct.Struct(">BhiBB")
_SOLE_PARTITION: Final = struct.Struct(">Bi")
_FIRST_RESULT: Final = struct.Struct(">ihq")
_RESULT: Final = struct.Struct(">ihqq")
_RESULT_AND_START: Final = struct.Struct(">ihqqq")
# A flexible result without a fault: the numbers, no record errors, no message, no tags.
_PLAIN_RESULT: Final = struct.Struct(">ihqqqBBB")
_TRANSACTIONS_SINCE: Final = 3
_THROTTLE_SINCE: Final = 1
_APPEND_TIME_SINCE: Final = 2
_START_SINCE: Final = 5
_RECORD_ERRORS_SINCE: Final = 8
_LEADER_SINCE: Final = 10
_FAULTS: Final = (struct.error, IndexError, UnicodeDecodeError)
_new: Final = tuple.__new__  # what `_make` does, without asking how many values there are


class PartitionRecords(NamedTuple):
    """The records for one partition."""

    partition: int
    records: memoryview | None


class TopicRecords(NamedTuple):
    """The records for one topic."""

    name: str
    partitions: list[PartitionRecords]


@dataclass(slots=True)
class ProduceRequest:
    """A request, in the order of the wire."""

    transactional_id: str | None = None
    acks: int = -1
    timeout_ms: int = 30_000
    topics: list[TopicRecords] = field(default_factory=list)


class RecordError(NamedTuple):
    """The reason why one record of a batch was refused."""

    batch_index: int
    message: str | None = None


class PartitionResult(NamedTuple):
    """The result for one partition's records."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    current_leader: CurrentLeader | None = None


_NO_FAULT: Final = ((), None, None)


class TopicResult(NamedTuple):
    """The result for one topic's records."""

    name: str
    partitions: list[PartitionResult]


@dataclass(slots=True)
class ProduceResponse:
    """A response, in the order of the wire."""

    topics: list[TopicResult] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


def parse_request(version: int, body: memoryview, items_max: int = ANY_NUMBER) -> ProduceRequest:
    """The request in this body. It is good for as long as the body is."""
    try:
        sole = parse_sole(version, body)
        if sole is None:
            return _parse_request(version, body, version >= _FLEXIBLE_FROM, items_max)
    except _FAULTS as fault:
        raise ProtocolError(f"Produce v{version}: {fault}") from fault
    acks, timeout_ms, name, partition, _, records = sole
    one = [_new(PartitionRecords, (partition, records))]
    return ProduceRequest(None, acks, timeout_ms, [_new(TopicRecords, (name, one))])


class Sole(NamedTuple):
    """A request for one partition, outside of a transaction."""

    acks: int
    timeout_ms: int
    topic: str
    partition: int
    records_at: int  # where in the body the size of the records stands
    records: memoryview


def parse_sole(version: int, body: memoryview) -> Sole | None:
    """A flexible request for one partition, outside of a transaction; None when it is another one.

    This is what librdkafka sends, batch by batch, so it is worth a way of its own.
    """
    size = len(body)
    if version < _FLEXIBLE_FROM or size < _SOLE_HEAD.size:
        return None
    transactional_id, acks, timeout_ms, topic_count, name_size = _SOLE_HEAD.unpack_from(body)
    name_end = _SOLE_HEAD.size + name_size - 1
    records_at = name_end + _SOLE_PARTITION.size
    if transactional_id or topic_count != 2 or not 1 < name_size < 128 or records_at >= size:
        return None
    partition_count, partition = _SOLE_PARTITION.unpack_from(body, name_end)
    count, at = read_uvarint(body, records_at)
    end = at + count - 1
    if partition_count != 2 or count == 0 or end + 3 != size or any(body[end:]):
        return None
    name = str(body[_SOLE_HEAD.size : name_end], "utf-8")
    return _new(Sole, (acks, timeout_ms, name, partition, records_at, body[at:end]))


def _parse_request(version: int, body: memoryview, flexible: bool, left: int) -> ProduceRequest:
    transactional_id, at = None, 0
    if version >= _TRANSACTIONS_SINCE:
        transactional_id, at = wire.read_text(body, 0, flexible)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(body, at)
    topic_count, at = wire.read_count(body, at + 6, flexible)
    left -= topic_count
    if left < 0:
        wire.too_many()
    topics = []
    for _ in range(topic_count):
        name, at = wire.read_name(body, at, flexible)
        partition_count, at = wire.read_count(body, at, flexible)
        left -= partition_count
        if left < 0:
            wire.too_many()
        partitions = []
        for _ in range(partition_count):
            (partition,) = wire.INT.unpack_from(body, at)
            records, at = wire.read_records(body, at + 4, flexible)
            partitions.append(PartitionRecords(partition, records))
            if flexible:
                at = _past_tags(body, at)
        topics.append(TopicRecords(name, partitions))
        if flexible:
            at = _past_tags(body, at)
    if flexible:
        _past_tags(body, at)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _past_tags(body: memoryview, at: int) -> int:
    return at + 1 if body[at] == 0 else wire.read_tags(body, at)[1]


def encode_request(version: int, request: ProduceRequest) -> list[bytes | memoryview]:
    """The pieces of a body; the records among them are those of the request, not copies."""
    flexible = version >= _FLEXIBLE_FROM
    end = b"\0" if flexible else b""
    parts: list[bytes | memoryview] = []
    head = bytearray()
    if version >= _TRANSACTIONS_SINCE:
        head += wire.text(request.transactional_id, flexible)
    head += _ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms)
    head += wire.count(len(request.topics), flexible)
    for topic in request.topics:
        head += wire.text(topic.name, flexible) + wire.count(len(topic.partitions), flexible)
        for partition, records in topic.partitions:
            size = -1 if records is None else len(records)
            head += wire.INT.pack(partition) + wire.count(size, flexible)
            if records is not None:
                parts += (bytes(head), records)
                head = bytearray()
            head += end
        head += end
    parts.append(bytes(head + end))
    return parts


def encode_response(version: int, response: ProduceResponse) -> bytes:
    """The body of a response."""
    flexible = version >= _FLEXIBLE_FROM
    out = bytearray(wire.count(len(response.topics), flexible))
    for name, partitions in response.topics:
        out += wire.name(name, flexible) + wire.count(len(partitions), flexible)
        for result in partitions:
            if flexible and result[5:] == _NO_FAULT:
                out += _PLAIN_RESULT.pack(*result[:5], 1, 0, 0)
            else:
                _encode_result(out, version, flexible, result)
        if flexible:
            out += b"\0"
    if version >= _THROTTLE_SINCE:
        out += wire.INT.pack(response.throttle_time_ms)
    if flexible:
        nodes = response.node_endpoints
        known = version >= _LEADER_SINCE and nodes
        out += wire.tags([(0, wire.endpoints(nodes))]) if known else b"\0"
    return bytes(out)


def _encode_result(out: bytearray, version: int, flexible: bool, result: PartitionResult) -> None:
    partition, code, base, time_ms, start, record_errors, message, leader = result
    if version < _START_SINCE:
        out += _FIRST_RESULT.pack(partition, code, base)
        out += wire.LONG.pack(time_ms) if version >= _APPEND_TIME_SINCE else b""
        return
    out += _RESULT_AND_START.pack(partition, code, base, time_ms, start)
    if version < _RECORD_ERRORS_SINCE:
        return
    out += wire.count(len(record_errors), flexible)
    for error in record_errors:
        out += wire.INT.pack(error.batch_index) + wire.text(error.message, flexible)
        if flexible:
            out += b"\0"
    out += wire.text(message, flexible)
    if flexible:
        told = leader is not None and version >= _LEADER_SINCE
        out += wire.tags([(0, wire.leader(leader))]) if told and leader is not None else b"\0"


def parse_response(version: int, body: memoryview) -> ProduceResponse:
    """The response in this body."""
    try:
        return _parse_response(version, body, version >= _FLEXIBLE_FROM)
    except _FAULTS as fault:
        raise ProtocolError(f"Produce v{version}: {fault}") from fault


def _parse_response(version: int, body: memoryview, flexible: bool) -> ProduceResponse:
    response = ProduceResponse()
    topic_count, at = wire.read_count(body, 0, flexible)
    for _ in range(topic_count):
        name, at = wire.read_name(body, at, flexible)
        partition_count, at = wire.read_count(body, at, flexible)
        results = []
        for _ in range(partition_count):
            result, at = _parse_result(version, body, at, flexible)
            results.append(result)
        response.topics.append(TopicResult(name, results))
        if flexible:
            at = _past_tags(body, at)
    if version >= _THROTTLE_SINCE:
        (response.throttle_time_ms,) = wire.INT.unpack_from(body, at)
    if flexible:
        found, at = wire.read_tags(body, at + 4)
        if 0 in found:
            response.node_endpoints = wire.read_endpoints(found[0])
    return response


def _parse_result(
    version: int, body: memoryview, at: int, flexible: bool
) -> tuple[PartitionResult, int]:
    if version < _APPEND_TIME_SINCE:
        return PartitionResult(*_FIRST_RESULT.unpack_from(body, at)), at + 14
    if version < _START_SINCE:
        return PartitionResult._make((*_RESULT.unpack_from(body, at), -1, (), None, None)), at + 22
    fixed = _RESULT_AND_START.unpack_from(body, at)
    at += 30
    if version < _RECORD_ERRORS_SINCE:
        return PartitionResult(*fixed), at
    error_count, at = wire.read_count(body, at, flexible)
    errors = []
    for _ in range(error_count):
        (index,) = wire.INT.unpack_from(body, at)
        text, at = wire.read_text(body, at + 4, flexible)
        errors.append(RecordError(index, text))
        if flexible:
            at = _past_tags(body, at)
    message, at = wire.read_text(body, at, flexible)
    leader = None
    if flexible:
        found, at = wire.read_tags(body, at)
        leader = wire.read_leader(found[0]) if 0 in found else None
    return PartitionResult._make((*fixed, errors, message, leader)), at
