"""Record batches that are small on the wire and large inside, or not what they say."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

import crc32c
import numpy

from klamm.protocol.batch import (
    CRC_AT,
    CRC_FROM,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    PREFIX_SIZE,
    Codec,
)
from klamm.protocol.compression import compress
from klamm.protocol.varint import varint

BASE_TIME: Final = 1_700_000_000_000
_EMPTY: Final = b"\x0c\0\0\0\1\1\0"  # a record without key and value at the batch's own offset


def batch(
    area: bytes,
    count: int,
    *,
    codec: int = Codec.NONE,
    last_offset_delta: int | None = None,
    max_timestamp: int = BASE_TIME + 1000,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch with a right checksum around any bytes."""
    out = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        out,
        0,
        0,
        HEADER_SIZE - PREFIX_SIZE + len(area),
        -1,
        MAGIC,
        0,
        attributes | codec,
        count - 1 if last_offset_delta is None else last_offset_delta,
        BASE_TIME,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    out += area
    struct.pack_into(">I", out, CRC_AT, crc32c.crc32c(memoryview(out)[CRC_FROM:]))
    return bytes(out)


@lru_cache(4)
def empty_records(count: int) -> bytes:
    """Records that all claim the first offset: some kilobytes for many millions."""
    return batch(compress(Codec.ZSTD, _EMPTY * count), count, codec=Codec.ZSTD)


@lru_cache(4)
def counted_records(count: int, *, keyed: bool = False) -> bytes:
    """As many records with the offsets they should have; with one key, if so wished."""
    area = _counted(count, b"\x02k\1\0" if keyed else b"\1\1\0")
    return batch(compress(Codec.ZSTD, area), count, codec=Codec.ZSTD)


@lru_cache(4)
def distinct_keys(count: int) -> bytes:
    """Records of which each has a key of its own."""
    area = _counted(count, b"\x08kkkk\1\0", keys_at=1)
    return batch(compress(Codec.ZSTD, area), count, codec=Codec.ZSTD)


def _counted(count: int, tail: bytes, *, keys_at: int | None = None) -> bytes:
    """Records with rising offsets: those whose offsets take as many bytes are made in one go."""
    areas, low = [], 0
    for size in range(1, 6):
        high = min(count, 1 << (7 * size - 1))
        numbers = numpy.arange(low, high, dtype=numpy.int64)
        rows = numpy.zeros((len(numbers), 3 + size + len(tail)), dtype=numpy.uint8)
        rows[:, 0] = 2 * (2 + size + len(tail))
        for n in range(size):
            more = 128 if n < size - 1 else 0
            rows[:, 3 + n] = (numbers * 2 >> 7 * n & 127) | more
        rows[:, 3 + size :] = numpy.frombuffer(tail, dtype=numpy.uint8)
        if keys_at is not None:
            for n in range(4):
                rows[:, 3 + size + keys_at + n] = numbers >> 8 * (3 - n) & 255
        areas.append(rows.tobytes())
        low = high
    return b"".join(areas)


@lru_cache(4)
def same_key(count: int) -> bytes:
    """Records with one key that all claim the first offset."""
    area = compress(Codec.ZSTD, b"\x0e\0\0\0\x02k\1\0" * count)
    return batch(area, count, codec=Codec.ZSTD)


def keyed_record(value: bytes) -> bytes:
    """One record with the key of all the others."""
    body = b"\0\0\0\x02k" + varint(len(value)) + value + b"\0"
    return batch(varint(len(body)) + body, 1)


def poisons() -> dict[str, bytes]:
    """Batches that no consumer could pass, each with a right checksum."""
    whole = b"\x0c\0\0\0\1\1\0"
    return {
        "garbage": batch(bytes(range(7, 107)), 5),
        "two thousand million records in no bytes": batch(b"", 2**31 - 1),
        "no records": batch(b"", 0, last_offset_delta=0),
        "a negative count": batch(whole, -1, last_offset_delta=0),
        "fewer records than counted": batch(whole, 3),
        "more records than counted": batch(whole + b"\x0c\0\0\2\1\1\0", 1),
        "a record longer than the batch": batch(b"\x7e\0\0\0\1\1\0", 1),
        "a record of negative length": batch(b"\x01\0\0\0\1\1\0", 1),
        "an offset that jumps": batch(b"\x0e\0\0\xfe\x01\1\1\0", 1),
        "a last offset that jumps": batch(whole, 1, last_offset_delta=2**31 - 2),
        "the same offset twice": batch(whole * 2, 2),
        "a key longer than its record": batch(b"\x0c\0\0\0\x40\1\0", 1),
        "headers without end": batch(b"\x10\0\0\0\1\1\xfe\xff\x03", 1),
        "zstd that is none": batch(bytes(50), 1, codec=Codec.ZSTD),
        "garbage inside zstd": batch(
            compress(Codec.ZSTD, bytes(range(7, 107))), 5, codec=Codec.ZSTD
        ),
        "a codec nobody knows": batch(whole, 1, codec=7),
        "a control batch": batch(whole, 1, attributes=0x20),
    }
