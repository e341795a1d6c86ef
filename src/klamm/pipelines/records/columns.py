"""The columns a frame can have: the Arrow type of each, and how it is made of scanned records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from klamm.pipelines.records.kernels import kernels
from klamm.pipelines.records.scanning import Batches, DamagedRecords, RecordRows
from klamm.protocol.batch import CONTROL, TRANSACTIONAL


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


def _key_column(buffer: Any, at: Any, size: Any, kind: Any) -> Any:
    """The keys of headers. As text they must be sound: others are mended as Java's clients do."""
    keys = binary_column(buffer, at, size, kind)
    if kind != pa.string():
        return keys
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = binary_column(buffer, at, size).to_pylist()
        return pa.array([key.decode(errors="replace") for key in raw], kind)
    return keys


def _headers(rows: RecordRows, part: slice, key_kind: Any, *, empty_is_null: bool) -> Any:
    at, count = rows.header_at[part], rows.header_count[part]
    total = int(count.sum())
    places = [np.empty(total, np.int64) for _ in range(4)]
    damaged = kernels().scan_headers(rows.buffer, at, rows.header_end[part], count, *places)
    if damaged >= 0:
        raise DamagedRecords(f"offset {int(rows.offset[part][damaged])}: its headers are damaged")
    struct_type = pa.struct([("key", key_kind), ("value", pa.binary())])
    entries = pa.StructArray.from_arrays(
        [
            _key_column(rows.buffer, places[0], places[1], key_kind),
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
class RowSource:
    """The values that all rows of a partition share, and what columns may ask about it."""

    topic: str
    partition: int


Column = Callable[[RecordRows, slice, RowSource], Any]


def _fixed(kind: Any, pick: Callable[[Batches], Any]) -> Column:
    def column(rows: RecordRows, part: slice, _source: RowSource) -> Any:
        values = pick(rows.batches).astype(kind.to_pandas_dtype())
        return pa.array(rows.per_batch(values, part), kind)

    return column


def _flag(bit: int) -> Column:
    def column(rows: RecordRows, part: slice, _source: RowSource) -> Any:
        return pa.array(rows.per_batch(rows.batches.has(bit), part))

    return column


def _sequence(rows: RecordRows, part: slice, _source: RowSource) -> Any:
    base = rows.per_batch(rows.batches.base_sequence, part)
    first = rows.per_batch(rows.batches.base_offset, part)
    sequence = np.where(base < 0, -1, (base + rows.offset[part] - first) & 0x7FFFFFFF)
    return pa.array(sequence.astype(np.int32))


_MS_MAX: Final = ((1 << 63) - 1) // 1000


def _micros(rows: RecordRows, part: slice, _source: RowSource) -> Any:
    ms = rows.time[part]
    if len(ms) and not -_MS_MAX <= int(ms.min()) <= int(ms.max()) <= _MS_MAX:
        raise DamagedRecords("a timestamp does not fit Spark's: read it with records=batches")
    return pa.array(ms * 1000, pa.timestamp("us", tz="UTC"))


def _repeated(kind: Any, pick: Callable[[RowSource], Any]) -> Column:
    def column(_rows: RecordRows, part: slice, source: RowSource) -> Any:
        return pa.repeat(pa.scalar(pick(source), kind), part.stop - part.start)

    return column


_APPENDED: Final[Column] = _fixed(pa.int32(), lambda b: b.is_stamped)

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
    "codec": (pa.int32(), _fixed(pa.int32(), lambda b: b.codec)),
    "timestamp_ms": (pa.int64(), lambda r, p, _: pa.array(r.time[p])),
    "timestamp_type": (
        pa.int8(),
        _fixed(pa.int8(), lambda b: b.is_stamped),
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
    "batch_codec": (pa.int8(), _fixed(pa.int8(), lambda b: b.codec)),
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
