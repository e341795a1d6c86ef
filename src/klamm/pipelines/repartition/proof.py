"""Proof that a copy in other partitions has the same records, each key in its order.

Every record has a hash of 64 bits over its time, key, value and headers. The hashes of all records
are summed up in buckets by the hash of their keys, once in the sources and once in the targets: the
sums do not depend on partitions, offsets or batches, and a record that is lost, doubled or changed
shows in its bucket. The same is done with hashes that also cover where a record came from, which
the targets take from the offset map: so the map is proven as well, and by the map it is counted how
many records come after a later one of their key.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from klamm.pipelines.records.batches import headers_of, pieces_of, positive_murmur2
from klamm.pipelines.records.kernels import kernels
from klamm.pipelines.repartition.maps import Origins, violations

BUCKETS: Final = 64
_NO_KEY: Final = BUCKETS  # a bucket of their own for records without a key
_FIXED_BYTES: Final = 8 + 1 + 4 + 4 + 4
_CHUNK_BYTES: Final = 4 << 20
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_2: Final = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(slots=True)
class Sums:
    """The sums of some records by bucket."""

    count: int = 0
    content: list[int] = field(default_factory=lambda: [0] * (BUCKETS + 1))
    bound: list[int] = field(default_factory=lambda: [0] * (BUCKETS + 1))
    strange: int = 0  # records whose keys lead to another source
    violations: int = 0

    def add(self, other: Sums) -> None:
        """Takes the sums of other records."""
        self.count += other.count
        self.strange += other.strange
        self.violations += other.violations
        for mine, its in ((self.content, other.content), (self.bound, other.bound)):
            for bucket, value in enumerate(its):
                mine[bucket] = (mine[bucket] + value) & 0xFFFFFFFFFFFFFFFF

    def plain(self) -> list[Any]:
        """As JSON has it."""
        return [self.count, self.content, self.bound, self.strange, self.violations]


def add_frame(sums: Sums, frame: Any, source: Any, offsets: Any) -> Any:
    """Adds records that came from these places; returns the hashes of their keys."""
    key = pieces_of(frame.column("key"))
    hashes = positive_murmur2(key)
    bucket = np.where(key.size >= 0, hashes % BUCKETS, _NO_KEY)
    content = record_hashes(frame)
    with np.errstate(over="ignore"):
        place = (source.astype(np.uint64) << np.uint64(48)) ^ offsets.astype(np.uint64)
        bound = _mixed(content ^ _mixed(place * _MIX))
    part = Sums(count=len(offsets))
    for name, values in (("content", content), ("bound", bound)):
        total = np.zeros(BUCKETS + 1, np.uint64)
        np.add.at(total, bucket, values)
        setattr(part, name, [int(value) for value in total])
    sums.add(part)
    return hashes


def _mixed(values: Any) -> Any:
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * _MIX_2
        return values ^ (values >> np.uint64(31))


def record_hashes(frame: Any) -> Any:
    """A hash of every record: two checksums of its canonical form, mixed."""
    time = frame.column("timestamp_ms").to_numpy()
    key, value = pieces_of(frame.column("key")), pieces_of(frame.column("value"))
    column = frame.column("headers")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    headers, count = headers_of(column, canonical=True)
    size = _FIXED_BYTES + sum(np.maximum(p.size, 0) for p in (key, value, headers))
    ends = np.cumsum(size)
    found = np.zeros(len(time), np.uint64)
    at = done = 0
    while at < len(time):
        stop = max(int(np.searchsorted(ends, done + _CHUNK_BYTES, side="right")), at + 1)
        rows = slice(at, stop)
        out = np.empty(int(ends[stop - 1]) - done, np.uint8)
        kernels().canonical(
            time[rows],
            np.zeros(stop - at, np.int8),  # who set the time is not kept
            *(key.at[rows], key.size[rows], key.data),
            *(value.at[rows], value.size[rows], value.data),
            *(headers.at[rows], headers.size[rows], count[rows], headers.data),
            out,
        )
        data, edges = out.data, [0, *(ends[rows] - done).tolist()]
        pieces = [data[first:last] for first, last in pairwise(edges)]
        found[rows] = [crc32c(piece) << 32 | zlib.crc32(piece) for piece in pieces]
        at, done = stop, int(ends[stop - 1])
    return _mixed(found * _MIX)


def sums_of_source(frames: Iterable[Any], source: int, sources: int) -> Sums:
    """The sums of a part of a source."""
    sums = Sums()
    for frame in frames:
        offsets = frame.column("offset").to_numpy()
        hashes = add_frame(sums, frame, np.full(len(offsets), source), offsets)
        has_key = pieces_of(frame.column("key")).size >= 0
        sums.strange += int((has_key & (hashes % sources != source)).sum())
    return sums


def sums_of_target(
    frames: Iterable[Any], target: int, targets: int, origins: Origins, base: int
) -> Sums:
    """The sums of a part of a target that begins at this offset, and what is out of order in it.

    Parts are runs: a later one has later offsets of every source, so that no record of a run can
    come after a later one of another run.
    """
    sums, keys, known = Sums(), [np.empty(0, np.int64)], [np.empty(0, bool)]
    for frame in frames:
        places = frame.column("offset").to_numpy() - base
        inside = places[places < len(origins)]
        if len(inside) < len(places):
            sums.count += len(places) - len(inside)  # more than were copied
            frame = frame.slice(0, len(inside))
        if not len(inside):
            continue
        hashes = add_frame(sums, frame, origins.source[inside], origins.offset[inside])
        has_key = pieces_of(frame.column("key")).size >= 0
        sums.strange += int((has_key & (hashes % targets != target)).sum())
        keys.append(hashes)
        known.append(has_key)
    hashes, is_known = np.concatenate(keys), np.concatenate(known)
    some = Origins(origins.source[: len(hashes)], origins.offset[: len(hashes)])
    sums.violations = violations(some, hashes, is_known)
    return sums


def faults_of(old: Sums, new: Sums, sizes: Sequence[int]) -> list[str]:
    """The differences between both, in words; nothing if the copy is proven."""
    faults = []
    if old.count != new.count or old.count != sum(sizes):
        faults.append(
            f"{old.count:,} records were to be copied, the map has {sum(sizes):,} and the copy "
            f"{new.count:,}"
        )
    for bucket in range(BUCKETS + 1):
        name = "records without a key" if bucket == _NO_KEY else f"key bucket {bucket}"
        if old.content[bucket] != new.content[bucket]:
            faults.append(f"{name}: the records differ")
        elif old.bound[bucket] != new.bound[bucket]:
            faults.append(f"{name}: records are not where the offset map says")
    if new.strange:
        faults.append(f"{new.strange:,} records are in partitions that their keys do not lead to")
    if new.violations:
        faults.append(f"{new.violations:,} records come after a later one of their key")
    return faults
