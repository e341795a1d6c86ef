"""The four codecs of record batches.

Each has a detail that only Kafka asks for. Snappy comes in the framing of a Java library
("xerial"), or from some clients as one bare block. LZ4 frames must consist of independent blocks,
because Java's reader refuses linked ones; the frame is therefore put together here, block by
block.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

import cramjam

from klamm.model.errors import ProtocolError

Buffer = bytes | bytearray | memoryview


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """The records area of a batch, compressed; gzip and zstd know levels."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level))
        case Codec.SNAPPY:
            return _to_xerial(memoryview(data))
        case Codec.LZ4:
            return _to_lz4_frame(memoryview(data))
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level))
    raise ProtocolError(f"there is no codec {codec}")


def decompress(codec: int, data: Buffer) -> bytes:
    """The inverse of `compress`, for whatever any client writes."""
    try:
        match codec:
            case Codec.NONE:
                return bytes(data)
            case Codec.GZIP:
                return bytes(cramjam.gzip.decompress(data))
            case Codec.SNAPPY:
                return _from_snappy(bytes(data))
            case Codec.LZ4:
                return bytes(cramjam.lz4.decompress(data))
            case Codec.ZSTD:
                return bytes(cramjam.zstd.decompress(data))
    except (cramjam.DecompressionError, struct.error) as fault:
        raise ProtocolError(f"records are not {Codec(codec).name}: {fault}") from fault
    raise ProtocolError(f"there is no codec {codec}")


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


def _from_snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    out = bytearray()
    at = len(_XERIAL_HEADER)
    while at < len(data):
        (size,) = _BLOCK_SIZE.unpack_from(data, at)
        at += _BLOCK_SIZE.size
        if size < 0 or at + size > len(data):
            raise ProtocolError("a snappy block ends early")
        out += cramjam.snappy.decompress_raw(data[at : at + size])
        at += size
    return bytes(out)


# Version 1, independent blocks, no checksums; blocks of up to 64 KiB; the third byte is the
# checksum of the other two.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18" + bytes((0x60, 0x40, 0x82))
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31  # set in a block's size when it did not shrink and is kept as it was
_LZ4_SIZE: Final = struct.Struct("<I")


def _to_lz4_frame(data: memoryview) -> bytes:
    out = bytearray(_LZ4_HEADER)
    for at in range(0, len(data), _LZ4_BLOCK):
        plain = data[at : at + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += _LZ4_SIZE.pack(len(block)) + block
        else:
            out += _LZ4_SIZE.pack(len(plain) | _LZ4_STORED) + plain
    out += _LZ4_SIZE.pack(0)
    return bytes(out)
