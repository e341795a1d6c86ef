"""Record batches as they lie in a Fetch answer, made into Arrow frames.

The batches of one answer are walked by their headers; their record areas (opened, where compressed)
form one buffer; one kernel call finds where every record's parts lie, and one call a column gathers
them. No Python object a record exists. What an answer holds before and after the asked offsets is
cut off by rows, before anything is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from klamm.model.errors import KlammError, ProtocolError
from klamm.pipelines.kernels import kernels
from klamm.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    HEADER,
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX_SIZE,
    TRANSACTIONAL,
    decompress,
)

_RECORD_BYTES_MIN: Final = 7
# Decompressed bytes that may be held at once: far below the 2 GB that 32-bit offsets reach.
_OPEN_BYTES: Final = 64 << 20


class DamagedRecords(KlammError):
    """Bytes of a partition that cannot be read, with the place."""


class Batch(NamedTuple):
    """The header of one record batch, and where it lies in the answer."""

    at: int
    end: int
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset: int
    base_time: int
    max_time: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


def walk(view: memoryview, at: int, end: int, where: str) -> Iterator[Batch]:
    """The whole batches in these bytes. A cut one at the end is left for the next answer."""
    while end - at >= HEADER.size:
        (base, length, epoch, magic, crc, attributes, last, base_time, max_time, *rest) = (
            HEADER.unpack_from(view, at)
        )
        if magic != MAGIC:
            raise DamagedRecords(
                f"{where} offset {base}: written in message format {magic}, and only format 2 "
                "(Kafka 0.11 and later) is read"
            )
        stop = at + PREFIX_SIZE + length
        if stop > end:
            return
        if length < HEADER.size - PREFIX_SIZE or last < 0:
            raise DamagedRecords(f"{where} offset {base}: a batch of {length} bytes is damaged")
        yield Batch(at, stop, base, epoch, crc, attributes, base + last, base_time, max_time, *rest)
        at = stop


class Rows:
    """Decoded places of records of one partition: arrays over one buffer, one entry a record."""

    def __init__(self, buffer: Any, batches: Sequence[Batch], areas: Sequence[tuple[int, int]]):
        self.buffer = buffer
        self.batches = batches
        counts = np.array([b.records for b in batches], np.int64)
        total = int(counts.sum())
        self.offset, self.time = np.empty(total, np.int64), np.empty(total, np.int64)
        self.key_at, self.key_size = np.empty(total, np.int64), np.empty(total, np.int64)
        self.value_at, self.value_size = np.empty(total, np.int64), np.empty(total, np.int64)
        self.header_at, self.header_end = np.empty(total, np.int64), np.empty(total, np.int64)
        self.header_count = np.empty(total, np.int64)
        self.damaged = kernels().scan(
            buffer,
            np.array([a for a, _ in areas], np.int64),
            np.array([b for _, b in areas], np.int64),
            counts,
            np.array([b.base_offset for b in batches], np.int64),
            np.array([b.base_time for b in batches], np.int64),
            np.array([_fixed_time(b) for b in batches], np.int64),
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

    def per_batch(self, values: Sequence[int], rows: slice) -> Any:
        """A value a batch, repeated for its rows."""
        return np.array(values, np.int64)[self._batch_of[rows]]


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


def _fixed_time(batch: Batch) -> int:
    return batch.max_time if batch.attributes & LOG_APPEND_TIME else -1


def binary_column(buffer: Any, at: Any, size: Any, kind: Any = None) -> Any:
    """The pieces of a buffer as an Arrow column; a size of -1 is null."""
    offsets, data = kernels().gather(buffer, at, size)
    missing = size < 0
    nulls = int(missing.sum())
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(
        kind or pa.binary(),
        len(at),
        [validity, pa.py_buffer(offsets), pa.py_buffer(data)],
        nulls,
    )


def _headers(rows: Rows, part: slice, key_kind: Any, *, empty_is_null: bool) -> Any:
    at, count = rows.header_at[part], rows.header_count[part]
    total = int(count.sum())
    places = [np.empty(total, np.int64) for _ in range(4)]
    damaged = kernels().scan_headers(rows.buffer, at, rows.header_end[part], count, *places)
    if damaged >= 0:
        raise DamagedRecords(f"offset {int(rows.offset[part][damaged])}: its headers are damaged")
    struct_type = pa.struct([("key", key_kind), ("value", pa.binary())])
    entries = pa.StructArray.from_arrays(
        [
            binary_column(rows.buffer, places[0], places[1], key_kind),
            binary_column(rows.buffer, places[2], places[3]),
        ],
        fields=list(struct_type),
    )
    offsets = np.zeros(len(count) + 1, np.int32)
    np.cumsum(count, out=offsets[1:])
    none = count == 0
    validity = None
    if empty_is_null and none.any():
        validity = pa.py_buffer(np.packbits(~none, bitorder="little"))
    return pa.Array.from_buffers(
        pa.list_(pa.field("element", struct_type)),
        len(count),
        [validity, pa.py_buffer(offsets)],
        children=[entries],
    )


@dataclass(frozen=True, slots=True)
class Source:
    """What is the same for every row of a partition, and what the columns may ask about it."""

    topic: str
    partition: int


Column = Callable[[Rows, slice, Source], Any]


def _fixed(kind: Any, pick: Callable[[Batch], int]) -> Column:
    def column(rows: Rows, part: slice, _source: Source) -> Any:
        values = rows.per_batch([pick(b) for b in rows.batches], part)
        return pa.array(values.astype(kind.to_pandas_dtype()), kind)

    return column


def _flag(bit: int) -> Column:
    def column(rows: Rows, part: slice, _source: Source) -> Any:
        values = rows.per_batch([b.attributes & bit for b in rows.batches], part)
        return pa.array(values != 0)

    return column


def _sequence(rows: Rows, part: slice, _source: Source) -> Any:
    base = rows.per_batch([b.base_sequence for b in rows.batches], part)
    first = rows.per_batch([b.base_offset for b in rows.batches], part)
    sequence = np.where(base < 0, -1, (base + rows.offset[part] - first) & 0x7FFFFFFF)
    return pa.array(sequence.astype(np.int32))


def _micros(rows: Rows, part: slice, _source: Source) -> Any:
    ms = rows.time[part]
    if len(ms) and int(np.abs(ms).max()) > (1 << 63) // 1000 - 1:
        raise DamagedRecords("a timestamp does not fit Spark's: read it with records=batches")
    return pa.array(ms * 1000, pa.timestamp("us", tz="UTC"))


def _repeated(kind: Any, pick: Callable[[Source], Any]) -> Column:
    def column(_rows: Rows, part: slice, source: Source) -> Any:
        return pa.repeat(pa.scalar(pick(source), kind), part.stop - part.start)

    return column


_APPENDED: Final[Column] = _fixed(pa.int32(), lambda b: 1 if b.attributes & LOG_APPEND_TIME else 0)
HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
ARCHIVED_HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.binary()), ("value", pa.binary())]))
)

# Every column a frame can have: its Arrow type and how it is made. The names in camel case are
# those of Spark's Kafka connector and klamm's additions to it; the others are the archive's.
COLUMNS: Final[Mapping[str, tuple[Any, Column]]] = {
    "key": (pa.binary(), lambda r, p, _: binary_column(r.buffer, r.key_at[p], r.key_size[p])),
    "value": (pa.binary(), lambda r, p, _: binary_column(r.buffer, r.value_at[p], r.value_size[p])),
    "topic": (pa.string(), _repeated(pa.string(), lambda s: s.topic)),
    "partition": (pa.int32(), _repeated(pa.int32(), lambda s: s.partition)),
    "offset": (pa.int64(), lambda r, p, _: pa.array(r.offset[p])),
    "timestamp": (pa.timestamp("us", tz="UTC"), _micros),
    "timestampType": (pa.int32(), _APPENDED),
    "headers": (HEADERS_TYPE, lambda r, p, _: _headers(r, p, pa.string(), empty_is_null=True)),
    "isControl": (pa.bool_(), _flag(CONTROL)),
    "leaderEpoch": (pa.int32(), _fixed(pa.int32(), lambda b: b.leader_epoch)),
    "producerId": (pa.int64(), _fixed(pa.int64(), lambda b: b.producer_id)),
    "producerEpoch": (pa.int32(), _fixed(pa.int32(), lambda b: b.producer_epoch)),
    "sequence": (pa.int32(), _sequence),
    "isTransactional": (pa.bool_(), _flag(TRANSACTIONAL)),
    "codec": (pa.int32(), _fixed(pa.int32(), lambda b: b.attributes & CODEC_MASK)),
    "timestamp_ms": (pa.int64(), lambda r, p, _: pa.array(r.time[p])),
    "timestamp_type": (
        pa.int8(),
        _fixed(pa.int8(), lambda b: 1 if b.attributes & LOG_APPEND_TIME else 0),
    ),
    "record_headers": (
        ARCHIVED_HEADERS_TYPE,
        lambda r, p, _: _headers(r, p, pa.binary(), empty_is_null=False),
    ),
    "batch_base_offset": (pa.int64(), _fixed(pa.int64(), lambda b: b.base_offset)),
    "batch_last_offset": (pa.int64(), _fixed(pa.int64(), lambda b: b.last_offset)),
    "leader_epoch": (pa.int32(), _fixed(pa.int32(), lambda b: b.leader_epoch)),
    "producer_id": (pa.int64(), _fixed(pa.int64(), lambda b: b.producer_id)),
    "producer_epoch": (pa.int16(), _fixed(pa.int16(), lambda b: b.producer_epoch)),
    "base_sequence": (pa.int32(), _fixed(pa.int32(), lambda b: b.base_sequence)),
    "is_transactional": (pa.bool_(), _flag(TRANSACTIONAL)),
    "is_control": (pa.bool_(), _flag(CONTROL)),
    "batch_codec": (pa.int8(), _fixed(pa.int8(), lambda b: b.attributes & CODEC_MASK)),
}

RAW_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("baseOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("maxTimestampMs", pa.int64()),
        ("recordCount", pa.int32()),
        ("crc", pa.int64()),
        ("raw", pa.binary()),
    ]
)


@dataclass(kw_only=True)
class Decoder:
    """Turns the answers for one range of one partition into frames, and knows what to ask next."""

    source: Source
    position: int
    stop: int
    columns: tuple[str, ...]
    names: tuple[str, ...] | None = None  # other names for the columns of a frame
    control: bool = False
    aborted: str = "keep"  # keep | drop; "mark" adds the column is_aborted
    skip_invalid: bool = False
    frame_rows: int = 16_384
    frame_bytes: int = 8 << 20
    skipped: int = 0

    @cached_property
    def schema(self) -> Any:
        """The schema of every frame."""
        names = self.names or self.columns
        fields = [(n, COLUMNS[c][0]) for n, c in zip(names, self.columns, strict=True)]
        if self.aborted == "mark":
            fields.append(("is_aborted", pa.bool_()))
        return pa.schema(fields)

    @property
    def where(self) -> str:
        """The partition, for messages."""
        return f"{self.source.topic}-{self.source.partition}"

    def feed(
        self, data: Any, at: int, end: int, aborted: Sequence[tuple[int, int]] = ()
    ) -> Iterator[Any]:
        """The frames in these bytes of an answer; moves the position past them at the end."""
        view = memoryview(data)
        group: list[Batch] = []
        undone: set[int] = set()  # where the batches of aborted transactions lie
        fate = _Aborts(aborted)
        reached, held = self.position, 0
        for batch in walk(view, at, end, self.where):
            # A compacted batch may have lost its last records, so its own end counts, not theirs.
            reached = max(reached, min(batch.last_offset + 1, self.stop))
            if fate.is_aborted(batch):
                undone.add(batch.at)
            if not self._wants(batch, undone):
                continue
            group.append(batch)
            held += batch.end - batch.at
            if held >= _OPEN_BYTES:
                yield from self._frames(data, group, undone)
                group, held = [], 0
        yield from self._frames(data, group, undone)
        self.position = reached

    def _wants(self, batch: Batch, undone: set[int]) -> bool:
        return (
            batch.records > 0
            and self.position <= batch.last_offset
            and batch.base_offset < self.stop
            and (self.control or not batch.is_control)
            and (self.aborted != "drop" or batch.at not in undone)
        )

    def _frames(self, data: Any, batches: list[Batch], undone: set[int]) -> Iterator[Any]:
        rows = self._rows(data, batches)
        if rows is None:
            return
        rows.cut(self.position, self.stop)
        marks = [b.at in undone for b in rows.batches]
        for part in rows.pieces(self.frame_rows, self.frame_bytes):
            arrays = [COLUMNS[name][1](rows, part, self.source) for name in self.columns]
            if self.aborted == "mark":
                arrays.append(pa.array(rows.per_batch(marks, part) != 0))
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _rows(self, data: Any, batches: list[Batch]) -> Rows | None:
        """The rows of the sound batches; a damaged one is left out, or an error."""
        opened = [(b, area) for b in batches if (area := self._area(data, b)) is not None]
        while opened:
            buffer, areas = _joined(data, opened)
            rows = Rows(buffer, [b for b, _ in opened], areas)
            if rows.damaged < 0:
                return rows
            self._damaged(opened.pop(rows.damaged)[0], "its records cannot be decoded")
        return None

    def _area(self, data: Any, batch: Batch) -> Any:
        """The records of a batch: a place in the answer, or opened bytes; None when damaged."""
        view = memoryview(data)
        if crc32c(view[batch.at + CRC_FROM : batch.end]) != batch.crc:
            return self._damaged(batch, "its checksum is wrong")
        if batch.records > batch.last_offset - batch.base_offset + 1:
            return self._damaged(batch, f"it claims to hold {batch.records} records")
        codec = batch.attributes & CODEC_MASK
        if codec == 0:
            area: Any = (batch.at + HEADER.size, batch.end)
            size = batch.end - batch.at - HEADER.size
        else:
            try:
                opened = decompress(codec, view[batch.at + HEADER.size : batch.end])
            except ProtocolError as fault:
                return self._damaged(batch, str(fault))
            area, size = np.frombuffer(opened, np.uint8), len(opened)
        # Room is made for as many records as the header says, so that is looked at first.
        if batch.records * _RECORD_BYTES_MIN > size:
            return self._damaged(batch, f"{size} bytes cannot hold {batch.records} records")
        return area

    def _damaged(self, batch: Batch, why: str) -> None:
        if not self.skip_invalid:
            raise DamagedRecords(f"{self.where}: the batch at offset {batch.base_offset}: {why}")
        self.skipped += batch.records


class _Aborts:
    """Which batches belong to transactions that were rolled back."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._open: set[int] = set()

    def is_aborted(self, batch: Batch) -> bool:
        while self._coming and self._coming[-1][0] <= batch.last_offset:
            self._open.add(self._coming.pop()[1])
        if batch.is_control:
            self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open


