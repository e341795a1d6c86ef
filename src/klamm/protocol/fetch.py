"""Fetch (key 1), versions 0-17, by hand: records stay where they are.

A response is encoded into pieces. What is not in memory yet, a range of a segment file, is passed
through as the caller gave it, so that the connection can hand it to `sendfile`; only its size is
needed here. A parsed response holds views into its frame.

Version 1 added the throttle time, 3 the largest size of an answer, 4 what transactions need (the
isolation level, the last stable offset), 5 the log's start, 7 sessions, 9 the leader epoch, 11
racks, 12 flexible types and the last fetched epoch; 13 names topics by id; 15 moved the replica's
id into a tagged field.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final
from uuid import UUID

from klamm.model.errors import ProtocolError
from klamm.model.names import ZERO_ID, id_from_bytes
from klamm.protocol import wire
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.compiling.reader import ANY_NUMBER
from klamm.protocol.fetch_parts import (
    NO_SESSION_EPOCH,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AbortedTransaction,
    DivergingEpoch,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    StoredRecords,
    TopicData,
    size_of,
)
from klamm.protocol.varint import read_uvarint

__all__ = [
    "NO_SESSION_EPOCH",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "AbortedTransaction",
    "DivergingEpoch",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "ForgottenTopic",
    "PartitionData",
    "StoredRecords",
    "TopicData",
    "encode_request",
    "encode_response",
    "parse_request",
    "parse_response",
    "size_of",
]

_FLEXIBLE_FROM: Final = APIS[ApiKey.FETCH].flexible_from
_THROTTLE_SINCE: Final = 1
_MAX_BYTES_SINCE: Final = 3
_TRANSACTIONS_SINCE: Final = 4
_START_SINCE: Final = 5
_SESSION_SINCE: Final = 7
_EPOCH_SINCE: Final = 9
_RACK_SINCE: Final = 11
_LAST_EPOCH_SINCE: Final = 12
_TOPIC_ID_SINCE: Final = 13
_REPLICA_STATE_SINCE: Final = 15
_ENDPOINTS_SINCE: Final = 16
_FAULTS: Final = (struct.error, IndexError, UnicodeDecodeError)

_REPLICA_STATE: Final = struct.Struct(">iq")
_EPOCH_END: Final = struct.Struct(">iq")
_ABORTED: Final = struct.Struct(">qq")
# A partition in the flexible versions up to its records, when no transaction was aborted: the
# numbers, a count of aborted transactions, the preferred replica. Most partitions of most answers.
_PLAIN_DATA: Final = struct.Struct(">ihqqqBi")
_LIMITS_AND_SESSION: Final = struct.Struct(">iiibii")
_ANSWER_AND_SESSION: Final = struct.Struct(">ihi")
_new: Final = tuple.__new__  # what `_make` does, without asking how many values there are

_NO_TAGS: Final = (None, None)


@cache
def _wanted_form(version: int) -> struct.Struct:
    """The fixed part of a wanted partition."""
    epoch = "i" if version >= _EPOCH_SINCE else ""
    last_epoch = "i" if version >= _LAST_EPOCH_SINCE else ""
    start = "q" if version >= _START_SINCE else ""
    return struct.Struct(f">i{epoch}q{last_epoch}{start}i")


def _wanted_of(version: int, values: tuple[int, ...]) -> FetchPartition:
    partition, *middle, max_bytes = values
    epoch = middle.pop(0) if version >= _EPOCH_SINCE else -1
    offset = middle.pop(0)
    start = middle.pop(0) if version >= _START_SINCE else -1
    return FetchPartition(partition, epoch, offset, -1, start, max_bytes)


def _wanted_values(version: int, wanted: FetchPartition) -> tuple[int, ...]:
    if version >= _LAST_EPOCH_SINCE:
        return wanted
    partition, epoch, offset, _, start, max_bytes = wanted
    epochs = (epoch,) if version >= _EPOCH_SINCE else ()
    starts = (start,) if version >= _START_SINCE else ()
    return (partition, *epochs, offset, *starts, max_bytes)


@cache
def _limits_form(version: int) -> struct.Struct:
    """The bounds of an answer in a version without sessions."""
    max_bytes = "i" if version >= _MAX_BYTES_SINCE else ""
    isolation = "b" if version >= _TRANSACTIONS_SINCE else ""
    return struct.Struct(f">ii{max_bytes}{isolation}")


def parse_request(version: int, body: memoryview, items_max: int = ANY_NUMBER) -> FetchRequest:
    """The request in this body."""
    try:
        return _parse_request(version, body, version >= _FLEXIBLE_FROM, items_max)
    except _FAULTS as fault:
        raise ProtocolError(f"Fetch v{version}: {fault}") from fault


def _parse_request(version: int, body: memoryview, flexible: bool, left: int) -> FetchRequest:
    replica_id, at = -1, 0
    if version < _REPLICA_STATE_SINCE:
        (replica_id,) = wire.INT.unpack_from(body)
        at = 4
    form = _LIMITS_AND_SESSION if version >= _SESSION_SINCE else _limits_form(version)
    request = FetchRequest(replica_id, -1, *form.unpack_from(body, at))
    at += form.size
    at, left = _parse_wanted(version, body, at, flexible, request.topics, left)
    if version >= _SESSION_SINCE:
        at = _parse_forgotten(version, body, at, flexible, request.forgotten, left)
    if version >= _RACK_SINCE:
        request.rack_id, at = wire.read_name(body, at, flexible)
    if flexible and body[at]:
        found, at = wire.read_tags(body, at)
        if 0 in found:
            request.cluster_id, _ = wire.read_text(found[0], 0, True)
        if 1 in found and version >= _REPLICA_STATE_SINCE:
            state = _REPLICA_STATE.unpack_from(found[1])
            request.replica_id, request.replica_epoch = state
    return request


def _parse_topic(version: int, body: memoryview, at: int, flexible: bool) -> tuple[str, UUID, int]:
    if version >= _TOPIC_ID_SINCE:
        data = bytes(body[at : at + 16])
        if len(data) < 16:
            raise ProtocolError("a topic id ends early")
        return "", id_from_bytes(data), at + 16
    name, at = wire.read_name(body, at, flexible)
    return name, ZERO_ID, at


def _parse_wanted(
    version: int, body: memoryview, at: int, flexible: bool, topics: list[FetchTopic], left: int
) -> tuple[int, int]:
    form = _wanted_form(version)
    unpack, size = form.unpack_from, form.size
    topic_count, at = wire.read_count(body, at, flexible)
    left -= topic_count
    if left < 0:
        wire.too_many()
    for _ in range(topic_count):
        name, topic_id, at = _parse_topic(version, body, at, flexible)
        partition_count, at = wire.read_count(body, at, flexible)
        left -= partition_count
        if left < 0:
            wire.too_many()
        partitions = []
        for _ in range(partition_count):
            values = unpack(body, at)
            at += size
            if flexible:
                partitions.append(_new(FetchPartition, values))
                at = at + 1 if body[at] == 0 else _past_tags(body, at)
            else:
                partitions.append(_wanted_of(version, values))
        topics.append(FetchTopic(name, topic_id, partitions))
        if flexible:
            at = _past_tags(body, at)
    return at, left


def _parse_forgotten(
    version: int, body: memoryview, at: int, flexible: bool, topics: list[ForgottenTopic], left: int
) -> int:
    topic_count, at = wire.read_count(body, at, flexible)
    left -= topic_count
    if left < 0:
        wire.too_many()
    for _ in range(topic_count):
        name, topic_id, at = _parse_topic(version, body, at, flexible)
        number, at = wire.read_count(body, at, flexible)
        left -= number
        if left < 0:
            wire.too_many()
        partitions = list(struct.unpack_from(f">{number}i", body, at)) if number > 0 else []
        at += 4 * len(partitions)
        topics.append(ForgottenTopic(name, topic_id, partitions))
        if flexible:
            at = _past_tags(body, at)
    return at


def _past_tags(body: memoryview, at: int) -> int:
    return at + 1 if body[at] == 0 else wire.read_tags(body, at)[1]


def encode_request(version: int, request: FetchRequest) -> bytes:
    """The body of a request."""
    flexible = version >= _FLEXIBLE_FROM
    end = b"\0" if flexible else b""
    out = bytearray()
    if version < _REPLICA_STATE_SINCE:
        out += wire.INT.pack(request.replica_id)
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if version >= _SESSION_SINCE:
        out += _LIMITS_AND_SESSION.pack(*limits, request.session_id, request.session_epoch)
    else:
        form = _limits_form(version)
        known = 4 if version >= _TRANSACTIONS_SINCE else 3 if version >= _MAX_BYTES_SINCE else 2
        out += form.pack(*limits[:known])
    pack = _wanted_form(version).pack
    out += wire.count(len(request.topics), flexible)
    for topic in request.topics:
        out += _topic(version, topic.name, topic.topic_id, flexible)
        out += wire.count(len(topic.partitions), flexible)
        for wanted in topic.partitions:
            out += pack(*_wanted_values(version, wanted)) + end
        out += end
    if version >= _SESSION_SINCE:
        _encode_forgotten(out, version, request.forgotten, flexible)
    if version >= _RACK_SINCE:
        out += wire.text(request.rack_id, flexible)
    if flexible:
        told = version >= _REPLICA_STATE_SINCE
        state = (request.replica_id, request.replica_epoch) if told else (-1, -1)
        out += _request_tags(request.cluster_id, state)
    return bytes(out)


def _encode_forgotten(
    out: bytearray, version: int, forgotten: Sequence[ForgottenTopic], flexible: bool
) -> None:
    out += wire.count(len(forgotten), flexible)
    for topic in forgotten:
        out += _topic(version, topic.name, topic.topic_id, flexible)
        out += wire.count(len(topic.partitions), flexible)
        out += struct.pack(f">{len(topic.partitions)}i", *topic.partitions)
        if flexible:
            out += b"\0"


@lru_cache(maxsize=64)  # a follower says the same all its life
def _request_tags(cluster_id: str | None, state: tuple[int, int]) -> bytes:
    fields = []
    if cluster_id is not None:
        fields.append((0, wire.text(cluster_id, True)))
    if state != (-1, -1):
        fields.append((1, _REPLICA_STATE.pack(*state) + b"\0"))
    return wire.tags(fields)


def _topic(version: int, name: str, topic_id: UUID, flexible: bool) -> bytes:
    return topic_id.bytes if version >= _TOPIC_ID_SINCE else wire.text(name, flexible)


@cache
def _data_form(version: int) -> struct.Struct:
    """The fixed part of a partition's data."""
    stable = "q" if version >= _TRANSACTIONS_SINCE else ""
    start = "q" if version >= _START_SINCE else ""
    return struct.Struct(f">ihq{stable}{start}")


