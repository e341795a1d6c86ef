"""One window of a source, made into batches for its targets.

Records that readers cannot see are left out. The batches of a target are the same on every attempt;
their offsets are stamped when they are written, for that is not part of their checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from klamm.client.settings import ConnectionOptions
from klamm.pipelines.archive.files import window_frames
from klamm.pipelines.archive.restore_partition import visible
from klamm.pipelines.records.batches import (
    OpenBatch,
    Records,
    by_partition,
    headers_of,
    pieces_of,
    positive_murmur2,
)
from klamm.pipelines.repartition.plan import Reshaping, Stretch
from klamm.pipelines.source.ranges import Range
from klamm.protocol.batch import HEADER

BATCH_BYTES: Final = 512 << 10


class SealedBatch(NamedTuple):
    """A sealed batch without its offset."""

    records: int
    data: bytes


@dataclass(slots=True)
class Chunk:
    """The records of a window that go to one target."""

    target: int
    source: int
    first: int
    time: int
    offsets: Any = field(default_factory=lambda: np.empty(0, np.int64))  # in the source
    batches: list[SealedBatch] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """All that is needed to cut windows into chunks."""

    connection: ConnectionOptions
    ranges: Mapping[int, Range]  # of each source: where it is read
    shape: Reshaping
    batch_bytes: int = BATCH_BYTES


def chunks_of(cutting: Cutting, stretch: Stretch) -> list[Chunk]:
    """The chunks of one window, by target."""
    chunks: dict[int, Chunk] = {}
    boxes: dict[int, OpenBatch] = {}
    codec = 0
    for number, frame in enumerate(frames_of(cutting, stretch)):
        codec = int(frame.column("codec")[0].as_py()) if number == 0 else codec
        offsets = frame.column("offset").to_numpy()
        key = pieces_of(frame.column("key"))
        targets = cutting.shape.target_of(
            stretch.source, positive_murmur2(key), offsets, key.size >= 0
        )
        headers, count = headers_of(frame.column("headers"))
        times = frame.column("timestamp_ms").to_numpy()
        records = Records(times, key, pieces_of(frame.column("value")), headers, count)
        for target, rows in by_partition(targets):
            chunk = chunks.get(target)
            if chunk is None:
                chunk = chunks[target] = Chunk(target, stretch.source, stretch.first, stretch.time)
                boxes[target] = OpenBatch(cutting.batch_bytes - HEADER.size)
            chunk.offsets = np.concatenate((chunk.offsets, offsets[rows]))
            for full in boxes[target].fill(records, rows):
                chunk.batches.append(SealedBatch(full.count, full.seal(codec)))
    for target, box in boxes.items():
        if box.count:
            chunks[target].batches.append(SealedBatch(box.count, box.seal(codec)))
    return [chunks[target] for target in sorted(chunks)]


def frames_of(cutting: Cutting, stretch: Stretch) -> Iterator[Any]:
    """The records of a window that readers see."""
    wanted = replace(cutting.ranges[stretch.source], start=stretch.first, stop=stretch.stop)
    for frame in window_frames(cutting.connection, wanted):
        kept = visible(frame)
        if kept.num_rows:
            yield kept


def packed(batches: list[SealedBatch]) -> tuple[bytes, bytes]:
    """Batches as a row of a table has them: the numbers of records, and the bytes."""
    counts = np.array([batch.records for batch in batches], ">i4").tobytes()
    return counts, b"".join(batch.data for batch in batches)


def unpacked(counts: bytes, data: bytes) -> list[SealedBatch]:
    """The inverse of `packed`."""
    found, at = [], 0
    for count in np.frombuffer(counts, ">i4").tolist():
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        found.append(SealedBatch(count, data[at : at + size]))
        at += size
    return found
