"""A range of a topic as files of a table: what a task does, without Spark."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from klamm.client.registry.schemas import SchemaPlace
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError
from klamm.pipelines.jobs.writing import not_written
from klamm.pipelines.places.remote import Place, place_of
from klamm.pipelines.records import frames
from klamm.pipelines.records.columns import RowSource
from klamm.pipelines.source.fetcher import RangeReader
from klamm.pipelines.source.options import ReadOptions
from klamm.pipelines.source.ranges import Range
from klamm.pipelines.tables.ddl import type_of
from klamm.pipelines.tables.decoding import (
    AVRO,
    JSON,
    AvroColumns,
    Decoded,
    JsonDecoder,
    RawDecoder,
    ValueDecoder,
)
from klamm.pipelines.tables.names import name_fault
from klamm.pipelines.tables.state import BAD_VALUE, OWN_COLUMNS, TIMESTAMP, DataFile, schema_of

_READ: Final = ("offset", "timestamp_ms", "key", "value", "headers")
_HELD_BYTES: Final = 256 << 20  # rows that wait for their file
_DAYS_MAX: Final = 1000
# The years that calendars, Spark and Python agree on.
_MS_MIN: Final = int(datetime.datetime(1, 1, 2, tzinfo=datetime.UTC).timestamp() * 1000)
_MS_MAX: Final = int(datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC).timestamp() * 1000)
_WITH_STATISTICS: Final = ("kafka_partition", "kafka_offset", TIMESTAMP)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowJob:
    """All that a task must know."""

    connection: ConnectionOptions
    directory: str
    drafts: str | None  # where files wait for their commit; None: they have their place at once
    format: str
    values: str
    columns: Sequence[tuple[str, str]]
    adding: bool
    by_day: bool
    schemas: SchemaPlace
    ranges: Sequence[Range]

    def path(self, day: str | None, name: str) -> str:
        """The path of a file of a day, below the table's directory."""
        return day_path(name, day) if self.by_day and self.format != "iceberg" else f"data/{name}"


def day_path(name: str, day: str | None) -> str:
    """The path of a file in a directory of its day."""
    return f"kafka_day={day or '__HIVE_DEFAULT_PARTITION__'}/{name}"


def follow_range(job: FollowJob, wanted: Range) -> dict[str, Any]:
    """Reads a range and writes its files; only tells of late columns where there are such."""
    decoder = decoder_of(job)
    rows = _Rows(job, wanted, decoder)
    for frame in read_range(job.connection, wanted):
        rows.add(frame)
    rows.flush()
    return {
        "files": [asdict(file) for file in rows.files],
        "late": {n: str_of(k) for n, k in decoder.late.columns.items()},
        "counts": {
            "records": rows.records,
            "bad": rows.bad,
            "ignored": 0 if job.adding else decoder.late.records,
        },
        "bytes": sum(file.bytes for file in rows.files),
    }


def str_of(kind: Any) -> str | None:
    """A late column's type as text; None where nobody asked for it."""
    from klamm.pipelines.tables.ddl import text_of

    return None if kind is None else text_of(kind)


def decoder_of(job: FollowJob) -> ValueDecoder:
    """The decoder of values for this table."""
    columns = {name: type_of(text) for name, text in job.columns}
    more: dict[str, Any] = {
        "adding": job.adding,
        "name_fault": partial(name_fault, job.format),
    }
    match job.values:
        case str(word) if word == JSON:
            return JsonDecoder(columns, **more)
        case str(word) if word == AVRO:
            return AvroColumns(columns, job.schemas, **more)
    return RawDecoder()


def read_range(connection: ConnectionOptions, wanted: Range) -> Iterator[Any]:
    """The frames of a range: what readers of committed records see."""
    return RangeReader(
        range=wanted,
        options=ReadOptions.of_range(connection),
        decoder=frames.Decoder(
            source=RowSource(wanted.topic, wanted.partition),
            position=wanted.start,
            stop=wanted.stop,
            columns=_READ,
            aborted="drop",
            frame_rows=1 << 15,
            frame_bytes=16 << 20,
        ),
        isolation=1,
        advice="--on-loss accept goes on with what is left",
    ).frames()


