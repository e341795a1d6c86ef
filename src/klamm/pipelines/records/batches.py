"""Arrow frames made into record batches, for the sink and for restoring.

A frame's columns are taken as they lie (offsets and bytes); rows are sorted to their partitions
once, and each partition's open batch grows across frames until it is full or the task ends. Sealing
a batch compresses its records and writes the header; offsets and leader epoch lie outside the
checksum, so the broker stamps them without touching the rest.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from klamm.model.errors import UsageError
from klamm.pipelines.records.kernels import kernels
from klamm.pipelines.records.kernels_numpy import put_varint
from klamm.protocol.batch import (
    CRC_AT,
    CRC_FROM,
    HEADER,
    MAGIC,
    PREFIX_SIZE,
    TRANSACTIONAL,
    compress,
)

# Records without a key go to one partition for so many rows, then to the next: batches stay large.
_KEYLESS_RUN: Final = 1024


class Pieces(NamedTuple):
    """A binary column as places in one buffer; a size of -1 is null."""

    at: Any
    size: Any
    data: Any


class Records(NamedTuple):
    """The columns of a frame as the kernels take them."""

    time: Any
    key: Pieces
    value: Pieces
    headers: Pieces  # already in their final form, one piece a record
    header_count: Any


def pieces_of(column: Any) -> Pieces:
    """A text or binary column of Arrow, sliced or not."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_null(column.type):
        none = np.full(len(column), -1, np.int64)
        return Pieces(np.zeros(len(column), np.int64), none, np.zeros(0, np.uint8))
    if column.type not in (pa.binary(), pa.string()):
        column = pc.cast(column, pa.binary())
    _, offsets, data = column.buffers()
    rows = len(column)
    if offsets is None or rows == 0:
        return Pieces(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8))
    edges = np.frombuffer(offsets, np.int32)[column.offset : column.offset + rows + 1]
    edges = edges.astype(np.int64)
    size = np.diff(edges)
    if column.null_count:
        size[pc.is_null(column).to_numpy(zero_copy_only=False)] = -1
    raw = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    return Pieces(edges[:-1], size, raw)


def no_headers(rows: int) -> tuple[Pieces, Any]:
    """The headers of records that have none."""
    zeros = np.zeros(rows, np.int64)
    return Pieces(zeros, zeros, np.zeros(0, np.uint8)), zeros


def headers_of(column: Any, *, canonical: bool = False) -> tuple[Pieces, Any]:
    """Headers in the form of a record, or in the fixed form that digests are taken of."""
    rows = len(column)
    if column.null_count == rows or pc.sum(pc.list_value_length(column)).as_py() in (0, None):
        return no_headers(rows)
    out = bytearray()
    at, size, count = (np.zeros(rows, np.int64) for _ in range(3))
    for row, headers in enumerate(column.to_pylist()):
        at[row] = len(out)
        for header in headers or ():
            if header is None or header["key"] is None:
                raise UsageError("a row has a header without a key: leave such headers out")
            for piece in (header["key"], header["value"]):
                raw = piece.encode() if isinstance(piece, str) else piece
                length = -1 if raw is None else len(raw)
                if canonical:
                    out += struct.pack(">i", length)
                else:
                    put_varint(out, length)
                out += raw or b""
        count[row] = len(headers or ())
        size[row] = len(out) - at[row]
    return Pieces(at, size, np.frombuffer(bytes(out), np.uint8)), count


def positive_murmur2(key: Pieces) -> Any:
    """The hash of every key, as Kafka's producers take it before the modulo; null keys give 0."""
    rows = len(key.size)
    offsets, data = kernels().gather(key.data, key.at, key.size)
    hashes = np.zeros(rows, np.uint32)
    kernels().murmur2(offsets, data, hashes)
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64)


