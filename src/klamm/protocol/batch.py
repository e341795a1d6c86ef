"""Record batches, format 2: the reference encoder and decoder.

A batch is a header of 61 bytes and a records area, which a codec may have compressed as a whole.
The checksum covers all that a producer decided, from the attributes on; base offset and leader
epoch stand before it, so a broker stamps them in place. Inside, a record holds its timestamp and
offset as differences to the header's.

Brokers hardly ever need this page: they move batches and look at headers. It serves the client, the
coordinators, compaction, and the tests of every faster path.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

import crc32c

from klamm.model.errors import ProtocolError
from klamm.protocol.compression import PLAIN_SIZE_MAX, Buffer, Codec, compress, decompress
from klamm.protocol.varint import read_varint, varint

__all__ = [
    "BatchHeader",
    "Codec",
    "ControlKind",
    "Record",
    "compress",
    "control_kind",
    "crc_ok",
    "decode_area",
    "decode_records",
    "decompress",
    "encode_batch",
    "encode_control_batch",
    "iter_batches",
    "parse_header",
    "seal",
]

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
PREFIX_SIZE: Final = 12  # base offset and length, which the length does not count
EPOCH_AT: Final = 12
CRC_AT: Final = 17
CRC_FROM: Final = 21
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = -1
Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record, with its place in the partition."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class BatchHeader(NamedTuple):
    """The 61 bytes that open a batch, in their order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The bytes of the whole batch."""
        return PREFIX_SIZE + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


def parse_header(buf: Buffer, at: int = 0) -> BatchHeader:
    """The header of the batch that starts here."""
    try:
        header = BatchHeader._make(HEADER.unpack_from(buf, at))
    except struct.error as fault:
        raise ProtocolError(f"a batch has no whole header: {fault}") from fault
    if header.magic != MAGIC:
        raise ProtocolError(f"a batch has magic {header.magic}, only {MAGIC} is spoken here")
    if header.length < HEADER_SIZE - PREFIX_SIZE:
        raise ProtocolError(f"a batch claims a length of {header.length}")
    return header


def iter_batches(buf: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches in a buffer; a last one that is cut off is left out, as clients must do."""
    view = memoryview(buf)
    at = 0
    while len(view) - at >= HEADER_SIZE:
        header = parse_header(view, at)
        end = at + header.size
        if end > len(view):
            return
        yield header, view[at:end]
        at = end


def crc_ok(batch: Buffer) -> bool:
    """Whether the checksum of one whole batch is right."""
    view = memoryview(batch)
    stored = int.from_bytes(view[CRC_AT:CRC_FROM], "big")
    return bool(crc32c.crc32c(view[CRC_FROM:]) == stored)


def decode_records(batch: Buffer, *, size_max: int = PLAIN_SIZE_MAX) -> Iterator[Record]:
    """The records of one whole batch. `ProtocolError` when they are not what the header says."""
    header = parse_header(batch)
    view = memoryview(batch)
    if len(view) < header.size:
        raise ProtocolError("a batch ends early")
    area = decompress(header.codec, view[HEADER_SIZE : header.size], size_max=size_max)
    yield from decode_area(header, area)


def decode_area(header: BatchHeader, area: bytes) -> Iterator[Record]:
    """The records of a batch that somebody has unpacked."""
    try:
        yield from _records(header, area)
    except (IndexError, UnicodeDecodeError) as fault:
        raise ProtocolError(f"a record makes no sense: {fault}") from fault


def _records(header: BatchHeader, area: bytes) -> Iterator[Record]:
    at = 0
    base, since = header.base_offset, header.base_timestamp
    late = header.is_log_append_time
    for _ in range(header.record_count):
        size, at = read_varint(area, at)
        end = at + size
        if size < 0 or end > len(area):
            raise ProtocolError("a record is longer than its batch")
        at += 1  # the attributes, which have no bits yet
        timestamp_delta, at = read_varint(area, at)
        offset_delta, at = read_varint(area, at)
        key, at = _nullable(area, at, end)
        value, at = _nullable(area, at, end)
        headers, at = _headers(area, at, end)
        if at != end:
            raise ProtocolError("a record has another length than it says")
        timestamp = header.max_timestamp if late else since + timestamp_delta
        yield Record(base + offset_delta, timestamp, key, value, headers)
    if at != len(area):
        raise ProtocolError("a batch has more bytes than records")


