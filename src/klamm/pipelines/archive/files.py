"""One window of a partition, one Parquet file: what a task of an archive does, without Spark.

A file is written under a draft's name, carries its own description in its footer, and gets its name
when all of it is on the disk. Whether one of an earlier run will do is for `archive_reuse` to say.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError
from klamm.pipelines.archive.behind import Follower
from klamm.pipelines.archive.layout import (
    File,
    Window,
    below,
    data_name,
    footer_of,
    sha256,
)
from klamm.pipelines.archive.parquet_pages import PageFault, group_costs
from klamm.pipelines.jobs.writing import disk_fault
from klamm.pipelines.places.place import for_arrow
from klamm.pipelines.places.remote import Place, RemotePath, place_of, relative
from klamm.pipelines.records.columns import COLUMNS, RowSource
from klamm.pipelines.records.digests import Digests, window_offsets
from klamm.pipelines.records.frames import Decoder
from klamm.pipelines.session.prefetch import prefetched
from klamm.pipelines.source.fetcher import RangeReader
from klamm.pipelines.source.options import ReadOptions
from klamm.pipelines.source.ranges import Range

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

FRAME: Final = pa.schema(
    [(name, COLUMNS[column][0]) for name, column in _COLUMNS.items()] + [("is_aborted", pa.bool_())]
)

_NULLABLE: Final = ("key", "value")

# Where values may be missing, Parquet keeps a mark for each that is there: it takes time.
SCHEMA: Final = pa.schema([field.with_nullable(field.name in _NULLABLE) for field in FRAME])

_PLAIN: Final = ("offset", "timestamp_ms", "key", "value", "headers")

# By these readers skip what they do not want; of the others nothing is to be learned.
_WITH_STATISTICS: Final = ["offset", "timestamp_ms"]

_GROUP_ROWS: Final = 262_144

_GROUP_BYTES: Final = 128 << 20

# What is read may have groups of so many bytes: a full one, its last frame, and one huge record.
GROUP_BYTES_MAX: Final = 1 << 30

_GROUPS_BYTES_MAX: Final = 256 << 20  # of texts in the file with committed offsets

_FIRST_SHARE: Final = 1 / 8  # how much of a full group the first one holds


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveJob:
    """All that a task must know."""

    connection: ConnectionOptions
    directory: str
    topic: str
    topic_id: str
    ranges: Sequence[Range]
    compacted: bool = False
    named: Mapping[str, str] = field(default_factory=dict)  # by the manifest, with their checksums
    checked: Mapping[str, File] = field(default_factory=dict)  # files that are known to be right


def archive_window(job: ArchiveJob, wanted: Range) -> File:
    """One window of one partition into one file."""
    directory = place_of(job.directory)
    window = Window(wanted.partition, wanted.start, wanted.stop)
    place = directory / window.directory
    if isinstance(place, RemotePath):
        return _archive_away(job, wanted, window, place)
    draft = place / f".{window.stem}.{os.urandom(4).hex()}.draft"
    try:
        place.mkdir(parents=True, exist_ok=True)
        file = write_file(window_frames(job.connection, wanted), wanted, job.topic_id, draft)
        target = place / data_name(window, file.sha256)
        draft.rename(target)
    except OSError as fault:
        raise KlammError(disk_fault(fault, place / f"{window.stem}.parquet")) from None
    finally:
        with suppress(OSError):
            draft.unlink()
    return replace(file, path=relative(target, directory))


def _archive_away(job: ArchiveJob, wanted: Range, window: Window, place: RemotePath) -> File:
    """The same for a store: the file is made here, and sent when it is whole."""
    with TemporaryDirectory(prefix="klamm-") as here:
        draft = Path(here) / "window.parquet"
        try:
            file = write_file(window_frames(job.connection, wanted), wanted, job.topic_id, draft)
            target = place / data_name(window, file.sha256)
            target.upload(draft)
        except OSError as fault:
            raise KlammError(disk_fault(fault, place / f"{window.stem}.parquet")) from None
    return replace(file, path=f"{window.directory.as_posix()}/{target.name}")


def write_file(frames: Iterable[Any], wanted: Range, topic_id: str, draft: Path) -> File:
    """The frames of a window as a data file, which has no name yet."""
    digests, story = Digests(), _Story(wanted.start)
    options = {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [name for name in SCHEMA.names if name not in _PLAIN],
        "column_encoding": {
            "offset": "DELTA_BINARY_PACKED",
            "timestamp_ms": "DELTA_BINARY_PACKED",
        },
        "write_statistics": _WITH_STATISTICS,
        "data_page_size": 1 << 20,
        "write_page_checksum": True,
    }
    # Arrow's own file: through Python's every page would wait for the interpreter, which decoding
    # needs as well.
    with pa.OSFile(str(draft), "wb") as out, Follower(draft) as follower:
        with pq.ParquetWriter(out, SCHEMA, **options) as writer:
            for group in prefetched(_grouped(_noted(frames, digests, story))):
                columns = pa.Table.from_batches(group, FRAME).columns
                table = pa.Table.from_arrays(columns, schema=SCHEMA)
                writer.write_table(table, row_group_size=_GROUP_ROWS)
                follower.reached(out.tell())
            story.close(wanted.stop)
            file = File(
                path="",
                partition=wanted.partition,
                first=wanted.start,
                last=wanted.stop - 1,
                rows=story.rows,
                records=sum(d.records for d in digests.windows.values()),
                bytes=0,
                sha256="",
                digests=digests.named(),
                gaps=story.gaps,
                gap_offsets=story.gap_offsets,
                time_min=story.time_min,
                time_max=story.time_max,
            )
            writer.add_key_value_metadata(footer_of(file, topic_id))
        return replace(file, sha256=follower.finish(out.tell()), bytes=out.tell())


def window_frames(connection: ConnectionOptions, wanted: Range) -> Iterator[Any]:
    """Everything in a range, control records and rolled-back ones included and marked."""
    return RangeReader(
        range=wanted,
        options=ReadOptions.of_range(connection),
        decoder=decoder_of(wanted),
        isolation=1,
        advice="run it again: it begins where the topic does now",
    ).frames()


def decoder_of(wanted: Range) -> Decoder:
    """The decoder that makes an archive's rows of a range."""
    return Decoder(
        source=RowSource(wanted.topic, wanted.partition),
        position=wanted.start,
        stop=wanted.stop,
        columns=tuple(_COLUMNS.values()),
        names=tuple(_COLUMNS),
        control=True,
        aborted="mark",
        frame_rows=1 << 16,
        frame_bytes=32 << 20,
    )