def choose_partitions(
    partitioner: str, key: Pieces, partitions: int, *, first_row: int, seed: int
) -> Any:
    """A partition for every row. Rows without a key take turns, in runs."""
    rows = np.arange(first_row, first_row + len(key.size))
    turns = (seed + rows // _KEYLESS_RUN) % partitions
    if partitioner == "round-robin":
        return (seed + rows) % partitions
    if partitioner == "crc32":
        raw = key.data.tobytes()
        places = zip(key.at.tolist(), key.size.tolist(), strict=True)
        hashed = np.array([zlib.crc32(raw[a : a + max(n, 0)]) for a, n in places], np.int64)
        return np.where(key.size > 0, hashed % partitions, turns)
    return np.where(key.size >= 0, positive_murmur2(key) % partitions, turns)


def by_partition(partition: Any) -> Iterator[tuple[int, Any]]:
    """The row numbers of each partition, in their order."""
    order = np.argsort(partition, kind="stable")
    sorted_partitions = partition[order]
    edges = np.flatnonzero(np.diff(sorted_partitions)) + 1
    for rows in np.split(order, edges):
        if len(rows):
            yield int(partition[rows[0]]), rows


@dataclass(slots=True)
class OpenBatch:
    """The records of one partition that have not been sent yet."""

    limit: int
    out: Any = field(default_factory=lambda: np.empty(64 << 10, np.uint8))
    size: int = 0
    count: int = 0
    base_time: int = 0
    max_time: int = -1

    def fill(self, records: Records, rows: Any) -> Iterator[OpenBatch]:
        """Takes the rows.

        Hands itself over each time it is full, to be sealed before it goes on.
        """
        place = 0
        while place < len(rows):
            if self.count == 0:
                self.base_time, self.max_time = int(records.time[rows[place]]), -1
            reached, end, newest = kernels().encode(
                rows,
                place,
                self.count,
                self.base_time,
                self.limit,
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
            self.count += reached - place
            self.max_time = max(self.max_time, newest)
            place = reached
            if end < 0:
                self.size = -end - 1
                self._grow(records, int(rows[place]))
                continue
            self.size = end
            if place < len(rows):
                yield self
                self.size = self.count = 0

    def _grow(self, records: Records, row: int) -> None:
        needed = int(
            max(records.key.size[row], 0)
            + max(records.value.size[row], 0)
            + records.headers.size[row]
        )
        larger = np.empty(max(2 * len(self.out), self.size + needed + 64), np.uint8)
        larger[: self.size] = self.out[: self.size]
        self.out = larger

    def seal(
        self,
        codec: int,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        sequence: int = -1,
        transactional: bool = False,
    ) -> bytes:
        """The finished batch, as it is sent."""
        area = memoryview(self.out)[: self.size]
        body = compress(codec, area) if codec else area
        return seal_area(
            body,
            attributes=codec | (TRANSACTIONAL if transactional else 0),
            count=self.count,
            times=(self.base_time, self.max_time),
            producer=(producer_id, producer_epoch, sequence),
        )


class Place(NamedTuple):
    """The place of a batch in a log that it has already: its offsets and who led."""

    base_offset: int
    last_offset: int
    leader_epoch: int


def seal_area(
    area: bytes | memoryview,
    *,
    attributes: int,
    count: int,
    times: tuple[int, int],
    producer: Sequence[int],
    place: Place | None = None,
) -> bytes:
    """Header and records of one batch; the checksum covers all after itself."""
    place = place or Place(0, count - 1, -1)
    header = bytearray(HEADER.size)
    HEADER.pack_into(
        header,
        0,
        place.base_offset,
        HEADER.size + len(area) - PREFIX_SIZE,
        place.leader_epoch,
        MAGIC,
        0,
        attributes,
        place.last_offset - place.base_offset,
        *times,
        *producer,
        count,
    )
    struct.pack_into(">I", header, CRC_AT, crc32c(area, crc32c(header[CRC_FROM:])))
    return b"".join((header, area))