def _nullable(area: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(area, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise ProtocolError("a key or value is longer than its record")
    return area[at : at + size], at + size


def _headers(area: bytes, at: int, end: int) -> tuple[Headers, int]:
    count, at = read_varint(area, at)
    if count == 0:
        return (), at
    if not 0 < count <= end - at:
        raise ProtocolError(f"a record claims {count} headers")
    headers = []
    for _ in range(count):
        name, at = _nullable(area, at, end)
        value, at = _nullable(area, at, end)
        if name is None:
            raise ProtocolError("a record header has no name")
        # Any bytes may be a name on the wire; as in Java, what is no text shows as such.
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), at


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: int = Codec.NONE,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    last_offset: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    attributes: int = 0,
) -> bytes:
    """One batch of these records, which keep their offsets.

    Compaction leaves holes and keeps the end: `last_offset` is then that of a record long gone.
    It may also set a base timestamp that is a deadline, and attributes that say so.
    """
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if max_timestamp is None:
        max_timestamp = max((r.timestamp for r in records), default=NO_TIMESTAMP)
    area = b"".join(_encode_record(r, base_offset, base_timestamp) for r in records)
    if codec != Codec.NONE:
        area = compress(codec, area)
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset
    attributes |= codec | TRANSACTIONAL * is_transactional | CONTROL * is_control
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return seal(header, area)


def seal(header: BatchHeader, area: Buffer) -> bytes:
    """A header and a records area as one batch, with the length and the checksum of both."""
    out = bytearray(HEADER_SIZE)
    length = HEADER_SIZE - PREFIX_SIZE + len(area)
    HEADER.pack_into(out, 0, *header._replace(length=length))
    out += area
    struct.pack_into(">I", out, CRC_AT, crc32c.crc32c(memoryview(out)[CRC_FROM:]))
    return bytes(out)


def _encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    parts = [
        b"\0",
        _varint(record.timestamp - base_timestamp),
        _varint(record.offset - base_offset),
        *_sized(record.key),
        *_sized(record.value),
        _varint(len(record.headers)),
    ]
    for name, value in record.headers:
        parts += (*_sized(name.encode()), *_sized(value))
    body = b"".join(parts)
    return _varint(len(body)) + body


# The numbers of one batch are much like those of the next: places, sizes, small spans of time.
_varint: Final = lru_cache(1 << 13)(varint)
_NULL: Final = (varint(-1),)


def _sized(data: bytes | None) -> tuple[bytes, ...]:
    return _NULL if data is None else (_varint(len(data)), data)


class ControlKind(StrEnum):
    """The end of a transaction: commit or abort."""

    ABORT = "abort"
    COMMIT = "commit"


_CONTROL_KEY: Final = struct.Struct(">hh")
_CONTROL_VALUE: Final = struct.Struct(">hi")
_CONTROL_SIZE_MAX: Final = 64 * 1024  # nobody compresses twenty bytes, but nothing forbids it
_KINDS: Final = (ControlKind.ABORT, ControlKind.COMMIT)


def encode_control_batch(
    kind: ControlKind,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
) -> bytes:
    """The marker that ends a producer's transaction in a partition."""
    key = _CONTROL_KEY.pack(0, _KINDS.index(kind))
    value = _CONTROL_VALUE.pack(0, coordinator_epoch)
    return encode_batch(
        [Record(base_offset, timestamp, key, value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def control_kind(batch: Buffer) -> ControlKind:
    """The kind of a control batch."""
    record = next(decode_records(batch, size_max=_CONTROL_SIZE_MAX), None)
    if record is None or record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise ProtocolError("a control batch has no key")
    _, kind = _CONTROL_KEY.unpack_from(record.key)
    if kind not in range(len(_KINDS)):
        raise ProtocolError(f"a control batch is of kind {kind}")
    return _KINDS[kind]


def coordinator_epoch(batch: Buffer) -> int:
    """The epoch of the coordinator that had a control batch written."""
    record = next(decode_records(batch, size_max=_CONTROL_SIZE_MAX), None)
    if record is None or record.value is None or len(record.value) < _CONTROL_VALUE.size:
        raise ProtocolError("a control batch has no value")
    _, epoch = _CONTROL_VALUE.unpack_from(record.value)
    return int(epoch)
