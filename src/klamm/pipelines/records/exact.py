"""Archived rows made into the record batches they came in.

Limits, offsets with their gaps, leader epochs, producers, sequences, times, attributes and codecs
are those of the rows. What an archive does not keep is chosen anew, and no reader can tell: how
well a batch was compressed, and from which time the times of its records are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from klamm.pipelines.records.batches import Place, Records, headers_of, pieces_of, seal_area
from klamm.pipelines.records.kernels import kernels
from klamm.protocol.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, compress

_NO_LIMIT: Final = 1 << 62
_DELTA_MAX: Final = (1 << 31) - 2
# The columns that all rows of a batch share, and that a batch is rebuilt from.
BATCH_COLUMNS: Final = (
    "batch_base_offset",
    "batch_last_offset",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "timestamp_type",
    "is_transactional",
    "is_control",
    "codec",
)


class Built(NamedTuple):
    """A batch, and its place."""

    place: Place
    data: bytes


@dataclass(slots=True)
class _Open:
    """A batch whose last row was not seen yet."""

    shared: tuple[int, ...]  # what its rows share, as in BATCH_COLUMNS
    base_time: int
    max_time: int = -1
    out: Any = field(default_factory=lambda: np.empty(16 << 10, np.uint8))
    size: int = 0
    count: int = 0

    def add(self, records: Records, offsets: Any, first: int, stop: int) -> None:
        """Takes rows; each run of offsets without a gap in one go."""
        cuts = np.flatnonzero(np.diff(offsets[first:stop]) != 1) + first + 1
        for start, end in pairwise([first, *cuts.tolist(), stop]):
            self._encode(records, start, end, int(offsets[start]) - self.shared[0])
        self.max_time = max(self.max_time, int(records.time[first:stop].max()))
        self.count += stop - first

    def _encode(self, records: Records, start: int, end: int, delta: int) -> None:
        rows, place = np.arange(end), start
        while place < end:
            reached, size, _ = kernels().encode(
                rows,
                place,
                delta + place - start,
                self.base_time,
                _NO_LIMIT,
                records.time,
                *records.key,
                *records.value,
                records.headers.at,
                records.headers.size,
                records.header_count,
                records.headers.data,
                self.out,
                self.size,
            )
            place = reached
            if size >= 0:
                self.size = size
                continue
            self.size = -size - 1
            self._grow(records, place)

    def _grow(self, records: Records, row: int) -> None:
        parts = (records.key.size[row], records.value.size[row], records.headers.size[row])
        needed = sum(max(int(size), 0) for size in parts)
        larger = np.empty(max(2 * len(self.out), self.size + needed + 64), np.uint8)
        larger[: self.size] = self.out[: self.size]
        self.out = larger

    def seal(self) -> Built:
        base, last, epoch, producer, producer_epoch, sequence, *rest = self.shared
        is_stamped, is_transactional, is_control, codec = rest
        attributes = codec
        attributes |= LOG_APPEND_TIME if is_stamped else 0
        attributes |= TRANSACTIONAL if is_transactional else 0
        attributes |= CONTROL if is_control else 0
        area = memoryview(self.out)[: self.size]
        place = Place(base, last, epoch)
        data = seal_area(
            compress(codec, area) if codec else area,
            attributes=attributes,
            count=self.count,
            times=(self.base_time, self.max_time),
            producer=(producer, producer_epoch, sequence),
            place=place,
        )
        return Built(place, data)


class Rebuilder:
    """Makes batches of frames that come in the order of offsets."""

    def __init__(self) -> None:
        self._open: _Open | None = None
        self.last: Place | None = None  # the last batch that was made

    def feed(self, frame: Any) -> Iterator[Built]:
        """The batches that are complete with these rows."""
        offsets = frame.column("offset").to_numpy()
        bases = frame.column("batch_base_offset").to_numpy()
        if not len(offsets):
            return
        headers, count = headers_of(frame.column("headers"))
        records = Records(
            frame.column("timestamp_ms").to_numpy(),
            pieces_of(frame.column("key")),
            pieces_of(frame.column("value")),
            headers,
            count,
        )
        shared = [frame.column(n).to_numpy(zero_copy_only=False) for n in BATCH_COLUMNS]
        edges = [0, *(np.flatnonzero(np.diff(bases)) + 1).tolist(), len(bases)]
        for first, stop in pairwise(edges):
            if self._open is None or self._open.shared[0] != bases[first]:
                yield from self.close()
                values = tuple(int(column[first]) for column in shared)
                self._open = _Open(values, int(records.time[first]))
            self._open.add(records, offsets, first, stop)

    def close(self) -> Iterator[Built]:
        """The batch that was open, now that no more of its rows come."""
        if self._open is not None:
            built = self._open.seal()
            self.last, self._open = built.place, None
            yield built


def gap(first: int, stop: int, leader_epoch: int) -> Iterator[Built]:
    """Batches without records for offsets behind the last record, as compaction leaves them."""
    while first < stop:
        last = min(stop - 1, first + _DELTA_MAX)
        place = Place(first, last, leader_epoch)
        data = seal_area(
            b"", attributes=0, count=0, times=(-1, -1), producer=(-1, -1, -1), place=place
        )
        yield Built(place, data)
        first = last + 1
