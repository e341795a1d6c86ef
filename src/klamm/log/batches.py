"""Batches in a file: where they are and what their headers say.

The log moves batches, it does not open them; 61 bytes of each are all it looks at.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import crc32c

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
# What comes before the counted part: base offset and the length itself.
PREFIX_SIZE: Final = 12
EPOCH_AT: Final = 12
CRC_AT: Final = 17
CRC_FROM: Final = 21
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_CHUNK: Final = 8192
_LARGE_CHUNK: Final = 1 << 20
_MARKER_KEY: Final = struct.Struct(">hh")  # version, type
_MARKER_VALUE: Final = struct.Struct(">hi")  # version, coordinator epoch


class Header(NamedTuple):
    """The fields of a batch header, in their order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return PREFIX_SIZE + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.offset_delta

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


def read_header(buffer: bytes | bytearray | memoryview, at: int = 0) -> Header:
    return Header._make(HEADER.unpack_from(buffer, at))


def headers(fd: int, position: int, end: int, chunk: int = _CHUNK) -> Iterator[tuple[int, Header]]:
    """(position, header) of each whole batch in part of a file, which must start at a batch."""
    buffer, buffer_at = b"", position
    while position + HEADER_SIZE <= end:
        at = position - buffer_at
        if at + HEADER_SIZE > len(buffer):
            buffer, buffer_at, at = os.pread(fd, min(chunk, end - position), position), position, 0
            if len(buffer) < HEADER_SIZE:
                return
        header = read_header(buffer, at)
        if header.size < HEADER_SIZE or position + header.size > end:
            return
        yield position, header
        position += header.size


def whole_batches(
    fd: int, position: int, end: int, chunk: int = _LARGE_CHUNK
) -> Iterator[tuple[int, Header, memoryview]]:
    """(position, header, bytes) of each whole batch; stops where the bytes are no batch."""
    buffer, buffer_at = memoryview(b""), position
    while position + HEADER_SIZE <= end:
        at = position - buffer_at
        size = HEADER_SIZE
        if at + HEADER_SIZE <= len(buffer):
            header = read_header(buffer, at)
            size = header.size
            if size < HEADER_SIZE or position + size > end:
                return
        if at + size > len(buffer):
            wanted = min(max(chunk, size), end - position)
            buffer, buffer_at = memoryview(read_batch(fd, position, wanted)), position
            if len(buffer) < wanted:
                end = position + len(buffer)
            continue
        yield position, header, buffer[at : at + size]
        position += size


def read_batch(fd: int, position: int, size: int) -> bytes:
    """The bytes of one batch; short when the file ends before it does."""
    data = os.pread(fd, size, position)
    while len(data) < size:
        more = os.pread(fd, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def is_intact(batch: bytes | memoryview, header: Header) -> bool:
    """Whether the bytes are those that were sealed by the checksum."""
    return header.magic == MAGIC and crc32c.crc32c(batch[CRC_FROM : header.size]) == header.crc


class Marker(NamedTuple):
    """What a control batch says about a transaction."""

    committed: bool
    coordinator_epoch: int


def read_marker(batch: bytes | memoryview) -> Marker | None:
    """The marker in a control batch; None for control records of a kind we do not know."""
    at = HEADER_SIZE
    at = _skip_varint(batch, at) + 1  # the record's length, its attributes
    at = _skip_varint(batch, at)  # timestamp delta
    at = _skip_varint(batch, at)  # offset delta
    at = _skip_varint(batch, at)  # key length
    kind = _MARKER_KEY.unpack_from(batch, at)[1]
    at = _skip_varint(batch, at + _MARKER_KEY.size)  # value length
    if kind not in (0, 1):
        return None
    return Marker(kind == 1, _MARKER_VALUE.unpack_from(batch, at)[1])


def _skip_varint(buffer: bytes | memoryview, at: int) -> int:
    while buffer[at] & 0x80:
        at += 1
    return at + 1
