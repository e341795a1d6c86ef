"""From a record batch of format 2 to a message set, piece by piece.

Headers are lost, and so is the mark of a transaction: the old formats have no room for either.
Markers of transactions are for readers that know of them and are left out whole. What was
compressed is compressed again by the same codec, in wrappers of about a megabyte unpacked: a batch
that unpacks to much more comes as several. zstd did not exist then: `NoSuchCodec`.

A record below the offset that was asked for is left out: a reader that is in the middle of a large
batch gets on with the first piece it sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from klamm.model.errors import ProtocolError
from klamm.protocol.batch import HEADER_SIZE, BatchHeader
from klamm.protocol.compression import Buffer, Codec, compress, expand
from klamm.protocol.message_sets import lz4_frames
from klamm.protocol.message_sets.layout import LOG_APPEND_TIME, message
from klamm.protocol.varint import read_varint

_PLAIN_MAX: Final = 1 << 20  # bytes of messages in a piece, before they are compressed
_SLICE: Final = 1000  # records between two pauses

Pause = Callable[[], None]


class NoSuchCodec(ProtocolError):
    """Records compressed in a way that the old formats do not have."""


class ResumePoint(NamedTuple):
    """A record of a batch: where it begins in the unpacked records, and its number."""

    at: int = 0
    number: int = 0


START: Final = ResumePoint()


class Piece(NamedTuple):
    """Messages, and the record that comes next; None: that was the last."""

    messages: bytes
    rest: ResumePoint | None


class _Record(NamedTuple):
    offset: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None
    next_at: int


def downgrade(
    batch: Buffer,
    header: BatchHeader,
    magic: int,
    *,
    since: int,
    place: ResumePoint = START,
    size_max: int,
    pause: Pause,
) -> Piece:
    """The next messages for a whole batch, of the records from an offset on."""
    if header.is_control:
        return Piece(b"", None)
    if header.codec == Codec.ZSTD:
        raise NoSuchCodec(f"zstd is not for messages of format {magic}")
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    area = memoryview(expand(header.codec, packed, size_max=size_max))
    chosen: list[_Record] = []
    size = seen = 0
    rest = None
    for seen, record in enumerate(_records(header, area, place), 1):
        if record.offset >= since:
            chosen.append(record)
            size += 34 + len(record.key or b"") + len(record.value or b"")
        if not seen % _SLICE:
            pause()
        if size >= _PLAIN_MAX and place.number + seen < header.record_count:
            rest = ResumePoint(record.next_at, place.number + seen)
            break
    return Piece(_messages(chosen, header, magic, pause), rest)


def _records(header: BatchHeader, area: memoryview, place: ResumePoint) -> Iterator[_Record]:
    at = place.at
    late = header.max_timestamp if header.is_log_append_time else None
    try:
        for _ in range(place.number, header.record_count):
            size, at = read_varint(area, at)
            end = at + size
            if size <= 0 or end > len(area):
                raise ProtocolError("a record is longer than its batch")
            timestamp, at = read_varint(area, at + 1)
            offset, at = read_varint(area, at)
            key, at = _nullable(area, at, end)
            value, at = _nullable(area, at, end)
            time = header.base_timestamp + timestamp if late is None else late
            yield _Record(header.base_offset + offset, time, key, value, end)
            at = end  # what lies between are headers
    except IndexError as fault:
        raise ProtocolError("a record ends behind the end of its batch") from fault


def _nullable(area: memoryview, at: int, end: int) -> tuple[memoryview | None, int]:
    size, at = read_varint(area, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise ProtocolError("a key or value is longer than its record")
    return area[at : at + size], at + size


def _messages(records: list[_Record], header: BatchHeader, magic: int, pause: Pause) -> bytes:
    if not records:
        return b""
    late = LOG_APPEND_TIME if magic and header.is_log_append_time else 0
    # Inside of a wrapper of format 1 offsets count from its first message.
    base = records[0].offset if header.codec and magic else 0
    out = bytearray()
    for number, record in enumerate(records, 1):
        out += message(
            magic, record.offset - base, record.timestamp, record.key, record.value, late
        )
        if not number % _SLICE:
            pause()
    if not header.codec:
        return bytes(out)
    value = compress(header.codec, out)
    if header.codec == Codec.LZ4 and magic == 0:
        value = lz4_frames.from_standard(value)
    timestamp = max(record.timestamp for record in records)
    return message(
        magic, records[-1].offset, timestamp, None, value, attributes=late | header.codec
    )
