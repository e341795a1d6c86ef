"""The four codecs of record batches.

Each has a detail that only Kafka asks for. Snappy comes in the framing of a Java library
("xerial"), or from some clients as one bare block. LZ4 frames must consist of independent blocks,
because Java's reader refuses linked ones; the frame is therefore put together here, block by
block.

What a peer compressed is never believed to be small: a few kilobytes may stand for gigabytes, so
each codec writes into a buffer that has a largest size, and is stopped when that is full. Large
buffers are anonymous mappings: they take memory as they are filled, and give it back at once.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final, NoReturn

import cramjam

from klamm.model.errors import ProtocolError

Buffer = bytes | bytearray | memoryview

# Producers fill a batch before they compress it, to some megabytes at the very most.
PLAIN_SIZE_MAX: Final = 256 * 1024 * 1024
_HEAP_SIZE_MAX: Final = 1 << 20  # a buffer above this is a mapping of its own


class ExpandsTooFar(ProtocolError):
    """Compressed records that take more room than they are given."""


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """The records area of a batch, compressed; all but snappy know levels."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level))
        case Codec.SNAPPY:
            return _to_xerial(memoryview(data))
        case Codec.LZ4:
            return _to_lz4_frame(memoryview(data), level)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level))
    raise ProtocolError(f"there is no codec {codec}")


def decompress(codec: int, data: Buffer, *, size_max: int = PLAIN_SIZE_MAX) -> bytes:
    """The inverse of `compress`, for whatever any client writes."""
    return bytes(expand(codec, data, size_max=size_max))


def expand(codec: int, data: Buffer, *, size_max: int = PLAIN_SIZE_MAX) -> Buffer:
    """Expands what a client compressed, without a copy; `ExpandsTooFar` if it is larger."""
    try:
        match codec:
            case Codec.NONE:
                return data
            case Codec.GZIP:
                return _grown(cramjam.gzip, data, size_max)
            case Codec.SNAPPY:
                return _from_snappy(memoryview(data), size_max)
            case Codec.LZ4:
                return _grown(cramjam.lz4, data, size_max)
            case Codec.ZSTD:
                return _grown(cramjam.zstd, data, size_max)
    except (cramjam.DecompressionError, struct.error) as fault:
        raise ProtocolError(f"records are not {Codec(codec).name}: {fault}") from fault
    raise ProtocolError(f"there is no codec {codec}")


def _too_large(size_max: int) -> NoReturn:
    raise ExpandsTooFar(f"records take more than {size_max} bytes when they are unpacked")


def _room(size: int) -> memoryview:
    return memoryview(bytearray(size) if size <= _HEAP_SIZE_MAX else mmap.mmap(-1, size))


def _grown(codec: Any, data: Buffer, size_max: int) -> memoryview:
    """Unpacks into a buffer that grows as long as it turns out to be too small, and is allowed."""
    size = min(size_max, max(16 * 1024, 8 * len(data)))
    while True:
        room = _room(size)
        try:
            count: int = codec.decompress_into(data, room)
        except cramjam.DecompressionError as fault:
            if _BUFFER_FULL not in str(fault):
                raise
            if size == size_max:
                _too_large(size_max)
            size = min(size_max, 8 * size)
        else:
            return room[:count]


_BUFFER_FULL: Final = "failed to write whole buffer"


_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_BLOCK_SIZE: Final = struct.Struct(">i")


def _to_xerial(data: memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK]))
        out += _BLOCK_SIZE.pack(len(block)) + block
    return bytes(out)


def _from_snappy(data: memoryview, size_max: int) -> memoryview:
    blocks = [*_xerial_blocks(data)] if bytes(data[:8]) == _XERIAL_MAGIC else [data]
    # A block begins with the size of what it holds, and is refused when it holds another.
    size = 0
    for block in blocks:
        size += cramjam.snappy.decompress_raw_len(block)
        if size > size_max:
            _too_large(size_max)
    room = _room(size)
    at = 0
    for block in blocks:
        at += cramjam.snappy.decompress_raw_into(block, room[at:])
    return room[:at]


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    at = len(_XERIAL_HEADER)
    while at < len(data):
        (size,) = _BLOCK_SIZE.unpack_from(data, at)
        at += _BLOCK_SIZE.size
        if size < 0 or at + size > len(data):
            raise ProtocolError("a snappy block ends early")
        yield data[at : at + size]
        at += size


# Version 1, independent blocks, no checksums; blocks of up to 64 KiB; the third byte is the
# checksum of the other two.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18" + bytes((0x60, 0x40, 0x82))
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_HAS_SIZE: Final = 0x08  # a flag of a frame: it says how long its content is
_LZ4_STORED: Final = 1 << 31  # set in a block's size when it did not shrink and is kept as it was
_LZ4_SIZE: Final = struct.Struct("<I")


def _to_lz4_frame(data: memoryview, level: int | None) -> bytes:
    out = bytearray(_LZ4_HEADER)
    for at in range(0, len(data), _LZ4_BLOCK):
        plain = data[at : at + _LZ4_BLOCK]
        block = _lz4_block(plain, level)
        if len(block) < len(plain):
            out += _LZ4_SIZE.pack(len(block)) + block
        else:
            out += _LZ4_SIZE.pack(len(plain) | _LZ4_STORED) + plain
    out += _LZ4_SIZE.pack(0)
    return bytes(out)


def _lz4_block(plain: memoryview, level: int | None) -> bytes:
    """One compressed block. Levels are known to whole frames only, so one is taken apart."""
    if level is None:
        return bytes(cramjam.lz4.compress_block(plain, store_size=False))
    frame = bytes(cramjam.lz4.compress(plain, level=level))
    at = 7 + (8 if frame[4] & _LZ4_HAS_SIZE else 0)  # magic, flags, size of blocks, checksum
    (size,) = _LZ4_SIZE.unpack_from(frame, at)
    return frame[at + 4 : at + 4 + (size & ~_LZ4_STORED)]
