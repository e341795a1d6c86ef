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
from klamm.pipelines.records.columns import COLUMNS, RAW_SCHEMA, RowSource
from klamm.pipelines.records.scanning import Batches, Box, DamagedRecords, RecordRows
from klamm.protocol.batch import CRC_FROM, HEADER, decompress

_RECORD_BYTES_MIN: Final = 7
# Decompressed bytes that may be held at once: far below the 2 GB that 32-bit offsets reach.
_OPEN_BYTES: Final = 64 << 20


@dataclass(kw_only=True)
class Decoder:
    """Turns the answers for one range of one partition into frames, and knows what to ask next."""

    source: RowSource
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
        self, data: Any, batches: Batches, aborted: Sequence[tuple[int, int]] = ()
    ) -> Iterator[Any]:
        """The frames in these batches of an answer; moves the position past them at the end."""
        undone = _aborted(batches, aborted)
        reached = self.after(batches)
        wanted = self._wanted(batches, undone)
        batches, undone = batches[wanted], undone[wanted]
        for group in _groups(batches):
            yield from self._frames(data, batches[group], undone[group])
        self.position = reached

    def after(self, batches: Batches) -> int:
        """The position when these batches have been read.

        A compacted batch may have lost its last records, so its own end counts, not theirs.
        """
        if not len(batches):
            return self.position
        return max(self.position, min(int(batches.last_offset.max()) + 1, self.stop))

    def _wanted(self, batches: Batches, undone: Any) -> Any:
        wanted = (
            (batches.records > 0)
            & (batches.last_offset >= self.position)
            & (batches.base_offset < self.stop)
        )
        if not self.control:
            wanted &= ~batches.is_control
        if self.aborted == "drop":
            wanted &= ~undone
        return wanted

    def _frames(self, data: Any, batches: Batches, undone: Any) -> Iterator[Any]:
        rows = self._rows(data, batches)
        if rows is None:
            return
        rows.cut(self.position, self.stop)
        marks = undone[np.isin(batches.at, rows.batches.at)]
        for part in rows.pieces(self.frame_rows, self.frame_bytes):
            arrays = [COLUMNS[name][1](rows, part, self.source) for name in self.columns]
            if self.aborted == "mark":
                arrays.append(pa.array(rows.per_batch(marks, part)))
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _rows(self, data: Any, batches: Batches) -> RecordRows | None:
        """The rows of the sound batches; a damaged one is left out, or an error."""
        view = memoryview(data)
        spans = zip((batches.at + CRC_FROM).tolist(), batches.end.tolist(), strict=True)
        sums = [crc32c(view[at:end]) for at, end in spans]
        if _all_lie_open(batches, sums):
            rows = RecordRows(data, batches.at + HEADER.size, batches.end, batches)
            if rows.damaged < 0:
                return rows
        boxes = list(batches.boxes())
        areas = [self._area(view, box, found) for box, found in zip(boxes, sums, strict=True)]
        sound = [n for n, area in enumerate(areas) if area is not None]
        while sound:
            rows = RecordRows(*_joined(data, [areas[n] for n in sound]), batches[sound])
            if rows.damaged < 0:
                return rows
            self._damaged(boxes[sound.pop(rows.damaged)], "its records cannot be decoded")
        return None

    def _area(self, view: memoryview, box: Box, found: int) -> Any:
        """The records of a batch: a place in the answer, or opened bytes; None when damaged."""
        if found != box.crc:
            return self._damaged(box, "its checksum is wrong")
        if box.records > box.last_offset_delta + 1:
            return self._damaged(box, f"it claims to hold {box.records} records")
        if box.codec == 0:
            area: Any = (box.at + HEADER.size, box.end)
            size = box.end - box.at - HEADER.size
        else:
            try:
                opened = decompress(box.codec, view[box.at + HEADER.size : box.end])
            except ProtocolError as fault:
                return self._damaged(box, str(fault))
            area, size = np.frombuffer(opened, np.uint8), len(opened)
        # Room is made for as many records as the header says, so that is looked at first.
        if box.records * _RECORD_BYTES_MIN > size:
            return self._damaged(box, f"{size} bytes cannot hold {box.records} records")
        return area

    def _damaged(self, box: Box, why: str) -> None:
        if not self.skip_invalid:
            raise DamagedRecords(f"{self.where}: the batch at offset {box.base_offset}: {why}")
        self.skipped += box.records


def _all_lie_open(batches: Batches, sums: list[int]) -> bool:
    """Whether these batches are sound by their headers and not compressed, as most are."""
    sound = (
        (batches.crc == np.array(sums, np.int64))
        & (batches.codec == 0)
        & (batches.records <= batches.last_offset_delta + 1)
        & (batches.records * _RECORD_BYTES_MIN <= batches.end - batches.at - HEADER.size)
    )
    return bool(sound.all())


def _groups(batches: Batches) -> Iterator[slice]:
    """Runs of batches that may be open at once."""
    held = np.cumsum(batches.end - batches.at)
    at, done = 0, 0
    while at < len(held):
        stop = max(int(np.searchsorted(held, done + _OPEN_BYTES, side="right")), at + 1)
        yield slice(at, stop)
        at, done = stop, int(held[stop - 1])


def _aborted(batches: Batches, aborted: Sequence[tuple[int, int]]) -> Any:
    """The batches of rolled-back transactions: (producer, first offset)."""
    found = np.zeros(len(batches), bool)
    if not aborted:
        return found
    coming = sorted(((first, producer) for producer, first in aborted), reverse=True)
    open_now: set[int] = set()
    ends, producers = batches.last_offset.tolist(), batches.producer_id.tolist()
    for n, is_control in enumerate(batches.is_control.tolist()):
        while coming and coming[-1][0] <= ends[n]:
            open_now.add(coming.pop()[1])
        if is_control:
            open_now.discard(producers[n])
        else:
            found[n] = producers[n] in open_now
    return found & batches.is_transactional


def _joined(data: Any, areas: Sequence[Any]) -> tuple[Any, Any, Any]:
    """One buffer that holds every record area, where they begin in it and where they end."""
    if all(type(area) is tuple for area in areas):
        at, end = np.array(areas, np.int64).T.copy()
        return data, at, end
    chunks = [data[slice(*area)] if type(area) is tuple else area for area in areas]
    end = np.cumsum([len(chunk) for chunk in chunks])
    return np.concatenate(chunks), np.concatenate(([0], end[:-1])), end


def raw_frame(data: Any, batches: Batches, source: RowSource, first: int, stop: int) -> Any:
    """One row a record batch, undecoded: for `records=batches`."""
    view = memoryview(data)
    found = batches[(batches.last_offset >= first) & (batches.base_offset < stop)]
    spans = zip(found.at.tolist(), found.end.tolist(), strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(source.topic), len(found)),
            pa.repeat(pa.scalar(source.partition, pa.int32()), len(found)),
            pa.array(found.base_offset),
            pa.array(found.last_offset),
            pa.array(found.max_time),
            pa.array(found.records, pa.int32()),
            pa.array(found.crc),
            pa.array([bytes(view[at:end]) for at, end in spans], pa.binary()),
        ],
        schema=RAW_SCHEMA,
    )
