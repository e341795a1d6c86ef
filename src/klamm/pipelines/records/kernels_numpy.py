"""The loops over record bytes without a compiler, for installs without `klamm[fast]`.

Only the lengths of records are walked one by one; every other varint is decoded for all records at
once. Bytes are gathered by Arrow: a view array over the raw buffer, cast to a binary column, so
that its C++ does the copying. Encoding is a plain loop, which a sink feels and a reader never
meets.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NAME = "numpy"
_LENGTH = struct.Struct(">i")
_VARINT_BYTES = 10
_INLINE = 12  # an Arrow view holds up to so many bytes itself


def _varints(buffer: Any, at: Any, end: Any) -> tuple[Any, Any, bool]:
    """One zig-zag varint at each position, the places after them, and whether all ended."""
    value = np.zeros(len(at), np.uint64)
    after = at.copy()
    going = np.ones(len(at), bool)
    last = max(len(buffer) - 1, 0)
    for place in range(_VARINT_BYTES):
        if not going.any():
            return _unzigzag(value), after, True
        if (after[going] >= end[going]).any():
            return value, after, False
        byte = buffer[np.minimum(after, last)].astype(np.uint64)
        value |= np.where(going, (byte & np.uint64(0x7F)) << np.uint64(7 * place), np.uint64(0))
        after += going
        going &= byte >= np.uint64(0x80)
    return _unzigzag(value), after, not going.any()


def _unzigzag(value: Any) -> Any:
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)


def _varint(buffer: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 7 * _VARINT_BYTES:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return 0, -1


def _bodies(
    buffer: memoryview, at: int, end: int, count: int
) -> tuple[list[int], list[int]] | None:
    """Finds where each record of a batch begins after its length, and where it ends.

    None when damaged.
    """
    starts, stops = [], []
    for _ in range(count):
        size, at = _varint(buffer, at, end)
        if at < 0 or size < 1 or size > end - at:
            return None
        starts.append(at)
        at += size
        stops.append(at)
    return (starts, stops) if at == end else None


def hop(buffer: Any, header_size: int, prefix_size: int, length_at: int) -> Any:
    """Finds the complete batches. One too short for a header is the last."""
    data, at, places = memoryview(buffer), 0, []
    while len(data) - at >= header_size:
        (length,) = _LENGTH.unpack_from(data, at + length_at)
        stop = at + prefix_size + length
        if stop > len(data):
            break
        places.append(at)
        if length < header_size - prefix_size:
            break
        at = stop
    return np.array(places, np.int64)


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
    view = memoryview(buffer)
    row = 0
    for batch in range(len(area_at)):
        bodies = _bodies(view, int(area_at[batch]), int(area_end[batch]), int(count[batch]))
        if bodies is None:
            return batch
        rows = slice(row, row + int(count[batch]))
        row = rows.stop
        at, stop = np.array(bodies[0], np.int64), np.array(bodies[1], np.int64)
        time_delta, at, whole = _varints(buffer, at + 1, stop)
        if not whole:
            return batch
        fixed = int(fixed_time[batch])
        time[rows] = fixed if fixed >= 0 else int(base_time[batch]) + time_delta
        offset_delta, at, whole = _varints(buffer, at, stop)
        if not whole:
            return batch
        offset[rows] = int(base_offset[batch]) + offset_delta
        for into_at, into_size in ((key_at, key_size), (value_at, value_size)):
            size, at, whole = _varints(buffer, at, stop)
            if not whole or (size < -1).any() or (size > stop - at).any():
                return batch
            into_at[rows], into_size[rows] = at, size
            at = at + np.maximum(size, 0)
        size, at, whole = _varints(buffer, at, stop)
        if not whole or (size < 0).any() or (size > stop - at).any():
            return batch
        header_at[rows], header_end[rows], header_count[rows] = at, stop, size
        if ((size == 0) & (at != stop)).any():
            return batch
    return -1


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
    view, place = memoryview(buffer), 0
    for row in np.flatnonzero(header_count):
        at, end = int(header_at[row]), int(header_end[row])
        for _ in range(int(header_count[row])):
            size, at = _varint(view, at, end)
            if at < 0 or size < 0 or size > end - at:
                return int(row)
            key_at[place], key_size[place] = at, size
            size, at = _varint(view, at + size, end)
            if at < 0 or size < -1 or size > end - at:
                return int(row)
            value_at[place], value_size[place] = at, size
            at += max(size, 0)
            place += 1
        if at != end:
            return int(row)
    return -1


def gather(buffer: Any, at: Any, size: Any) -> tuple[Any, Any]:
    """The pieces one after another, with Arrow's 32-bit offsets."""
    rows = len(at)
    length = np.maximum(size, 0).astype(np.int32)
    views = np.zeros((rows, 4), np.int32)
    views[:, 0] = length
    if rows and len(buffer):
        reach = np.arange(_INLINE)
        head = buffer[np.minimum(at[:, None] + reach, len(buffer) - 1)]
        head = np.where(reach < length[:, None], head, 0).astype(np.uint8)
        views[:, 1:4] = head.view(np.int32).reshape(rows, 3)
        long = length > _INLINE
        views[long, 2] = 0
        views[long, 3] = at[long]
    column = pa.Array.from_buffers(
        pa.binary_view(), rows, [None, pa.py_buffer(views), pa.py_buffer(buffer)]
    )
    flat = pc.cast(column, pa.binary())
    _, offsets, data = flat.buffers()
    return (
        np.frombuffer(offsets, np.int32, rows + 1) if offsets else np.zeros(1, np.int32),
        np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8),
    )


