"""Many small files of a day become few large ones. The records stay the same, in the same order."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from klamm.pipelines.jobs.progress import Progress, watched
from klamm.pipelines.jobs.tasks import run_tasks
from klamm.pipelines.places.place import for_arrow
from klamm.pipelines.places.remote import place_of
from klamm.pipelines.tables.cleaning import settle
from klamm.pipelines.tables.state import Conflict, DataFile, Snapshot, Table, schema_of
from klamm.pipelines.tables.task import day_path, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL_BYTES: Final = 32 << 20
_FILE_BYTES: Final = 128 << 20
_DUE_FILES: Final = 32  # small files of one day


def is_due(seen: Snapshot) -> bool:
    """Whether a day has so many small files that readers feel it."""
    return any(len(files) >= _DUE_FILES for files in _small(seen).values())


def _small(seen: Snapshot) -> dict[str | None, list[DataFile]]:
    found: dict[str | None, list[DataFile]] = defaultdict(list)
    for file in seen.files:
        if file.bytes < _SMALL_BYTES:
            found[file.day].append(file)
    return found


def _bins(seen: Snapshot) -> list[list[DataFile]]:
    """Files that become one."""
    bins: list[list[DataFile]] = []
    for _, files in sorted(_small(seen).items(), key=lambda item: item[0] or ""):
        size = 0
        current: list[DataFile] = []
        for file in files:
            if current and size + file.bytes > _FILE_BYTES:
                bins.append(current)
                current, size = [], 0
            current.append(file)
            size += file.bytes
        bins.append(current)
    return [each for each in bins if len(each) > 1]


def compact(spark: SparkSession, table: Table, seen: Snapshot, progress: Progress) -> Snapshot:
    """The table with fewer files; as it is where nothing is to be gained."""
    bins = _bins(seen)
    if not bins:
        return seen
    if table.format == "delta":
        return table.replace(seen, [file for each in bins for file in each], [])
    made = _rewritten(spark, table, seen, bins, progress)
    try:
        return table.replace(seen, [file for each in bins for file in each], made)
    except Conflict:
        if (ours := settle(table, made)) is None:
            raise
        return ours


def _rewritten(
    spark: SparkSession,
    table: Table,
    seen: Snapshot,
    bins: Sequence[Sequence[DataFile]],
    progress: Progress,
) -> list[DataFile]:
    directory, drafts, schema = str(table.place), table.drafts, schema_of(seen.columns)
    in_days = seen.state.by_day and table.format != "iceberg"
    total = sum(file.rows for files in bins for file in files)
    with watched(spark, progress, "compacting", total) as report:

        def work(number: int) -> Iterable[Any]:
            files = bins[number]
            name = f"compacted.{os.urandom(4).hex()}.parquet"
            path = day_path(name, files[0].day) if in_days else f"data/{name}"
            draft = path if drafts is None else f"{drafts}/{name}"
            tables = [_read(directory, file.path, schema) for file in files]
            rows = pa.concat_tables(tables).sort_by(
                [("kafka_partition", "ascending"), ("kafka_offset", "ascending")]
            )
            made = write_file(place_of(directory), path, rows, files[0].day, draft=draft)
            report(made.rows, made.bytes)
            return [asdict(made)]

        answers = run_tasks(spark, len(bins), work)
    return [DataFile(**answer) for answer in answers]


def _read(directory: str, path: str, schema: Any) -> Any:
    """A file with all columns that the table has by now."""
    place = place_of(directory) / str(PurePosixPath(path))
    with pq.ParquetFile(for_arrow(place)) as file:
        rows = file.read()
    missing = {
        f.name: pa.nulls(rows.num_rows, f.type) for f in schema if f.name not in rows.schema.names
    }
    for name, column in missing.items():
        rows = rows.append_column(schema.field(name), column)
    return rows.select(schema.names).cast(schema)
