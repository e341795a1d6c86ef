"""One partition restored: what a task of a restore does, without Spark.

Record number n gets offset n. That makes a task repeatable: it skips what is there, knows the
offset map and the sums of every window without asking, and notices a stranger by the first offset
it did not expect.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from klamm.client.blocking.lookup import Lookup
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive.files import GROUP_BYTES_MAX, Unreadable, read_file
from klamm.pipelines.archive.layout import File, below
from klamm.pipelines.jobs.writing import drafted
from klamm.pipelines.places.remote import Place, place_of
from klamm.pipelines.records.batches import OpenBatch, Records, headers_of, pieces_of
from klamm.pipelines.records.digests import WINDOW, Digests, content_sum
from klamm.pipelines.source.producer import BatchProducer
from klamm.protocol.batch import HEADER

_BATCH_BYTES: Final = 900_000

_STILL_SECONDS: Final = 1.0

_MAP: Final = pa.schema(
    [
        ("source", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("target", pa.int32()),
        ("new_first", pa.int64()),
        ("count", pa.int32()),
        ("source_offsets", pa.list_(pa.int64())),  # null where they have no gaps
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreJob:
    """All that a task must know."""

    connection: ConnectionOptions
    directory: str
    topic: str
    partitions: Mapping[int, Sequence[File]]
    as_of_ms: int | None
    commits: Mapping[int, Sequence[int]]  # offsets that groups have committed, by partition
    map_directory: str
    before: Mapping[int, int] = field(default_factory=dict)  # the first offsets to leave out
    batch_bytes: int | None = None  # what the topic takes at most, where it was told
    group_bytes: int = GROUP_BYTES_MAX  # the memory that a row group may take
    is_checked: bool = True  # somebody has compared the files with the manifest before


def restore_partition(job: RestoreJob, partition: int) -> dict[str, Any]:
    """Writes what is still missing of one partition."""
    tp = TopicPartition(job.topic, partition)
    there = end_at_rest(Lookup(job.connection), tp)
    walk = Walk(job, partition)
    patience_ms = job.connection.patience_ms
    producer = BatchProducer(connection=job.connection, delivery_timeout_ms=patience_ms)
    try:
        send(walk, tp, producer, first=there)
        producer.flush()
    finally:
        producer.close()
    sent = producer.sent.get(tp)
    if there > walk.total or (
        sent and (sent.first_offset, sent.last_offset) != (there, walk.total - 1)
    ):
        raise KlammError(f"somebody else writes to {tp}: restore under a name that is not in use")
    walk.write_map(place_of(job.map_directory))
    return {
        "partition": partition,
        "records": walk.total,
        "skipped": there,
        "bytes": sent.bytes if sent else 0,
        "digests": walk.digests,
        "commits": walk.commits,
    }


class Taker(Protocol):
    """Whoever takes batches."""

    codec: int

    def send(self, tp: TopicPartition, box: OpenBatch) -> None:
        """Seals a batch and takes it."""


def send(walk: Walk, tp: TopicPartition, taker: Taker, *, first: int) -> None:
    """All records of a walk from this number on, in batches."""
    limit = min(_BATCH_BYTES, (walk.job.batch_bytes or _BATCH_BYTES) - HEADER.size)
    box = OpenBatch(limit)
    for frame in walk.frames():
        fresh = frame.slice(max(first - walk.before, 0))
        if fresh.num_rows:
            taker.codec = int(frame.column("codec")[0].as_py())
            for full in box.fill(_records(fresh), np.arange(fresh.num_rows)):
                taker.send(tp, full)
    if box.count:
        taker.send(tp, box)


def end_at_rest(lookup: Lookup, tp: TopicPartition) -> int:
    """The partition's end. After a broken-off run a last request may still be under way."""
    end = lookup.latest([tp])[tp]
    since = time.monotonic()
    while end and time.monotonic() - since < _STILL_SECONDS:
        time.sleep(0.1)
        now = lookup.latest([tp])[tp]
        if now != end:
            end, since = now, time.monotonic()
    return end


