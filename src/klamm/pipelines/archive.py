"""Archiving a topic: every record as a Parquet row, with proof.

The driver plans windows of offsets; each task fetches one window, decodes it into frames, writes
one Parquet file itself and returns a line of manifest. Records never pass through Spark's rows. The
manifest comes last, so that an archive exists whole or not at all; a run that was broken off finds
the finished files of the one before and does the rest.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import klamm
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive_layout import (
    GROUPS,
    TOPIC,
    File,
    Manifest,
    Window,
    directory_of,
    entry_of,
    existing,
    footer_of,
    plan_windows,
    sha256,
)
from klamm.pipelines.cluster import Lookup, View
from klamm.pipelines.digests import Digests, combined, window_offsets
from klamm.pipelines.fetcher import RangeReader
from klamm.pipelines.frames import COLUMNS, Decoder, Source
from klamm.pipelines.options import ConnectionOptions, Position, ReadOptions
from klamm.pipelines.progress import Progress, Silent, watched
from klamm.pipelines.ranges import Range
from klamm.pipelines.selection import ids_of
from klamm.pipelines.session import refuse_speculation
from klamm.pipelines.stream import write_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS: Final = {
    "offset": "offset",
    "timestamp_ms": "timestamp_ms",
    "timestamp_type": "timestamp_type",
    "key": "key",
    "value": "value",
    "headers": "record_headers",
    "batch_base_offset": "batch_base_offset",
    "batch_last_offset": "batch_last_offset",
    "leader_epoch": "leader_epoch",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "base_sequence": "base_sequence",
    "is_transactional": "is_transactional",
    "is_control": "is_control",
    "codec": "batch_codec",
}
SCHEMA: Final = pa.schema(
    [(name, COLUMNS[column][0]) for name, column in _COLUMNS.items()] + [("is_aborted", pa.bool_())]
)
_PLAIN: Final = ("offset", "timestamp_ms", "key", "value", "headers")
_GROUP_ROWS: Final = 262_144
_GROUP_BYTES: Final = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All that a task must know."""

    connection: ConnectionOptions
    directory: str
    topic: str
    topic_id: str
    ranges: Sequence[Range]


@dataclass(frozen=True, slots=True)
class Archived:
    """What a run has done."""

    manifest: Manifest
    manifest_path: Path
    reused: int
    seconds: float


def archive(
    spark: SparkSession,
    connection: ConnectionOptions,
    topic: str,
    root: str | Path,
    *,
    progress: Progress | None = None,
    window: int | None = None,
) -> Archived:
    """Archives everything that committed readers of the topic can see now."""
    refuse_speculation(spark)
    began = time.monotonic()
    lookup = Lookup(connection)
    view = lookup.view([topic])
    if topic not in view.topics:
        raise UsageError(f"there is no topic {topic}")
    starts, ends = _bounds(lookup, view, topic)
    directory = directory_of(root, view.cluster_id, topic, view.topics[topic].id)
    ranges = [
        range_of(view, topic, w)
        for tp in sorted(ends)
        for w in _windows(tp.partition, starts[tp], ends[tp], window)
    ]
    job = Job(
        connection=connection,
        directory=str(directory),
        topic=topic,
        topic_id=view.topics[topic].id,
        ranges=ranges,
    )
    _make_directory(directory)
    files, reused = _run(spark, job, progress or Silent())
    _check_same_topic(lookup, topic, job.topic_id)
    _write_topic(directory, lookup, view, topic)
    _write_groups(directory, lookup, topic)
    manifest = _manifest(job, view.cluster_id, files, starts, ends)
    path = manifest.write()
    return Archived(manifest, path, reused, time.monotonic() - began)


def _windows(partition: int, start: int, end: int, size: int | None) -> list[Window]:
    return (
        plan_windows(partition, start, end, size) if size else plan_windows(partition, start, end)
    )