class _Rows:
    """The rows of a range on their way into files."""

    def __init__(self, job: FollowJob, wanted: Range, decoder: ValueDecoder) -> None:
        self.files: list[DataFile] = []
        self.records = 0
        self.bad = 0
        self._job = job
        self._range = wanted
        self._decoder = decoder
        self._schema = schema_of({name: type_of(text) for name, text in job.columns})
        self._held: list[Any] = []
        self._days: list[Any] = []
        self._size = 0

    def add(self, frame: Any) -> None:
        """Decodes a frame; writes what has come together when it is much."""
        decoded = self._decoder.decode(frame.column("value"))
        self.records += frame.num_rows
        if self._is_in_vain:
            return
        made, days = self._made(frame, decoded)
        self._held.append(made)
        self._days.append(days)
        self._size += made.nbytes
        if self._size >= _HELD_BYTES:
            self.flush()

    @property
    def _is_in_vain(self) -> bool:
        """With late columns the same range will be read again, and files would be too narrow."""
        return self._job.adding and bool(self._decoder.late.columns)

    def flush(self) -> None:
        """Writes files, one a day."""
        if self._held and not self._is_in_vain:
            table = pa.Table.from_batches(self._held, self._schema)
            days = np.concatenate(self._days)
            if not self._job.by_day:
                self._write(table, None)
            else:
                found = np.unique(days)
                if len(found) > _DAYS_MAX:
                    raise KlammError(
                        f"{self._range.topic}-{self._range.partition} has timestamps of "
                        f"{len(found):,} days in one piece: make the table with --partition-by none"
                    )
                for day in found.tolist():
                    whole = len(found) == 1
                    chosen = table if whole else table.filter(pa.array(days == day))
                    self._write(chosen, _day_text(day))
        self._held, self._days, self._size = [], [], 0

    def _made(self, frame: Any, decoded: Decoded) -> tuple[Any, Any]:
        """A frame of the table, and the day of each of its rows."""
        count = frame.num_rows
        ms = frame.column("timestamp_ms").to_numpy()
        reasons, bad = decoded.reasons, pa.nulls(count, pa.binary())
        value = frame.column("value")
        if reasons is not None:
            bad = pc.if_else(pa.array([r is not None for r in reasons]), value, bad)
            self.bad += sum(r is not None for r in reasons)
        known = (ms >= _MS_MIN) & (ms <= _MS_MAX) & (ms != -1)
        if not known.all():
            reasons = _with_times(reasons, ms, known)
        times = pa.array(np.where(known, ms, 0) * 1000, mask=~known).cast(OWN_COLUMNS[TIMESTAMP])
        own = {
            "kafka_partition": pa.repeat(pa.scalar(self._range.partition, pa.int32()), count),
            "kafka_offset": frame.column("offset"),
            TIMESTAMP: times,
            "kafka_key": frame.column("key"),
            "kafka_headers": frame.column("headers"),
            "kafka_tombstone": pc.is_null(value),
            BAD_VALUE: bad,
            "kafka_bad_reason": pa.array(reasons, pa.string())
            if reasons is not None
            else pa.nulls(count, pa.string()),
        }
        arrays = [own[name] for name in OWN_COLUMNS] + decoded.arrays
        days = np.where(known, ms // 86_400_000, _NO_DAY)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema), days

    def _write(self, table: Any, day: str | None) -> None:
        r = self._range
        name = f"{r.partition}-{r.start}-{r.stop}.{os.urandom(4).hex()}.parquet"
        path = self._job.path(day, name)
        self.files.append(
            write_file(place_of(self._job.directory), path, table, day, draft=self._draft(path))
        )

    def _draft(self, path: str) -> str:
        return path if self._job.drafts is None else f"{self._job.drafts}/{Path(path).name}"


_NO_DAY: Final = -(1 << 40)


def _day_text(day: int) -> str | None:
    if day == _NO_DAY:
        return None
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat()


def _with_times(reasons: list[str | None] | None, ms: Any, known: Any) -> list[str | None]:
    """A time that no calendar has is left out, and told. That a record has none is no fault."""
    made: list[str | None] = [None] * len(ms) if reasons is None else list(reasons)
    for at in np.flatnonzero(~known & (ms != -1)).tolist():
        said = f"its timestamp {ms[at]} is outside the years 1 to 9999"
        made[at] = f"{made[at]}; {said}" if made[at] else said
    return made


def write_file(directory: Place, path: str, table: Any, day: str | None, *, draft: str) -> DataFile:
    """Writes one file; it is on the disk when this returns."""
    target = directory / draft
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        options: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
        if isinstance(target, Path):
            pq.write_table(table, target, **options)
            with target.open("rb+") as written:
                os.fsync(written.fileno())
        else:
            with target.open("wb") as out:
                pq.write_table(table, out, **options)
        size = target.stat().st_size
    except OSError as fault:
        raise not_written(fault, target) from None
    return DataFile(path=path, day=day, rows=table.num_rows, bytes=size, stats=statistics_of(table))


def statistics_of(table: Any) -> Mapping[str, Sequence[Any]]:
    """Smallest and largest values, for readers that skip files; and how many are missing."""
    found: dict[str, Sequence[Any]] = {}
    for name in _WITH_STATISTICS:
        column = table.column(name)
        ends = pc.min_max(column).as_py()
        low, high = ends["min"], ends["max"]
        if isinstance(low, datetime.datetime):
            low, high = (_time_text(each) for each in (low, high))
        found[name] = (low, high, column.null_count)
    return found


def _time_text(moment: datetime.datetime) -> str:
    found = moment.astimezone(datetime.UTC).isoformat(timespec="microseconds")
    return found.replace("+00:00", "Z")
