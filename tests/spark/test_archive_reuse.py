"""Which files of an earlier run may be kept: what tasks of an archive do, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from klamm.client.blocking.lookup import Lookup
from klamm.pipelines.archive.archiving import range_of
from klamm.pipelines.archive.files import ArchiveJob, archive_window
from klamm.pipelines.archive.layout import FOOTER, File, Window, sha256
from klamm.pipelines.archive.reuse import kept
from klamm.pipelines.source.ranges import Range

from .conftest import numbered

Make = Callable[..., str]
Fill = Callable[..., None]
RECORDS = 10


def _job(lookup: Lookup, name: str, directory: Path) -> tuple[ArchiveJob, Range]:
    """An archive of a topic's only window; all topics here pretend to be the same one."""
    view = lookup.view([name])
    wanted = range_of(view, name, Window(0, 0, RECORDS))
    job = ArchiveJob(
        connection=lookup.options,
        directory=str(directory),
        topic=name,
        topic_id="an id",
        ranges=[wanted],
    )
    return job, wanted


@pytest.fixture
def written(
    topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> tuple[ArchiveJob, Range, File]:
    name = topic(1)
    fill(name, numbered(RECORDS, 1))
    job, wanted = _job(lookup, name, tmp_path)
    return job, wanted, archive_window(job, wanted)


def _rewritten(job: ArchiveJob, file: File, change: Callable[[Any], Any], footer: bytes) -> None:
    """Another file of the window in the place of the one there is, with a name that fits it."""
    path = Path(job.directory) / file.path
    table = change(pq.read_table(path))
    path.unlink()
    pq.write_table(table.replace_schema_metadata({FOOTER: footer}), draft := path.parent / "x")
    draft.rename(path.with_name(f"{path.name.split('.')[0]}.{sha256(draft)[:8]}.parquet"))


def test_what_is_whole_and_current_is_kept(written: tuple[ArchiveJob, Range, File]) -> None:
    job, wanted, file = written
    assert kept(job, wanted) == file
    assert kept(replace(job, compacted=True), wanted) == file
    assert kept(replace(job, named={file.path: file.sha256}), wanted) == file
    assert kept(replace(job, topic_id="another"), wanted) is None
    assert kept(job, replace(wanted, stop=RECORDS - 1)) is None


def test_a_damaged_file_is_not_taken_up_for_ever(written: tuple[ArchiveJob, Range, File]) -> None:
    job, wanted, file = written
    assert kept(replace(job, named={file.path: "0" * 64}), wanted) is None
    path = Path(job.directory) / file.path
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(bytes(data))
    assert kept(job, wanted) is None
    assert archive_window(job, wanted) == file
    assert kept(job, wanted) == file


def test_records_of_another_leader_epoch_are_other_records(
    written: tuple[ArchiveJob, Range, File],
) -> None:
    """An unclean election has cut the log, and others have written there since."""
    job, wanted, file = written

    def of_epoch(number: int) -> Callable[[Any], Any]:
        def change(table: Any) -> Any:
            at = table.schema.get_field_index("leader_epoch")
            epochs = pa.array([number] * RECORDS, table.schema.field(at).type)
            return table.set_column(at, table.schema.field(at), epochs)

        return change

    path = Path(job.directory) / file.path
    footer = pq.read_metadata(path).metadata[FOOTER]
    (epoch,) = set(pq.read_table(path)["leader_epoch"].to_pylist())
    _rewritten(job, file, of_epoch(epoch), footer)
    again = kept(job, wanted)
    assert again is not None
    _rewritten(job, again, of_epoch(epoch + 1), footer)
    assert kept(job, wanted) is None


def test_what_compaction_has_taken_is_not_brought_back(
    written: tuple[ArchiveJob, Range, File], topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    _, _, file = written
    name = topic(1)
    fill(name, [*numbered(RECORDS - 1, 1), (0, b"k0", None)])
    job, wanted = _job(lookup, name, tmp_path)
    assert kept(job, wanted) == file  # offsets and epochs tell nothing here
    assert kept(replace(job, compacted=True), wanted) is None


@pytest.mark.parametrize("footer", [b"", b"[]", b"{}", b'{"topic_id": "an id"}', b"\xff"])
def test_footers_that_make_no_sense(written: tuple[ArchiveJob, Range, File], footer: bytes) -> None:
    job, wanted, file = written
    _rewritten(job, file, lambda table: table, footer)
    assert kept(job, wanted) is None


def test_a_footer_may_have_less_than_a_later_klamm_would_write(
    written: tuple[ArchiveJob, Range, File],
) -> None:
    job, wanted, file = written
    footer = json.loads(pq.read_metadata(Path(job.directory) / file.path).metadata[FOOTER])
    del footer["time_max"]
    _rewritten(job, file, lambda table: table, json.dumps(footer).encode())
    assert kept(job, wanted) is not None