def encode_response(
    version: int, response: FetchResponse
) -> tuple[list[bytes | memoryview | StoredRecords], int]:
    """The pieces of a body and the size of them all."""
    flexible = version >= _FLEXIBLE_FROM
    parts: list[bytes | memoryview | StoredRecords] = []
    total = 0
    if version >= _SESSION_SINCE:
        head = (response.throttle_time_ms, response.error_code, response.session_id)
        out = bytearray(_ANSWER_AND_SESSION.pack(*head))
    else:
        told = version >= _THROTTLE_SINCE
        out = bytearray(wire.INT.pack(response.throttle_time_ms) if told else b"")
    out += wire.count(len(response.topics), flexible)
    for topic in response.topics:
        out += _topic(version, topic.name, topic.topic_id, flexible)
        out += wire.count(len(topic.partitions), flexible)
        for data in topic.partitions:
            records = data.records
            size = len(records) if isinstance(records, bytes | memoryview) else records.size
            if flexible and data.aborted is None:
                out += _PLAIN_DATA.pack(*data[:5], 0, data.preferred_read_replica)
                out += wire.count(size, True)
            else:
                _encode_data(out, version, flexible, data, size)
            if size:
                parts += (bytes(out), records)
                total += len(out) + size
                out = bytearray()
            if flexible:
                out += b"\0" if data[8:] == _NO_TAGS else _data_tags(data)
        if flexible:
            out += b"\0"
    if flexible:
        nodes = response.node_endpoints if version >= _ENDPOINTS_SINCE else ()
        out += wire.tags([(0, wire.endpoints(nodes))]) if nodes else b"\0"
    parts.append(bytes(out))
    return parts, total + len(out)