def murmur2(offsets: Any, data: Any, out: Any) -> None:
    """The hash by which Kafka's producers choose a partition, for every key of a column."""
    raw = data.tobytes()
    edges = offsets.tolist()
    for row in range(len(out)):
        out[row] = _murmur2(raw[edges[row] : edges[row + 1]])


def _murmur2(key: bytes) -> int:
    m, h = 0x5BD1E995, 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for (k,) in struct.iter_unpack("<I", key[:whole]):
        k = k * m & 0xFFFFFFFF
        k = (k ^ k >> 24) * m & 0xFFFFFFFF
        h = (h * m & 0xFFFFFFFF) ^ k
    if key[whole:]:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & 0xFFFFFFFF
    h = (h ^ h >> 13) * m & 0xFFFFFFFF
    return h ^ h >> 15


def put_varint(out: bytearray, value: int) -> None:
    """Appends one zig-zag varint."""
    left = (value << 1) ^ (value >> 63)
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


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
    """Appends records until `limit` bytes or the rows end.

    (next row, bytes end, newest time).
    """
    keys, values, headers = memoryview(key_data), memoryview(value_data), memoryview(header_data)
    newest, at, place = -1, out_at, first
    while place < len(rows):
        row = int(rows[place])
        record = bytearray(b"\0")
        put_varint(record, int(time[row]) - base_time)
        put_varint(record, delta + place - first)
        for piece_at, piece_size, data in (
            (key_at, key_size, keys),
            (value_at, value_size, values),
        ):
            size = int(piece_size[row])
            put_varint(record, size)
            if size > 0:
                record += data[int(piece_at[row]) : int(piece_at[row]) + size]
        put_varint(record, int(header_count[row]))
        record += headers[int(header_at[row]) : int(header_at[row]) + int(header_size[row])]
        if at + len(record) + 5 > limit and at > 0:
            break
        if at + len(record) + 5 > len(out):
            return place, -at - 1, newest
        length = bytearray()
        put_varint(length, len(record))
        whole = length + record
        out[at : at + len(whole)] = np.frombuffer(whole, np.uint8)
        at += len(whole)
        newest = max(newest, int(time[row]))
        place += 1
    return place, at, newest


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
    keys, values, headers = memoryview(key_data), memoryview(value_data), memoryview(header_data)
    whole = bytearray()
    for row in range(len(time)):
        whole += struct.pack(">qbi", int(time[row]), int(kind[row]), int(key_size[row]))
        whole += keys[int(key_at[row]) : int(key_at[row]) + max(int(key_size[row]), 0)]
        whole += struct.pack(">i", int(value_size[row]))
        whole += values[int(value_at[row]) : int(value_at[row]) + max(int(value_size[row]), 0)]
        whole += struct.pack(">i", int(header_count[row]))
        whole += headers[int(header_at[row]) : int(header_at[row]) + int(header_size[row])]
    out[: len(whole)] = np.frombuffer(whole, np.uint8)
    return len(whole)