def _noted(frames: Iterable[Any], digests: Digests, story: _Story) -> Iterator[Any]:
    """The frames, each written down before it goes on."""
    for frame in frames:
        digests.add(frame)
        story.add(frame)
        yield frame


def _grouped(frames: Iterable[Any]) -> Generator[list[Any], None, None]:
    """Frames for one row group each.

    Groups grow from small to full, because nothing is written before the first is complete.
    """
    group: list[Any] = []
    rows = size = 0
    share = _FIRST_SHARE
    for frame in frames:
        group.append(frame)
        rows += frame.num_rows
        size += frame.nbytes
        if rows >= _GROUP_ROWS * share or size >= _GROUP_BYTES * share:
            yield group
            group, rows, size = [], 0, 0
            share = min(2 * share, 1.0)
    if group:
        yield group


class _Story:
    """The records of a window and the gaps in it."""

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
        known = times[times >= 0]  # a record may have no time
        if len(known):
            low = int(known.min())
            self.time_min = low if self.time_min < 0 else min(self.time_min, low)
            self.time_max = max(self.time_max, int(known.max()))

    def close(self, stop: int) -> None:
        if self._next < stop:
            self._gap(self._next, stop)

    def _gap(self, first: int, stop: int) -> None:
        self.gaps.append((first, stop - 1))
        self.gap_offsets += stop - first


class Unreadable(KlammError):
    """A data file that is not what was written."""