def _encode_data(
    out: bytearray, version: int, flexible: bool, data: PartitionData, size: int
) -> None:
    """All of a partition's data up to its records."""
    if version >= _START_SINCE:
        out += _data_form(version).pack(*data[:5])
    elif version >= _TRANSACTIONS_SINCE:
        out += _data_form(version).pack(*data[:4])
    else:
        out += _data_form(version).pack(*data[:3]) + wire.INT.pack(size)
        return
    aborted = data.aborted
    out += wire.count(-1 if aborted is None else len(aborted), flexible)
    for transaction in aborted or ():
        out += _ABORTED.pack(*transaction)
        if flexible:
            out += b"\0"
    if version >= _RACK_SINCE:
        out += wire.INT.pack(data.preferred_read_replica)
    out += wire.count(size, flexible)


def _data_tags(data: PartitionData) -> bytes:
    fields = []
    if data.diverging_epoch is not None:
        fields.append((0, _EPOCH_END.pack(*data.diverging_epoch) + b"\0"))
    if data.current_leader is not None:
        fields.append((1, wire.leader(data.current_leader)))
    return wire.tags(fields)


def parse_response(version: int, body: memoryview) -> FetchResponse:
    """The response in this body; its records are views of the body."""
    try:
        return _parse_response(version, body, version >= _FLEXIBLE_FROM)
    except _FAULTS as fault:
        raise ProtocolError(f"Fetch v{version}: {fault}") from fault