def _joined(data: Any, opened: Sequence[tuple[Batch, Any]]) -> tuple[Any, list[tuple[int, int]]]:
    """One buffer that holds every record area, and where they lie in it."""
    if all(type(area) is tuple for _, area in opened):
        return data, [area for _, area in opened]
    chunks, areas, at = [], [], 0
    for _, area in opened:
        chunk = data[slice(*area)] if type(area) is tuple else area
        chunks.append(chunk)
        areas.append((at, at + len(chunk)))
        at += len(chunk)
    return np.concatenate(chunks), areas


def raw_frame(data: Any, at: int, end: int, source: Source, first: int, stop: int) -> Any:
    """One row a record batch, undecoded: for `records=batches`."""
    view = memoryview(data)
    found = [
        b
        for b in walk(view, at, end, f"{source.topic}-{source.partition}")
        if b.last_offset >= first and b.base_offset < stop
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([source.topic] * len(found), pa.string()),
            pa.array([source.partition] * len(found), pa.int32()),
            pa.array([b.base_offset for b in found], pa.int64()),
            pa.array([b.last_offset for b in found], pa.int64()),
            pa.array([b.max_time for b in found], pa.int64()),
            pa.array([b.records for b in found], pa.int32()),
            pa.array([b.crc for b in found], pa.int64()),
            pa.array([bytes(view[b.at : b.end]) for b in found], pa.binary()),
        ],
        schema=RAW_SCHEMA,
    )
