"""Produce requests that begin as one before did.

A producer says the same again and again: of two requests for one partition, on one connection,
everything in front of the records is the same but for the sizes and the correlation id. So a
request that names one partition is read field by field once; after that its beginning is looked up
as the bytes that it is. The answer to it has one form as well: a few numbers change places with
others.

    size | api, version | correlation id | client id .. topic, partition | size | records | tags
            compared       read            looked up                       read   a view    compared

This holds for the flexible versions and for requests outside of transactions. Whatever is not
recognised is read as if nothing had come before, and both ways agree: a beginning is known only
after the careful way has read it, and the same bytes can only mean the same.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from klamm.model.errors import ProtocolError
from klamm.model.names import INTERNAL_TOPICS, TopicPartition
from klamm.protocol.frames import RequestHeader, encode_response_frame
from klamm.protocol.produce import (
    PartitionResult,
    ProduceResponse,
    TopicResult,
    encode_response,
    parse_sole,
)
from klamm.protocol.varint import read_uvarint

# So many partitions are remembered of one connection. One that writes to more reads more.
_KNOWN_MAX: Final = 256
# Topics have names of different lengths: so many lengths of beginnings are tried.
_SIZES_MAX: Final = 4
_AFTER_CORRELATION_ID: Final = 8
_ACKS: Final = (-1, 0, 1)
_END_TAGS: Final = 3  # of the partition, the topic and the request: none, one byte each

_FAULTS: Final = (struct.error, IndexError, UnicodeDecodeError, ProtocolError)

_new: Final = tuple.__new__  # what `_make` does, without asking how many values there are
_HEAD: Final = struct.Struct(">ii")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_AT: Final = 4
_OFFSETS: Final = struct.Struct(">qqq")  # base offset, time of the append, log start
_OFFSETS_FROM_END: Final = 33  # they, no errors, no message, tags; tags; throttle time, tags


class Beginning:
    """The parsed part in front of the records, and the answer that goes with it."""

    __slots__ = (
        "_answer",
        "_offsets_at",
        "acks",
        "head",
        "header",
        "place",
        "timeout_ms",
        "version",
    )

    def __init__(
        self, head: int, header: RequestHeader, place: TopicPartition, acks: int, timeout_ms: int
    ) -> None:
        self.head = head  # the API and its version
        self.header = header  # with the correlation id of the first such request
        self.version = header.api_version
        self.place = place
        self.acks = acks
        self.timeout_ms = timeout_ms
        result = TopicResult(place.topic, [PartitionResult(place.partition)])
        body = encode_response(header.api_version, ProduceResponse([result]))
        self._answer = bytearray(encode_response_frame(header, body))
        self._offsets_at = len(self._answer) - _OFFSETS_FROM_END

    def answer(self, correlation_id: int, base_offset: int, time_ms: int, log_start: int) -> bytes:
        """The whole frame that says that the records are in the log."""
        frame = self._answer
        _CORRELATION_ID.pack_into(frame, _CORRELATION_ID_AT, correlation_id)
        _OFFSETS.pack_into(frame, self._offsets_at, base_offset, time_ms, log_start)
        return bytes(frame)


class Recognised(NamedTuple):
    """A request whose beginning is known; its records are a view of the frame."""

    beginning: Beginning
    correlation_id: int
    records: memoryview


class Beginnings:
    """The beginnings that one connection has used."""

    __slots__ = ("_known", "_sizes")

    def __init__(self) -> None:
        self._known: dict[bytes, Beginning] = {}
        self._sizes: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._known)

    def recognise(self, frame: memoryview) -> Recognised | None:
        """The request in this frame, or None when it has to be read with care."""
        for size in self._sizes:
            beginning = self._known.get(frame[_AFTER_CORRELATION_ID:size].tobytes())
            if beginning is not None:
                break
        else:
            return None
        try:
            head, correlation_id = _HEAD.unpack_from(frame)
            count, at = read_uvarint(frame, size)
        except _FAULTS:
            return None
        end = at + count - 1
        if (
            head != beginning.head
            or count == 0
            or end + _END_TAGS != len(frame)
            or frame[end] | frame[end + 1] | frame[end + 2]
        ):
            return None
        return _new(Recognised, (beginning, correlation_id, frame[at:end]))

    def learn(self, frame: memoryview, header: RequestHeader) -> None:
        """Remember how this request begins, if it is one of those that come again."""
        try:
            sole = parse_sole(header.api_version, frame[header.body_offset :])
        except _FAULTS:
            return  # whoever reads it next says what is wrong with it
        if sole is None or sole.acks not in _ACKS or sole.topic in INTERNAL_TOPICS:
            return  # it names more than one partition, or what it asks for needs more thought
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
            self._sizes = ()
        size = header.body_offset + sole.records_at
        head, _ = _HEAD.unpack_from(frame)
        place = TopicPartition(sole.topic, sole.partition)
        known = Beginning(head, header, place, sole.acks, sole.timeout_ms)
        self._known[bytes(frame[_AFTER_CORRELATION_ID:size])] = known
        if size not in self._sizes:
            self._sizes = (size, *self._sizes[: _SIZES_MAX - 1])
