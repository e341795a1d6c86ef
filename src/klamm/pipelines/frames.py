"""Record batches as they lie in a Fetch answer, made into Arrow frames.

The batches of one answer are walked by their headers; their record areas (opened, where compressed)
form one buffer; one kernel call finds where every record's parts lie, and one call a column gathers
them. No Python object a record exists. What an answer holds before and after the asked offsets is
cut off by rows, before anything is gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from klamm.model.errors import ProtocolError
from klamm.pipelines.columns import COLUMNS, RAW_SCHEMA, Source
from klamm.pipelines.scanning import Batch, DamagedRecords, Rows, walk
from klamm.protocol.batch import (
    CODEC_MASK,
    CRC_FROM,
    HEADER,
    decompress,
)

_RECORD_BYTES_MIN: Final = 7
# Decompressed bytes that may be held at once: far below the 2 GB that 32-bit offsets reach.
_OPEN_BYTES: Final = 64 << 20


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
