"""Record batches as they lie in a Fetch answer: their headers, and where every record's parts are.

Nothing is copied here. `walk` finds the batches by their headers; `Rows` holds, for all records of
some batches, the places of their keys, values and headers in one buffer, found by one kernel call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from klamm.model.errors import KlammError
from klamm.pipelines.kernels import kernels
from klamm.protocol.batch import (
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX_SIZE,
    TRANSACTIONAL,
)


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