class Walk:
    """The records of an archived partition in order, with all that follows from their number."""

    def __init__(self, job: RestoreJob, partition: int) -> None:
        self.job = job
        self._partition = partition
        self._sums = ContentSums()
        self._map: list[dict[str, Any]] = []
        self._smaller = dict.fromkeys(job.commits.get(partition, ()), 0)
        self.before = self.total = 0

    @property
    def digests(self) -> dict[str, str]:
        """The content of each window of new offsets."""
        return self._sums.texts()

    @property
    def commits(self) -> dict[str, int]:
        """Each committed offset's place among the new ones."""
        return {str(old): new for old, new in self._smaller.items()}

    def frames(self) -> Iterator[Any]:
        """The records that readers could see, up to the wanted time or offset."""
        before = self.job.before.get(self._partition)
        for file in self.job.partitions[self._partition]:
            if before is not None and file.first >= before:
                return
            for frame in self._read(file):
                kept = visible(frame, self.job.as_of_ms, before)
                if kept.num_rows == 0:
                    continue
                self._note(kept)
                yield kept

    def _read(self, file: File) -> Iterator[Any]:
        """The frames of a file, which the manifest must know unless that was seen to before."""
        path, digests = below(place_of(self.job.directory), file.path), Digests()
        for frame in read_file(path, rows=file.rows, group_bytes=self.job.group_bytes):
            if not self.job.is_checked:
                digests.add(frame)
            yield frame
        if not self.job.is_checked and digests.named() != file.digests:
            raise Unreadable(f"the archive is damaged: {path} is not what the manifest says")

    def _note(self, frame: Any) -> None:
        offsets = frame.column("offset").to_numpy()
        self.before, self.total = self.total, self.total + len(offsets)
        self._sums.add(frame, self.before)
        for old in self._smaller:
            self._smaller[old] += int(np.searchsorted(offsets, old))
        first, last = int(offsets[0]), int(offsets[-1])
        dense = last - first + 1 == len(offsets)
        self._map.append(
            {
                "source": self._partition,
                "first": first,
                "last": last,
                "target": self._partition,
                "new_first": self.before,
                "count": len(offsets),
                "source_offsets": None if dense else offsets.tolist(),
            }
        )

    def write_map(self, directory: Place) -> None:
        """The offset map of this partition, whole or not at all."""
        with drafted(directory / f"partition-{self._partition}.parquet") as draft:
            pq.write_table(pa.Table.from_pylist(self._map, _MAP), draft)


def visible(frame: Any, as_of_ms: int | None = None, before: int | None = None) -> Any:
    """The rows of a frame that readers could see at that time, or before that offset."""
    keep = pc.invert(pc.or_(frame.column("is_control"), frame.column("is_aborted")))
    if as_of_ms is not None:
        keep = pc.and_(keep, pc.less_equal(frame.column("timestamp_ms"), as_of_ms))
    if before is not None:
        keep = pc.and_(keep, pc.less(frame.column("offset"), before))
    return frame if pc.all(keep).as_py() else frame.filter(keep)  # a filter copies every byte


class ContentSums:
    """Sums over the content of a dense partition, one for each window of offsets."""

    def __init__(self) -> None:
        self._sums: dict[int, int] = {}

    def add(self, frame: Any, first: int) -> None:
        """Takes the rows whose offsets begin with `first`."""
        # A restored topic keeps the times, but not who set them.
        kind = pa.array(np.zeros(frame.num_rows, np.int8))
        frame = frame.set_column(
            frame.schema.get_field_index("timestamp_type"), "timestamp_type", kind
        )
        at = 0
        while at < frame.num_rows:
            window = (first + at) // WINDOW
            count = min((window + 1) * WINDOW - first - at, frame.num_rows - at)
            before = self._sums.get(window, 0)
            self._sums[window] = content_sum(frame.slice(at, count), before)
            at += count

    def texts(self) -> dict[str, str]:
        """The sums by window."""
        return {str(window): f"{total:08x}" for window, total in sorted(self._sums.items())}


def _records(frame: Any) -> Records:
    headers, count = headers_of(frame.column("headers"))
    return Records(
        frame.column("timestamp_ms").to_numpy(),
        pieces_of(frame.column("key")),
        pieces_of(frame.column("value")),
        headers,
        count,
    )
