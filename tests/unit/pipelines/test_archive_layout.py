"""What an archive is on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.model.errors import UsageError
from klamm.pipelines.archive_layout import (
    File,
    Manifest,
    directory_of,
    entry_of,
    find_archive,
    plan_windows,
    read_manifest,
    vacuum,
)


def _file(first: int, last: int, *, rows: int | None = None, gaps: int = 0) -> File:
    return File(
        path=f"data/partition=0/{first}-{last}.a.parquet",
        partition=0,
        first=first,
        last=last,
        rows=last - first + 1 - gaps if rows is None else rows,
        records=last - first + 1 - gaps,
        bytes=10,
        sha256="",
        digests={},
        gaps=[[first, first + gaps - 1]] if gaps else [],
        gap_offsets=gaps,
    )


def _manifest(path: Path, topic: str = "t", created_ms: int = 1) -> Manifest:
    files = [_file(0, 9)]
    return Manifest(
        cluster="c",
        topic=topic,
        topic_id="id",
        partitions={"0": entry_of(0, 10, files, "d")},
        files=files,
        schema_fingerprint="f",
        writer="w",
        created_ms=created_ms,
        path=path,
    )


@settings(deadline=None)
@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 700))
def test_windows_tile_the_log_and_are_cut_at_multiples(start: int, more: int, size: int) -> None:
    windows = plan_windows(3, start, start + more, size)
    covered = [o for w in windows for o in range(w.first, w.stop)]
    assert covered == list(range(start, start + more))
    assert all(w.first % size == 0 for w in windows[1:])


def test_a_missing_window_is_noticed() -> None:
    with pytest.raises(UsageError, match="offsets 5 to 9 are in no file"):
        entry_of(0, 20, [_file(0, 4), _file(10, 19)], "d")
    with pytest.raises(UsageError, match="offsets 5 to 19 are in no file"):
        entry_of(0, 20, [_file(0, 4)], "d")


def test_rows_and_gaps_must_add_up() -> None:
    assert entry_of(0, 10, [_file(0, 9, gaps=3)], "d").rows == 7
    with pytest.raises(UsageError, match="6 rows and 3 gaps do not add up to 10 offsets"):
        entry_of(0, 10, [_file(0, 9, rows=6, gaps=3)], "d")


def test_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path)
    manifest.write()
    assert read_manifest(tmp_path) == manifest


def test_what_has_no_manifest_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(UsageError, match=r"there is no manifest\.json"):
        read_manifest(tmp_path)
    with pytest.raises(UsageError, match="holds no archive"):
        find_archive(tmp_path)
    with pytest.raises(UsageError, match="there is no directory"):
        find_archive(tmp_path / "wrong")


def test_half_a_manifest_is_no_archive(tmp_path: Path) -> None:
    _manifest(tmp_path).write()
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(UsageError, match="cannot be read"):
        read_manifest(tmp_path)


def test_the_newest_archive_of_a_topic_is_meant(tmp_path: Path) -> None:
    for number in (2, 1):
        directory = tmp_path / str(number)
        directory.mkdir()
        _manifest(directory, created_ms=number).write()
    assert find_archive(tmp_path).created_ms == 2
    other = tmp_path / "other"
    other.mkdir()
    _manifest(other, topic="u", created_ms=3).write()
    with pytest.raises(UsageError, match="t, u: say which with --topic"):
        find_archive(tmp_path)
    assert find_archive(tmp_path, "t").created_ms == 2


def test_vacuum_removes_what_no_manifest_names(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path)
    manifest.write()
    data = tmp_path / "data" / "partition=0"
    data.mkdir(parents=True)
    kept = tmp_path / manifest.files[0].path
    for path in (kept, data / "0-9.b.parquet", data / ".x.parquet.draft"):
        path.write_bytes(b"12345")
    assert vacuum(tmp_path) == (2, 10)
    assert [p.name for p in data.iterdir()] == [kept.name]
    assert (tmp_path / "manifest.json").exists()


def test_addresses_are_refused() -> None:
    with pytest.raises(UsageError, match="not to an address"):
        directory_of("s3://bucket", "c", "t", "id")
