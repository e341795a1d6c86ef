"""What an archive is on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.archive import layout as archive_layout
from klamm.pipelines.archive.layout import (
    File,
    Manifest,
    Part,
    below,
    directory_of,
    entry_of,
    fitting_window,
    manifest_faults,
    part_fault,
    plan_windows,
    read_manifest,
    read_part,
    sha256,
)
from unit.pipelines.manifests import a_manifest


def _file(first: int, last: int, *, rows: int | None = None, gaps: int = 0) -> File:
    return File(
        path=f"data/partition=0/{first:018d}-{last:018d}.aaaaaaaa.parquet",
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


def _manifest(path: Path) -> Manifest:
    return a_manifest(path, files=[_file(0, 9)])


@settings(deadline=None)
@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 700))
def test_windows_tile_the_log_and_are_cut_at_multiples(start: int, more: int, size: int) -> None:
    windows = plan_windows(3, start, start + more, size)
    covered = [o for w in windows for o in range(w.first, w.stop)]
    assert covered == list(range(start, start + more))
    assert all(w.first % size == 0 for w in windows[1:])


@pytest.mark.parametrize(
    ("rate", "size"),
    [(0.0, 1 << 20), (100.0, 1 << 20), (513.0, 1 << 19), (10_000.0, 1 << 15), (1e7, 1 << 10)],
)
def test_windows_fit_the_size_of_records(rate: float, size: int) -> None:
    assert fitting_window(rate) == size


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


def test_no_byte_of_a_manifest_can_change_unnoticed(tmp_path: Path) -> None:
    """Not its layout, which means nothing, but all that it says."""
    manifest = _manifest(tmp_path)
    path = manifest.write()
    whole = path.read_bytes()
    for place, byte in enumerate(whole):
        if byte in b" \n":
            continue
        for changed in (byte ^ 0x01, byte ^ 0x40):
            path.write_bytes(whole[:place] + bytes([changed]) + whole[place + 1 :])
            with suppress(KlammError):
                assert read_manifest(tmp_path) == manifest
    path.write_bytes(whole[:-20])
    with pytest.raises(KlammError, match="is damaged, or no manifest of an archive"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["", "[1]", "{}", '"x"', "null", '{"version": 1}'])
def test_something_else_of_that_name_is_no_archive(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(KlammError, match=r"manifest\.json is damaged, or no manifest"):
        read_manifest(tmp_path)


def test_newer_format_asks_for_a_newer_klamm(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"version": 2, "what": "we cannot know"}')
    with pytest.raises(UsageError, match="is of format 2, and this klamm knows 1: use a newer"):
        read_manifest(tmp_path)


def test_files_beside_the_data_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "topic.x.json"
    path.write_text("settings")
    manifest, part = _manifest(tmp_path), Part(path.name, sha256(path))
    assert read_part(manifest, part) == b"settings"
    path.write_text("sETTINGS")
    assert part_fault(manifest, part) == f"{path} is not as it was written"
    path.unlink()
    with pytest.raises(KlammError, match=f"the archive is damaged: {path} is missing"):
        read_part(manifest, part)


def test_archives_lie_in_stores_too() -> None:
    for place in ("s3://bucket/x", Path("s3://bucket/x")):
        assert str(directory_of(place, "c", "t", "id")) == "s3://bucket/x/c/t/id"
    with pytest.raises(UsageError, match="is not a place"):
        directory_of("gopher://h/x", "c", "t", "id")


def _sealed(manifest: Manifest, change: Callable[[dict[str, Any]], object]) -> Path:
    """A manifest that says something else, with a checksum that fits: nobody's accident."""
    path = manifest.write()
    body = json.loads(path.read_text())
    del body["sha256"]
    change(body)
    path.write_text(json.dumps(body | {"sha256": archive_layout._seal(body)}))
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(version="1"),
        lambda m: m.update(version=True),
        lambda m: m.update(topic=7),
        lambda m: m.update(created_ms="now"),
        lambda m: m.update(files={}, partitions=[]),
        lambda m: m.update(partitions={"zero": m["partitions"]["0"]}),
        lambda m: m.update(settings=None),
        lambda m: m.update(surprise=1),
        lambda m: m["partitions"]["0"].update(end="10"),
        lambda m: m["files"][0].update(first=0.5),
        lambda m: m["files"][0].update(digests=[1]),
        lambda m: m["files"][0].update(digests={"0": None}),
        lambda m: m["files"][0].update(digests={"x": ""}),
        lambda m: m["files"][0].update(gaps=[[0]]),
        lambda m: m["files"][0].update(gaps=[["0", 1]]),
        lambda m: m["files"][0].update(path="../../../etc/passwd"),
        lambda m: m["files"][0].update(path="data\\..\\x.parquet"),
        lambda m: m["files"][0].update(path="data/\0.parquet"),
        lambda m: m["files"][0].update(path="d/" * 1000),
        lambda m: m.update(created_ms=10**18),
        lambda m: m["files"][0].update(path="data/../../x.parquet"),
        lambda m: m["files"][0].update(path="/etc/passwd"),
        lambda m: m["groups"].update(path=".."),
        lambda m: m["settings"].update(path=""),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    _sealed(_manifest(tmp_path), change)
    with pytest.raises(KlammError, match=r"manifest\.json is damaged, or no manifest"):
        read_manifest(tmp_path)


def test_an_unknown_mode_is_said(tmp_path: Path) -> None:
    _sealed(_manifest(tmp_path), lambda m: m.update(mode="raw"))
    with pytest.raises(UsageError, match="holds 'raw', and this klamm reads archives of rows"):
        read_manifest(tmp_path)


def test_numbers_that_do_not_fit_the_files_are_faults(tmp_path: Path) -> None:
    whole = _manifest(tmp_path)
    assert manifest_faults(whole) == []
    entry = whole.partitions["0"]
    for changed, says in (
        (replace(entry, records=11), "partition 0: the manifest and its files differ"),
        (replace(entry, digest="crc32c-windows:0"), "partition 0: the manifest and its files"),
        (replace(entry, end=12), "partition 0: offsets 10 to 11 are in no file"),
    ):
        (fault,) = manifest_faults(replace(whole, partitions={"0": changed}))
        assert fault.startswith(says)
    assert manifest_faults(replace(whole, partitions={})) == ["partition 0 is in files only"]


def test_a_nest_of_brackets_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(KlammError, match=r"manifest\.json is damaged, or no manifest"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "cluster", ["../../etc", "/etc", "..", ".", "a/b", "a\\b", "a\0b", "a\nb", "x" * 300, "a b"]
)
def test_a_cluster_id_that_is_a_path_makes_no_directory(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(KlammError, match=r"the cluster id .* cannot name a directory"):
        directory_of(tmp_path, cluster, "t", "id")


@pytest.mark.parametrize("cluster", ["MkU3OEVBNTcwNTJENDM2Qk", "lkc-x1", "redpanda.6a2f", ""])
def test_cluster_ids_of_all_kinds_of_brokers_do(tmp_path: Path, cluster: str) -> None:
    assert directory_of(tmp_path, cluster, "t", "id").is_relative_to(tmp_path)


def test_a_link_out_of_an_archive_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    inside = tmp_path / "archive"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "plain").write_text("y")
    assert below(inside, "plain").read_text() == "y"
    with pytest.raises(KlammError, match="leads out of it"):
        below(inside, "link")