def _parse_response(version: int, body: memoryview, flexible: bool) -> FetchResponse:
    response, at = FetchResponse(), 0
    if version >= _THROTTLE_SINCE:
        form = _ANSWER_AND_SESSION if version >= _SESSION_SINCE else wire.INT
        response, at = FetchResponse(*form.unpack_from(body)), form.size
    topic_count, at = wire.read_count(body, at, flexible)
    for _ in range(topic_count):
        name, topic_id, at = _parse_topic(version, body, at, flexible)
        partition_count, at = wire.read_count(body, at, flexible)
        partitions = []
        for _ in range(partition_count):
            found = _parse_plain(body, at) if flexible else None
            data, at = found or _parse_data(version, body, at, flexible)
            partitions.append(data)
        response.topics.append(TopicData(name, topic_id, partitions))
        if flexible:
            at = _past_tags(body, at)
    if flexible and body[at]:
        tags, at = wire.read_tags(body, at)
        if 0 in tags:
            response.node_endpoints = wire.read_endpoints(tags[0])
    return response


def _parse_plain(body: memoryview, at: int) -> tuple[PartitionData, int] | None:
    """A partition without aborted transactions and tags; None when there may be any."""
    *numbers, aborted, preferred = _PLAIN_DATA.unpack_from(body, at)
    if aborted:
        return None
    size, at = read_uvarint(body, at + _PLAIN_DATA.size)
    end = at + size - 1
    if size == 0 or end >= len(body) or body[end]:
        return None
    records = body[at:end] if size > 1 else b""
    return _new(PartitionData, (*numbers, None, preferred, records, None, None)), end + 1


def _parse_data(
    version: int, body: memoryview, at: int, flexible: bool
) -> tuple[PartitionData, int]:
    form = _data_form(version)
    fixed = form.unpack_from(body, at)
    at += form.size
    fixed += (-1,) * (5 - len(fixed))
    aborted = None
    if version >= _TRANSACTIONS_SINCE:
        aborted, at = _parse_aborted(body, at, flexible)
    preferred = -1
    if version >= _RACK_SINCE:
        (preferred,) = wire.INT.unpack_from(body, at)
        at += 4
    records, at = wire.read_records(body, at, flexible)
    diverging = leader = None
    if flexible:
        if body[at]:
            found, at = wire.read_tags(body, at)
            diverging = (
                DivergingEpoch._make(_EPOCH_END.unpack_from(found[0])) if 0 in found else None
            )
            leader = wire.read_leader(found[1]) if 1 in found else None
        else:
            at += 1
    payload = b"" if records is None else records
    rest = (aborted, preferred, payload, diverging, leader)
    return PartitionData._make((*fixed, *rest)), at


def _parse_aborted(
    body: memoryview, at: int, flexible: bool
) -> tuple[list[AbortedTransaction] | None, int]:
    number, at = wire.read_count(body, at, flexible)
    if number < 0:
        return None, at
    aborted = []
    for _ in range(number):
        aborted.append(AbortedTransaction._make(_ABORTED.unpack_from(body, at)))
        at += _ABORTED.size
        if flexible:
            at = _past_tags(body, at)
    return aborted, at