def file_faults(directory: Place, file: File, group_bytes: int = GROUP_BYTES_MAX) -> list[str]:
    """The faults of one file."""
    path = directory / file.path
    if path.exists() and not path.is_file():
        return [f"{file.path} is no file"]
    try:
        below(directory, file.path)
        faults = [] if sha256(path) == file.sha256 else [f"{file.path} is not as it was written"]
    except FileNotFoundError:
        return [f"{file.path} is missing"]
    except OSError as fault:
        return [f"{file.path} cannot be read: {fault.strerror}"]
    digests = Digests()
    try:
        for frame in read_file(path, rows=file.rows, group_bytes=group_bytes):
            digests.add(frame)
    except Unreadable as fault:
        return [f"{fault} (after {_last(digests)})"]
    windows = digests.windows.values()
    for what, told in (("rows", file.rows), ("records", file.records)):
        if (count := sum(getattr(window, what) for window in windows)) != told:
            faults.append(f"{file.path} holds {count} {what}, not {told}")
    found = digests.named()
    faults += [
        f"partition {file.partition}, {window_offsets(int(n))}: the records differ"
        for n in sorted(found.keys() | file.digests.keys(), key=int)
        if found.get(n) != file.digests.get(n)
    ]
    return faults


def _last(digests: Digests) -> str:
    return window_offsets(max(digests.windows)) if digests.windows else "its beginning"


def read_file(
    path: Place,
    columns: Sequence[str] | None = None,
    *,
    rows: int | None = None,
    group_bytes: int = GROUP_BYTES_MAX,
) -> Iterator[Any]:
    """The frames of a data file, page checksums checked, each read while the last one is used.

    One with other than so many rows, or with a row group that could take more memory than that, is
    refused before any of it is opened.
    """
    return prefetched(_read_file(path, columns, rows, group_bytes))


def _read_file(
    path: Place, columns: Sequence[str] | None, rows: int | None, group_bytes: int
) -> Generator[Any, None, None]:
    try:
        with pq.ParquetFile(for_arrow(path), page_checksum_verification=True) as file:
            refuse_bomb(path, file.metadata, rows, group_bytes)
            yield from file.iter_batches(1 << 16, columns=columns, use_threads=False)
    except FileNotFoundError:
        raise Unreadable(f"{path} is missing") from None
    except (OSError, pa.ArrowException) as fault:
        why = str(fault).splitlines()[0]
        raise Unreadable(f"{path} cannot be read: {why}") from None


def refuse_bomb(path: Place, metadata: Any, rows: int | None, group_bytes: int) -> None:
    """Raises Unreadable for a file that is not worth the memory it would take."""
    if rows is not None and metadata.num_rows != rows:
        raise Unreadable(f"{path} has {metadata.num_rows} rows, not {rows} as the manifest says")
    try:
        most = max(group_costs(path, metadata), default=0)
    except PageFault as fault:
        raise Unreadable(f"{path} cannot be read: {fault}") from None
    if most > group_bytes:
        raise Unreadable(
            f"{path} has a row group of up to {most:,} bytes when it is unpacked, more than the "
            f"{group_bytes:,} that are allowed: is it what was archived? --group-bytes allows more"
        )


def read_groups(path: Place) -> list[dict[str, Any]]:
    """The rows of the file with committed offsets, if they are as small as such rows are."""
    texts = ["group", "metadata"]
    try:
        with pq.ParquetFile(for_arrow(path), read_dictionary=texts) as file:
            costs = group_costs(path, file.metadata, expanding=False)
            if sum(costs) > _GROUPS_BYTES_MAX:
                raise Unreadable(f"{path} has up to {sum(costs):,} bytes of committed offsets")
            # Texts stay in their dictionary: what a value is meant for a million times costs once.
            table = file.read()
            size = sum(_text_bytes(table.column(name)) for name in texts)
            if size > _GROUPS_BYTES_MAX:
                raise Unreadable(f"{path} has {size:,} bytes of text in committed offsets")
            rows: list[dict[str, Any]] = table.to_pylist()
            return rows
    except (OSError, KeyError, PageFault, pa.ArrowException) as fault:
        raise Unreadable(f"{path} cannot be read: {str(fault).splitlines()[0]}") from None


def _text_bytes(column: Any) -> int:
    """The size of a column's texts when each is written out."""
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary)
        total += pc.sum(pc.take(lengths, chunk.indices)).as_py() or 0
    return total
