"""Record batches as they lie in a Fetch answer: their headers, and where every record's parts are.

Nothing is copied here but headers. `walk` hops from batch to batch and takes all their headers at
once, a column a field, for an answer may hold thousands of small batches; `RecordRows` holds, for
all records of some batches, the places of their keys, values and headers in one buffer, found by
one kernel call.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import Any, Final, NamedTuple

import numpy as np
from crc32c import crc32c

from klamm.model.errors import KlammError
from klamm.pipelines.records.kernels import kernels
from klamm.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    HEADER,
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX_SIZE,
    TRANSACTIONAL,
)


class DamagedRecords(KlammError):
    """Bytes of a partition that cannot be read, with the place."""


# The header of a batch as numpy sees it: the fields of `protocol.batch.HEADER`, in their order.
_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_time", ">i8"),
        ("max_time", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("records", ">i4"),
    ]
)
assert _HEADER.itemsize == HEADER.size
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16  # in every message format


class Batches:
    """The headers of some record batches, and where they lie in the answer: one array a field."""

    def __init__(self, at: Any, headers: Any) -> None:
        self._headers = headers
        self.at = at
        self.end = at + headers["length"] + PREFIX_SIZE

    def __len__(self) -> int:
        return len(self.at)

    def __getattr__(self, name: str) -> Any:
        return self._headers[name].astype(np.int64)

    def __getitem__(self, which: Any) -> Batches:
        """Some of them, in numpy's ways of choosing."""
        return Batches(self.at[which], self._headers[which])

    @property
    def last_offset(self) -> Any:
        return self.base_offset + self.last_offset_delta

    @property
    def is_control(self) -> Any:
        return self.has(CONTROL)

    @property
    def is_transactional(self) -> Any:
        return self.has(TRANSACTIONAL)

    @property
    def is_stamped(self) -> Any:
        """Whether the broker gave the records their time."""
        return self.has(LOG_APPEND_TIME)

    @property
    def codec(self) -> Any:
        return self.attributes & CODEC_MASK

    def has(self, bit: int) -> Any:
        return (self.attributes & bit) != 0

    def boxes(self) -> Iterator[Box]:
        """One by one: what must be known to open each."""
        fields = (getattr(self, name).tolist() for name in Box._fields)
        return starmap(Box, zip(*fields, strict=True))


class Box(NamedTuple):
    """One batch that is to be opened."""

    at: int
    end: int
    base_offset: int
    last_offset_delta: int
    crc: int
    codec: int
    records: int


def walk(data: bytes | memoryview, where: str) -> Batches:
    """The whole batches in these bytes. A cut one at the end is left for the next answer."""
    buffer = np.frombuffer(data, np.uint8)
    found = kernels().hop(buffer, HEADER.size, PREFIX_SIZE, _LENGTH_AT)
    headers = buffer[found[:, None] + np.arange(HEADER.size)].reshape(-1).view(_HEADER)
    _check(headers, where)
    batches = Batches(found, headers)
    _check_empty(memoryview(data), batches, where)
    _check_rest(memoryview(data)[int(batches.end[-1]) if len(batches) else 0 :], where)
    return batches


def _check(headers: Any, where: str) -> None:
    sound = (
        (headers["length"] >= HEADER.size - PREFIX_SIZE)
        & (headers["last_offset_delta"] >= 0)
        & (headers["records"] >= 0)
    )
    for strange in headers[(headers["magic"] != MAGIC) | ~sound][:1]:
        _check_magic(int(strange["magic"]), int(strange["base_offset"]), where)
        raise DamagedRecords(
            f"{where} offset {strange['base_offset']}: "
            f"a batch of {strange['length']} bytes is damaged"
        )


def _check_empty(data: memoryview, batches: Batches, where: str) -> None:
    """Compaction may leave a batch without records. Nobody opens it, so it is looked at here: one
    that denies its records would be passed over as if it were such a one."""
    for box in batches[batches.records == 0].boxes():
        if crc32c(data[box.at + CRC_FROM : box.end]) != box.crc:
            raise DamagedRecords(f"{where} offset {box.base_offset}: its checksum is wrong")


def _check_rest(rest: memoryview, where: str) -> None:
    """Checks the rest: a cut batch, or a message of an old format, which may be shorter."""
    if len(rest) > _MAGIC_AT:
        _check_magic(rest[_MAGIC_AT], int.from_bytes(rest[:_LENGTH_AT], "big", signed=True), where)


def _check_magic(magic: int, offset: int, where: str) -> None:
    if magic != MAGIC:
        raise DamagedRecords(
            f"{where} offset {offset}: written in message format {magic}, and only format 2 "
            "(Kafka 0.11 and later) is read"
        )


class RecordRows:
    """Decoded places of records of one partition: arrays over one buffer, one entry a record."""

    def __init__(self, buffer: Any, area_at: Any, area_end: Any, batches: Batches) -> None:
        self.buffer = buffer
        self.batches = batches
        counts = batches.records
        total = int(counts.sum())
        self.offset, self.time = np.empty(total, np.int64), np.empty(total, np.int64)
        self.key_at, self.key_size = np.empty(total, np.int64), np.empty(total, np.int64)
        self.value_at, self.value_size = np.empty(total, np.int64), np.empty(total, np.int64)
        self.header_at, self.header_end = np.empty(total, np.int64), np.empty(total, np.int64)
        self.header_count = np.empty(total, np.int64)
        self.damaged = kernels().scan(
            buffer,
            area_at,
            area_end,
            counts,
            batches.base_offset,
            batches.base_time,
            np.where(batches.is_stamped, batches.max_time, -1),
            self.offset,
            self.time,
            self.key_at,
            self.key_size,
            self.value_at,
            self.value_size,
            self.header_at,
            self.header_end,
            self.header_count,
        )
        self._batch_of = np.repeat(np.arange(len(batches)), counts)

    def cut(self, first: int, last: int) -> None:
        """Keeps only the rows with offsets in [first, last)."""
        rows = slice(*np.searchsorted(self.offset, (first, last)))
        for name in _ROW_ARRAYS:
            setattr(self, name, getattr(self, name)[rows])

    def pieces(self, rows_max: int, bytes_max: int) -> Iterator[slice]:
        """Runs of rows for one frame each."""
        size = np.maximum(self.key_size, 0) + np.maximum(self.value_size, 0)
        ends = np.cumsum(size)
        at, done = 0, 0
        while at < len(ends):
            stop = int(np.searchsorted(ends, done + bytes_max, side="right"))
            stop = min(max(stop, at + 1), at + rows_max)
            yield slice(at, stop)
            at, done = stop, int(ends[stop - 1])

    def per_batch(self, values: Any, rows: slice) -> Any:
        """A value a batch, repeated for its rows."""
        return values[self._batch_of[rows]]


_ROW_ARRAYS: Final = (
    "offset",
    "time",
    "key_at",
    "key_size",
    "value_at",
    "value_size",
    "header_at",
    "header_end",
    "header_count",
    "_batch_of",
)
