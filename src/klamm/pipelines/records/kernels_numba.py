"""Compiled loops over record bytes: the fast twin of `kernels_numpy`, same functions, same answers.

Every length that comes from the wire is checked against the end of its batch before it is used, so
a damaged record is an answer (the number of its batch), never a read outside the buffer. What is
written here is checked record by record against the plain decoder of `klamm.protocol.batch`.
"""

# numba types these functions itself, by rules that are neither Python's nor numpy's.
# mypy: disable-error-code="return-value,arg-type,call-arg,no-untyped-call,no-any-return"

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

NAME = "numba"
F = TypeVar("F", bound=Callable[..., Any])


def _can_keep() -> bool:
    """Whether numba finds a place for what it has compiled.

    It keeps that beside the module or in the user's cache, and fails where it can write to neither,
    as in a container whose user has no home. Compiling anew in each process only takes time.
    """

    def probe() -> None:
        pass

    try:
        place = njit(cache=True)(probe).stats.cache_path
        os.makedirs(place, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except (RuntimeError, OSError):
        return False
    return True


_CAN_KEEP: Final = _can_keep()


def _compiled(function: F) -> F:
    return njit(cache=_CAN_KEEP, nogil=True, boundscheck=False)(function)


def _memcpy_typed(_context: Any, dst: Any, dst_at: Any, src: Any, src_at: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into = context.make_array(signature.args[0])(context, builder, args[0])
        source = context.make_array(signature.args[2])(context, builder, args[2])
        cgutils.raw_memcpy(
            builder,
            builder.gep(into.data, [args[1]]),
            builder.gep(source.data, [args[3]]),
            args[4],
            1,
        )
        return context.get_dummy_value()

    return types.void(dst, types.int64, src, types.int64, types.int64), generate


# The plain loop that numba makes of a slice assignment checks for overlap on every record.
_memcpy = intrinsic(_memcpy_typed)


@_compiled
def _varint(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """One zig-zag varint and the position after it; that position is -1 when it does not end."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift <= np.uint64(63):
        byte = np.uint64(buffer[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@_compiled
def hop(buffer: Any, header_size: int, prefix_size: int, length_at: int) -> Any:
    """Finds the complete batches. One too short for a header is the last."""
    places = np.empty(len(buffer) // header_size + 1, np.int64)
    count = 0
    at = np.int64(0)
    while len(buffer) - at >= header_size:
        length = np.int32(
            (np.uint32(buffer[at + length_at]) << np.uint32(24))
            | (np.uint32(buffer[at + length_at + 1]) << np.uint32(16))
            | (np.uint32(buffer[at + length_at + 2]) << np.uint32(8))
            | np.uint32(buffer[at + length_at + 3])
        )
        stop = at + prefix_size + np.int64(length)
        if stop > len(buffer):
            break
        places[count] = at
        count += 1
        if length < header_size - prefix_size:
            break
        at = stop
    return places[:count].copy()


@_compiled
def scan(
    buffer: Any,
    area_at: Any,
    area_end: Any,
    count: Any,
    base_offset: Any,
    base_time: Any,
    fixed_time: Any,
    offset: Any,
    time: Any,
    key_at: Any,
    key_size: Any,
    value_at: Any,
    value_size: Any,
    header_at: Any,
    header_end: Any,
    header_count: Any,
) -> int:
    """Finds each record's parts. Returns -1, or the number of the first damaged batch."""
    row = 0
    for batch in range(len(area_at)):
        at = area_at[batch]
        end = area_end[batch]
        for _ in range(count[batch]):
            size, at = _varint(buffer, at, end)
            if at < 0 or size < 1 or size > end - at:
                return batch
            stop = at + size
            delta, at = _varint(buffer, at + 1, stop)
            if at < 0:
                return batch
            time[row] = fixed_time[batch] if fixed_time[batch] >= 0 else base_time[batch] + delta
            delta, at = _varint(buffer, at, stop)
            if at < 0:
                return batch
            offset[row] = base_offset[batch] + delta
            size, at = _varint(buffer, at, stop)
            if at < 0 or size < -1 or size > stop - at:
                return batch
            key_at[row] = at
            key_size[row] = size
            at += max(size, 0)
            size, at = _varint(buffer, at, stop)
            if at < 0 or size < -1 or size > stop - at:
                return batch
            value_at[row] = at
            value_size[row] = size
            at += max(size, 0)
            size, at = _varint(buffer, at, stop)
            if at < 0 or size < 0 or size > stop - at:
                return batch
            header_at[row] = at
            header_end[row] = stop
            header_count[row] = size
            if size == 0 and at != stop:
                return batch
            row += 1
            at = stop
        if at != end:
            return batch
    return -1


@_compiled
def scan_headers(
    buffer: Any,
    header_at: Any,
    header_end: Any,
    header_count: Any,
    key_at: Any,
    key_size: Any,
    value_at: Any,
    value_size: Any,
) -> int:
    """Finds each header's parts. Returns -1, or the number of the first damaged record."""
    place = 0
    for row in range(len(header_at)):
        at = header_at[row]
        end = header_end[row]
        for _ in range(header_count[row]):
            size, at = _varint(buffer, at, end)
            if at < 0 or size < 0 or size > end - at:
                return row
            key_at[place] = at
            key_size[place] = size
            at += size
            size, at = _varint(buffer, at, end)
            if at < 0 or size < -1 or size > end - at:
                return row
            value_at[place] = at
            value_size[place] = size
            at += max(size, 0)
            place += 1
        if at != end:
            return row
    return -1


@_compiled
def _gather(buffer: Any, at: Any, size: Any, offsets: Any, data: Any) -> None:
    place = np.int64(0)
    offsets[0] = 0
    for row in range(len(at)):
        if size[row] > 0:
            _memcpy(data, place, buffer, at[row], np.int64(size[row]))
            place += size[row]
        offsets[row + 1] = place


def gather(buffer: Any, at: Any, size: Any) -> tuple[Any, Any]:
    """The pieces one after another, with Arrow's 32-bit offsets."""
    offsets = np.empty(len(at) + 1, np.int32)
    data = np.empty(int(np.maximum(size, 0).sum()), np.uint8)
    _gather(buffer, at, size, offsets, data)
    return offsets, data


@_compiled
def murmur2(offsets: Any, data: Any, out: Any) -> None:
    """The hash by which Kafka's producers choose a partition, for every key of a column."""
    m = np.uint32(0x5BD1E995)
    for row in range(len(out)):
        at = offsets[row]
        size = offsets[row + 1] - at
        h = np.uint32(0x9747B28C) ^ np.uint32(size)
        for _ in range(size // 4):
            k = (
                np.uint32(data[at])
                | np.uint32(data[at + 1]) << np.uint32(8)
                | np.uint32(data[at + 2]) << np.uint32(16)
                | np.uint32(data[at + 3]) << np.uint32(24)
            )
            k = np.uint32(k * m)
            k = np.uint32(k ^ (k >> np.uint32(24)))
            k = np.uint32(k * m)
            h = np.uint32(np.uint32(h * m) ^ k)
            at += 4
        left = size % 4
        if left == 3:
            h = np.uint32(h ^ (np.uint32(data[at + 2]) << np.uint32(16)))
        if left >= 2:
            h = np.uint32(h ^ (np.uint32(data[at + 1]) << np.uint32(8)))
        if left >= 1:
            h = np.uint32(np.uint32(h ^ np.uint32(data[at])) * m)
        h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * m)
        out[row] = np.uint32(h ^ (h >> np.uint32(15)))


@_compiled
def _put_varint(out: Any, at: int, value: int) -> int:
    left = np.uint64((value << 1) ^ (value >> 63))
    while left >= np.uint64(0x80):
        out[at] = np.uint8((left & np.uint64(0x7F)) | np.uint64(0x80))
        at += 1
        left >>= np.uint64(7)
    out[at] = np.uint8(left)
    return at + 1


@_compiled
def _varint_size(value: int) -> int:
    left = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while left >= np.uint64(0x80):
        left >>= np.uint64(7)
        size += 1
    return size


@_compiled
def encode(
    rows: Any,
    first: int,
    delta: int,
    base_time: int,
    limit: int,
    time: Any,
    key_at: Any,
    key_size: Any,
    key_data: Any,
    value_at: Any,
    value_size: Any,
    value_data: Any,
    header_at: Any,
    header_size: Any,
    header_count: Any,
    header_data: Any,
    out: Any,
    out_at: int,
) -> tuple[int, int, int]:
    """Appends records up to `limit` bytes: (next row, bytes end, newest time).

    The first record always goes in, so that one larger than the limit still gets a batch of its
    own.
    """
    newest = np.int64(-1)
    place = first
    at = out_at
    while place < len(rows):
        row = rows[place]
        number = delta + place - first
        body = (
            1
            + _varint_size(time[row] - base_time)
            + _varint_size(number)
            + _varint_size(key_size[row])
            + max(key_size[row], 0)
            + _varint_size(value_size[row])
            + max(value_size[row], 0)
            + _varint_size(header_count[row])
            + header_size[row]
        )
        if at + body + 5 > limit and at > 0:
            break
        if at + body + 5 > len(out):
            return place, -at - 1, newest
        at = _put_varint(out, at, body)
        out[at] = 0
        at = _put_varint(out, at + 1, time[row] - base_time)
        at = _put_varint(out, at, number)
        at = _put_varint(out, at, key_size[row])
        if key_size[row] > 0:
            _memcpy(out, at, key_data, np.int64(key_at[row]), np.int64(key_size[row]))
            at += key_size[row]
        at = _put_varint(out, at, value_size[row])
        if value_size[row] > 0:
            _memcpy(out, at, value_data, np.int64(value_at[row]), np.int64(value_size[row]))
            at += value_size[row]
        at = _put_varint(out, at, header_count[row])
        if header_size[row] > 0:
            _memcpy(out, at, header_data, np.int64(header_at[row]), np.int64(header_size[row]))
            at += header_size[row]
        newest = max(newest, time[row])
        place += 1
    return place, at, newest


@_compiled
def canonical(
    time: Any,
    kind: Any,
    key_at: Any,
    key_size: Any,
    key_data: Any,
    value_at: Any,
    value_size: Any,
    value_data: Any,
    header_at: Any,
    header_size: Any,
    header_count: Any,
    header_data: Any,
    out: Any,
) -> int:
    """The form of records that digests are taken of: big-endian, fixed widths, -1 for null."""
    at = 0
    for row in range(len(time)):
        at = _put_fixed(out, at, time[row], 8)
        at = _put_fixed(out, at, np.int64(kind[row]), 1)
        at = _put_fixed(out, at, np.int64(key_size[row]), 4)
        if key_size[row] > 0:
            _memcpy(out, at, key_data, np.int64(key_at[row]), np.int64(key_size[row]))
            at += key_size[row]
        at = _put_fixed(out, at, np.int64(value_size[row]), 4)
        if value_size[row] > 0:
            _memcpy(out, at, value_data, np.int64(value_at[row]), np.int64(value_size[row]))
            at += value_size[row]
        at = _put_fixed(out, at, np.int64(header_count[row]), 4)
        if header_size[row] > 0:
            _memcpy(out, at, header_data, np.int64(header_at[row]), np.int64(header_size[row]))
            at += header_size[row]
    return at


@_compiled
def _put_fixed(out: Any, at: int, value: int, width: int) -> int:
    for place in range(width):
        out[at + place] = np.uint8((value >> (8 * (width - 1 - place))) & 0xFF)
    return at + width