def _bounds(
    lookup: Lookup, view: View, topic: str
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where each partition begins and ends. Open transactions end it early: they may vanish."""
    tps = view.topics[topic].partitions
    return lookup.earliest(tps), lookup.latest(tps, committed=True)


def range_of(view: View, topic: str, window: Window) -> Range:
    """A window with everything a task needs to read it."""
    tp = TopicPartition(topic, window.partition)
    leader = view.leader(tp)
    return Range(
        topic=topic,
        topic_id=ids_of(view).get(topic, ""),
        partition=window.partition,
        start=window.first,
        stop=window.stop,
        host=leader.address[0],
        port=leader.address[1],
        leader_epoch=leader.epoch,
    )


def _make_directory(directory: Path) -> None:
    try:
        (directory / "data").mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise UsageError(f"cannot write to {directory}: {fault.strerror}") from None


def run_tasks(spark: SparkSession, count: int, work: Callable[[int], Iterable[Any]]) -> list[Any]:
    """Runs `work` for each number in a task of its own; each answer travels as a line of JSON."""
    if count == 0:
        return []

    def tasks(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            for number in frame.column("id").to_pylist():
                answers = [json.dumps(answer) for answer in work(number)]
                yield pa.RecordBatch.from_arrays([pa.array(answers, pa.string())], ["answer"])

    numbers = spark.range(0, count, 1, count)
    rows = numbers.mapInArrow(tasks, "answer string").collect()
    return [json.loads(row.answer) for row in rows]


def _run(spark: SparkSession, job: Job, progress: Progress) -> tuple[list[File], int]:
    total = sum(r.size for r in job.ranges)
    with watched(spark, progress, f"archiving {job.topic}", total) as report:

        def work(number: int) -> Iterable[Any]:
            file, reused = archive_window(job, job.ranges[number])
            report(job.ranges[number].size, file.bytes)
            return [[asdict(file), reused]]

        answers = run_tasks(spark, len(job.ranges), work)
    return [File(**file) for file, _ in answers], sum(reused for _, reused in answers)


def archive_window(job: Job, wanted: Range) -> tuple[File, bool]:
    """One window of one partition into one file; whether an earlier run had done it."""
    directory = Path(job.directory)
    window = Window(wanted.partition, wanted.start, wanted.stop)
    found = existing(directory, job.topic_id, window)
    if found is not None:
        return found, True
    name = f"{window.stem}.{os.urandom(4).hex()}.parquet"
    target = directory / window.directory / name
    draft = target.with_name(f".{name}.draft")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = _write_file(job, wanted, draft, str(target.relative_to(directory)))
        draft.rename(target)
    except OSError as fault:
        raise KlammError(_disk_fault(fault, target)) from None
    finally:
        with suppress(OSError):
            draft.unlink()
    return file, False


def _disk_fault(fault: OSError, target: Path) -> str:
    if fault.errno == errno.ENOSPC:
        return f"the disk is full: {target} was not written; free some room and run again"
    return f"cannot write {target}: {fault.strerror or fault}"


def _write_file(job: Job, wanted: Range, draft: Path, path: str) -> File:
    digests, story = Digests(), _Story(wanted.start)
    options = {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [name for name in SCHEMA.names if name not in _PLAIN],
        "column_encoding": {
            "offset": "DELTA_BINARY_PACKED",
            "timestamp_ms": "DELTA_BINARY_PACKED",
        },
        "data_page_size": 1 << 20,
        "write_page_checksum": True,
    }
    with draft.open("wb") as out:
        with pq.ParquetWriter(out, SCHEMA, **options) as writer:
            for group in _grouped(window_frames(job.connection, wanted)):
                for frame in group:
                    digests.add(frame)
                    story.add(frame)
                writer.write_table(pa.Table.from_batches(group, SCHEMA), row_group_size=_GROUP_ROWS)
            story.close(wanted.stop)
            file = File(
                path=path,
                partition=wanted.partition,
                first=wanted.start,
                last=wanted.stop - 1,
                rows=story.rows,
                records=sum(d.records for d in digests.windows.values()),
                bytes=0,
                sha256="",
                digests={str(n): text for n, text in digests.texts().items()},
                gaps=story.gaps,
                gap_offsets=story.gap_offsets,
                time_min=story.time_min,
                time_max=story.time_max,
            )
            writer.add_key_value_metadata(footer_of(file, job.topic_id))
        out.flush()
        os.fsync(out.fileno())
    return File(**(asdict(file) | {"bytes": draft.stat().st_size, "sha256": sha256(draft)}))


def window_frames(connection: ConnectionOptions, wanted: Range) -> Iterator[Any]:
    """Everything in a range, control records and rolled-back ones included and marked."""
    options = ReadOptions(
        connection=connection,
        streaming=False,
        starting=Position(),
        ending=Position(),
        read_committed=True,
    )
    decoder = Decoder(
        source=Source(wanted.topic, wanted.partition),
        position=wanted.start,
        stop=wanted.stop,
        columns=tuple(_COLUMNS.values()),
        names=tuple(_COLUMNS),
        control=True,
        aborted="mark",
        frame_rows=1 << 16,
        frame_bytes=32 << 20,
    )
    reader = RangeReader(range=wanted, options=options, decoder=decoder, isolation=1)
    return reader.frames()


def _grouped(frames: Iterable[Any]) -> Iterator[list[Any]]:
    """Frames for one row group each."""
    group: list[Any] = []
    rows = size = 0
    for frame in frames:
        group.append(frame)
        rows += frame.num_rows
        size += frame.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


class _Story:
    """What is in a window and what is missing from it."""

    def __init__(self, first: int) -> None:
        self._next = first
        self.rows = 0
        self.gaps: list[tuple[int, int]] = []
        self.gap_offsets = 0
        self.time_min = self.time_max = -1

    def add(self, frame: Any) -> None:
        offsets = frame.column("offset").to_numpy()
        times = frame.column("timestamp_ms").to_numpy()
        steps = np.diff(offsets, prepend=self._next - 1)
        for place in np.flatnonzero(steps > 1).tolist():
            self._gap(int(offsets[place] - steps[place] + 1), int(offsets[place]))
        self._next = int(offsets[-1]) + 1
        self.rows += len(offsets)
        low, high = int(times.min()), int(times.max())
        self.time_min = low if self.time_min < 0 else min(self.time_min, low)
        self.time_max = max(self.time_max, high)

    def close(self, stop: int) -> None:
        if self._next < stop:
            self._gap(self._next, stop)

    def _gap(self, first: int, stop: int) -> None:
        self.gaps.append((first, stop - 1))
        self.gap_offsets += stop - first


def _check_same_topic(lookup: Lookup, topic: str, topic_id: str) -> None:
    now = lookup.view([topic]).topics.get(topic)
    if now is None or now.id != topic_id:
        raise KlammError(
            f"topic {topic} was deleted while it was archived: the archive is not whole"
        )


def _write_topic(directory: Path, lookup: Lookup, view: View, topic: str) -> None:
    leaders = view.topics[topic].leaders
    body = {
        "topic": topic,
        "topic_id": view.topics[topic].id,
        "partitions": len(leaders),
        "configs": lookup.configs(topic),
        "assignments": {str(p): list(leader.replicas) for p, leader in leaders.items() if leader},
        "archived_ms": int(time.time() * 1000),
    }
    write_whole(directory / TOPIC, json.dumps(body, indent=1))


def _write_groups(directory: Path, lookup: Lookup, topic: str) -> None:
    rows = [
        (group, tp.partition, c.offset, c.leader_epoch, c.metadata)
        for group in lookup.groups()
        for tp, c in sorted(lookup.committed(group).items())
        if tp.topic == topic
    ]
    columns = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
    kinds = {
        "group": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "leader_epoch": pa.int32(),
        "metadata": pa.string(),
    }
    table = pa.table({n: pa.array(c, k) for (n, k), c in zip(kinds.items(), columns, strict=True)})
    draft = directory / f".{GROUPS}.draft"
    pq.write_table(table, draft)
    draft.rename(directory / GROUPS)


def _manifest(
    job: Job,
    cluster: str,
    files: Sequence[File],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Manifest:
    entries = {}
    for tp in sorted(ends):
        own = [f for f in files if f.partition == tp.partition]
        texts = [(f.first, int(n), text) for f in own for n, text in f.digests.items()]
        entries[str(tp.partition)] = entry_of(starts[tp], ends[tp], own, combined(texts))
    return Manifest(
        cluster=cluster,
        topic=job.topic,
        topic_id=job.topic_id,
        partitions=entries,
        files=sorted(files, key=lambda f: (f.partition, f.first)),
        schema_fingerprint=hashlib.sha256(str(SCHEMA).encode()).hexdigest()[:16],
        writer=f"klamm {klamm.__version__} / pyarrow {pa.__version__}",
        created_ms=int(time.time() * 1000),
        path=Path(job.directory),
    )


def verify(
    spark: SparkSession, manifest: Manifest, *, progress: Progress | None = None
) -> list[str]:
    """Reads every file back.

    What differs from what the topic was, in words; nothing, if all is well.
    """
    files, directory = manifest.files, str(manifest.path)
    total = sum(f.rows for f in files)
    with watched(spark, progress or Silent(), f"verifying {manifest.topic}", total) as report:

        def work(number: int) -> Iterable[Any]:
            faults = file_faults(Path(directory), files[number])
            report(files[number].rows, files[number].bytes)
            return faults

        return run_tasks(spark, len(files), work)


def file_faults(directory: Path, file: File) -> list[str]:
    """What is wrong with one file."""
    path = directory / file.path
    if not path.exists():
        return [f"{file.path} is missing"]
    faults = [] if sha256(path) == file.sha256 else [f"{file.path} is not as it was written"]
    digests = Digests()
    try:
        for frame in read_file(path):
            digests.add(frame)
    except (OSError, pa.ArrowException) as fault:
        reason = str(fault).splitlines()[0]
        faults.append(f"{file.path} cannot be read after {_last(digests)}: {reason}")
        return faults
    found = {str(n): text for n, text in digests.texts().items()}
    faults += [
        f"partition {file.partition}, {window_offsets(int(n))}: the records differ"
        for n in sorted(found.keys() | file.digests.keys(), key=int)
        if found.get(n) != file.digests.get(n)
    ]
    return faults


def _last(digests: Digests) -> str:
    return window_offsets(max(digests.windows)) if digests.windows else "its beginning"


def read_file(path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """The frames of a data file, page checksums checked."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        yield from file.iter_batches(1 << 16, columns=columns, use_threads=False)
