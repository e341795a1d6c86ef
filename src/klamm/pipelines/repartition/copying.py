"""One run of the copy on Spark: everything between two lines of offsets.

Where one count divides the other a task reads whole windows and writes the targets that only they
feed. Otherwise windows are cut into chunks by some tasks, Spark brings the chunks of a target
together and in order, and one task for each target writes them. Records never become rows: a row is
a chunk, with its batches compressed already.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from klamm.pipelines.jobs.progress import Progress, watched
from klamm.pipelines.jobs.tasks import run_tasks
from klamm.pipelines.repartition.chunks import Chunk, Cutting, chunks_of, packed, unpacked
from klamm.pipelines.repartition.plan import Stretch, Way
from klamm.pipelines.repartition.writing import Destination, TargetWriter
from klamm.pipelines.session.lazily import is_small
from klamm.pipelines.session.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ROWS: Final = "8"  # a row may have many megabytes
_SCHEMA: Final = pa.schema(
    [
        ("target", pa.int32()),
        ("time", pa.int32()),
        ("source", pa.int32()),
        ("first", pa.int64()),
        ("offsets", pa.binary()),
        ("counts", pa.binary()),
        ("data", pa.binary()),
    ]
)
_DDL: Final = (
    "target int, time int, source int, first bigint, offsets binary, counts binary, data binary"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All that the tasks of one run must know."""

    cutting: Cutting
    destination: Destination
    stretches: Sequence[Stretch]
    bases: Mapping[int, int]  # how many records each target had before
    map_directory: str


def copy(spark: SparkSession, run: Run, progress: Progress, what: str) -> dict[int, int]:
    """Copies; how many records each target got."""
    total = sum(s.stop - s.first for s in run.stretches)
    with watched(spark, progress, what, total) as report:
        if run.cutting.shape.way is Way.SHUFFLE:
            answers = _shuffled(spark, run, report)
        else:
            answers = _direct(spark, run, report)
    counts = dict.fromkeys(range(run.cutting.shape.targets), 0)
    counts.update({answer["target"]: answer["count"] for answer in answers})
    return counts


def _direct(
    spark: SparkSession, run: Run, report: Callable[[int, int], None]
) -> list[dict[str, Any]]:
    sources = sorted({stretch.source for stretch in run.stretches})
    tasks = [t for t in run.cutting.shape.tasks(sources) if t]

    def work(number: int) -> Iterator[Any]:
        own = [s for s in run.stretches if s.source in tasks[number]]
        writers: dict[int, TargetWriter] = {}
        try:
            for stretch in own:
                for chunk in chunks_of(run.cutting, stretch):
                    _writer(writers, run, chunk.target).write(chunk)
                report(stretch.stop - stretch.first, 0)
            for writer in writers.values():
                yield writer.finish(Path(run.map_directory))
        finally:
            for writer in writers.values():
                writer.close()

    return run_tasks(spark, len(tasks), work)


def _writer(writers: dict[int, TargetWriter], run: Run, target: int) -> TargetWriter:
    if target not in writers:
        writers[target] = TargetWriter(run.destination, target, run.bases[target])
    return writers[target]


def _shuffled(
    spark: SparkSession, run: Run, report: Callable[[int, int], None]
) -> list[dict[str, Any]]:
    stretches, cutting = run.stretches, run.cutting
    if not stretches:
        return []
    if is_small(spark):
        return _shuffled_here(run, report)

    def cut(frames: Iterator[Any]) -> Iterator[Any]:
        begin_task()
        for frame in frames:
            for number in frame.column("id").to_pylist():
                for chunk in chunks_of(cutting, stretches[number]):
                    yield _row(chunk)
                report(stretches[number].stop - stretches[number].first, 0)

    def write(frames: Iterator[Any]) -> Iterator[Any]:
        begin_task()
        answers = [json.dumps(answer) for answer in _written(run, frames)]
        yield pa.RecordBatch.from_arrays([pa.array(answers, pa.string())], ["answer"])

    before = spark.conf.get(_ROWS_SETTING)
    spark.conf.set(_ROWS_SETTING, _ROWS)
    try:
        numbers = spark.range(0, len(stretches), 1, len(stretches))
        chunks = _gathered(numbers.mapInArrow(cut, _DDL), cutting.shape.targets)
        rows = chunks.mapInArrow(write, "answer string").collect()
    finally:
        if before is not None:
            spark.conf.set(_ROWS_SETTING, before)
    return [json.loads(row.answer) for row in rows]


def _shuffled_here(run: Run, report: Callable[[int, int], None]) -> list[dict[str, Any]]:
    """The same without Spark, for what fits into memory many times."""
    rows = []
    for stretch in run.stretches:
        rows += [_row(chunk) for chunk in chunks_of(run.cutting, stretch)]
        report(stretch.stop - stretch.first, 0)
    names = ("target", "time", "source", "first")
    order = [tuple(row.column(name)[0].as_py() for name in names) for row in rows]
    in_order = sorted(range(len(rows)), key=order.__getitem__)
    return list(_written(run, (rows[at] for at in in_order)))


def _gathered(chunks: DataFrame, targets: int) -> DataFrame:
    """The chunks of each target in one task, in order."""
    by_id = getattr(chunks, "repartitionById", None)
    together = by_id(targets, "target") if by_id else chunks.repartition(targets, "target")
    return together.sortWithinPartitions("target", "time", "source", "first")


def _row(chunk: Chunk) -> Any:
    counts, data = packed(chunk.batches)
    offsets = chunk.offsets.astype(np.int64).tobytes()
    values = (chunk.target, chunk.time, chunk.source, chunk.first, offsets, counts, data)
    arrays = [pa.array([value], kind.type) for value, kind in zip(values, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _written(run: Run, frames: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """Writes the chunks of one task: of one target after the other."""
    writer: TargetWriter | None = None
    try:
        for frame in frames:
            for row in frame.to_pylist():
                if writer is not None and writer.target != row["target"]:
                    yield writer.finish(Path(run.map_directory))
                    writer = None
                if writer is None:
                    writer = TargetWriter(run.destination, row["target"], run.bases[row["target"]])
                offsets = np.frombuffer(row["offsets"], np.int64)
                chunk = Chunk(row["target"], row["source"], row["first"], row["time"], offsets)
                chunk.batches = unpacked(row["counts"], row["data"])
                writer.write(chunk)
        if writer is not None:
            yield writer.finish(Path(run.map_directory))
    finally:
        if writer is not None:
            writer.close()
