"""Batches in a file: where they are and what their headers say.

The log moves batches, it does not open them; 61 bytes of each are all it looks at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import crc32c

from klamm.model.errors import ProtocolError
from klamm.protocol.batch import (
    CRC_FROM,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    ControlKind,
    control_kind,
    coordinator_epoch,
)

LENGTH_AT: Final = 8
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35

_CHUNK: Final = 8192
_LARGE_CHUNK: Final = 1 << 20
_new: Final = tuple.__new__  # what `_make` does, without asking how many values there are
_unpack: Final = HEADER.unpack_from


def read_header(buffer: bytes | bytearray | memoryview, at: int = 0) -> BatchHeader:
    return _new(BatchHeader, _unpack(buffer, at))


def headers(
    fd: int, position: int, end: int, chunk: int = _CHUNK
) -> Iterator[tuple[int, BatchHeader]]:
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
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
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


def is_intact(batch: bytes | memoryview, header: BatchHeader) -> bool:
    """Whether the bytes are those that were sealed by the checksum."""
    return header.magic == MAGIC and crc32c.crc32c(batch[CRC_FROM : header.size]) == header.crc


class Marker(NamedTuple):
    """The content of a control batch: the end of a transaction."""

    committed: bool
    coordinator_epoch: int


def read_marker(batch: bytes | memoryview) -> Marker | None:
    """The marker in a control batch; None for control records of a kind we do not know."""
    try:
        return Marker(control_kind(batch) is ControlKind.COMMIT, coordinator_epoch(batch))
    except ProtocolError:
        return None
