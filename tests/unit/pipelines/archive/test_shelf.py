"""Which archives there are, and what is cleaned away among them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.archive.layout import Manifest
from klamm.pipelines.archive.shelf import being_written, find_archive, find_archives, vacuum
from unit.pipelines.manifests import a_manifest

DATA = "data/partition=0/000000000000000000-000000000000000009"


def _archive(path: Path, topic: str = "t", created_ms: int = 1) -> Manifest:
    made = a_manifest(path, topic, created_ms)
    made.write()
    return made


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Root may read everything: be somebody else for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_tasks_elsewhere_find_what_was_named_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor has a working directory of its own."""
    _archive(tmp_path / "shelf" / "a")
    monkeypatch.chdir(tmp_path)
    assert find_archive("shelf").path == tmp_path / "shelf" / "a"


def test_the_newest_archive_of_a_topic_is_meant(tmp_path: Path) -> None:
    for number in (2, 1):
        _archive(tmp_path / str(number), created_ms=number)
    assert find_archive(tmp_path).created_ms == 2
    _archive(tmp_path / "other", topic="u", created_ms=3)
    with pytest.raises(UsageError, match="t, u: say which with --topic"):
        find_archive(tmp_path)
    assert find_archive(tmp_path, "t").created_ms == 2
    with pytest.raises(UsageError, match="holds no archive of v, but of t, u"):
        find_archive(tmp_path, "v")


def test_wrong_places_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no archive"):
        find_archive(tmp_path)
    (tmp_path / "file").write_text("")
    for look in (find_archive, vacuum):
        with pytest.raises(UsageError, match="there is no directory"):
            look(tmp_path / "wrong")
        with pytest.raises(UsageError, match="is a file, not a directory"):
            look(tmp_path / "file")


def test_a_directory_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    _archive(closed)
    tmp_path.chmod(0o755)
    closed.chmod(0)
    try:
        with _as_nobody(), pytest.raises(UsageError, match=f"cannot read {closed}: Permission"):
            find_archive(closed)
    finally:
        closed.chmod(0o755)


def test_a_damaged_manifest_spoils_the_list_of_none_and_the_choice_of_all(tmp_path: Path) -> None:
    _archive(tmp_path / "a")
    _archive(tmp_path / "b")
    (tmp_path / "b" / "manifest.json").write_text("{")
    found, faults = find_archives(tmp_path)
    assert [m.path.name for m in found] == ["a"]
    assert str(tmp_path / "b") in faults[0]
    with pytest.raises(KlammError, match="is damaged"):
        find_archive(tmp_path, "t")


def _put(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"12345")


def _there(directory: Path) -> set[str]:
    files = (p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())
    return set(files) - {".lock", "manifest.json"}


def test_vacuum_removes_what_no_manifest_names(tmp_path: Path) -> None:
    _archive(tmp_path)
    kept = {"topic.aaaaaaaa.json", "groups.aaaaaaaa.parquet"}
    left = {
        f"{DATA}.bbbbbbbb.parquet",
        "data/partition=0/.x.parquet.draft",
        "groups.bbbbbbbb.parquet",
        "topic.bbbbbbbb.json",
        ".manifest.json.77.draft",
    }
    _put(tmp_path, *kept, *left)
    assert vacuum(tmp_path) == (5, 25)
    assert _there(tmp_path) == kept


def test_vacuum_removes_nothing_that_is_not_an_archives(tmp_path: Path) -> None:
    """A directory `data` with Parquet in it is nothing special."""
    table = {"data/part-0.parquet", "data/partition=0/part-0.parquet", f"{DATA}.bbbbbbbb.parquet"}
    _put(tmp_path / "table", *table, ".x.draft")
    _archive(tmp_path / "archive")
    _put(tmp_path / "archive", "data/mine.parquet", "data/partition=0/mine.parquet", "notes.json")
    assert vacuum(tmp_path) == (0, 0)
    assert len(_there(tmp_path / "table")) == 4
    assert len(_there(tmp_path / "archive")) == 3


def test_vacuum_keeps_away_from_a_damaged_archive(tmp_path: Path) -> None:
    _archive(tmp_path)
    _put(tmp_path, f"{DATA}.bbbbbbbb.parquet")
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(KlammError, match="is damaged"):
        vacuum(tmp_path)
    assert _there(tmp_path) == {f"{DATA}.bbbbbbbb.parquet"}


def test_vacuum_waits_until_nobody_writes(tmp_path: Path) -> None:
    with being_written(tmp_path), being_written(tmp_path):
        _put(tmp_path, f"{DATA}.bbbbbbbb.parquet")
        with pytest.raises(KlammError, match="is being written to: try again"):
            vacuum(tmp_path)
    # What a run has left that never came to a manifest.
    assert vacuum(tmp_path) == (1, 5)
    with being_written(tmp_path, alone=True), pytest.raises(KlammError, match="is being cleaned"):
        being_written(tmp_path).__enter__()


def test_vacuum_removes_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    _archive(tmp_path / "archive")
    _put(tmp_path, "elsewhere/precious.parquet")
    _put(tmp_path / "archive", f"{DATA}.bbbbbbbb.parquet")
    data = tmp_path / "archive" / "data" / "partition=0"
    (data / f"{Path(DATA).name}.cccccccc.parquet").symlink_to(tmp_path / "nowhere")
    (tmp_path / "archive" / "data" / "partition=1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / f"{Path(DATA).name}.dddddddd.parquet").write_bytes(b"1")
    assert vacuum(tmp_path / "archive")[0] == 2
    assert len(list((tmp_path / "elsewhere").iterdir())) == 2


def test_vacuum_that_is_killed_is_run_again(tmp_path: Path) -> None:
    _archive(tmp_path)
    kept = {"topic.aaaaaaaa.json", "groups.aaaaaaaa.parquet"}
    left = {f"{DATA}.{letter * 8}.parquet" for letter in "bcd"}
    _put(tmp_path, *kept, *left)
    removed: list[object] = []

    def die_at_the_third(event: str, args: tuple[object, ...]) -> None:
        if event == "os.remove":
            removed.append(args[0])
            if len(removed) == 3:
                os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        sys.addaudithook(die_at_the_third)
        vacuum(tmp_path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert kept < _there(tmp_path)
    assert len(_there(tmp_path) & left) == 1
    assert find_archive(tmp_path).topic == "t"
    assert vacuum(tmp_path) == (1, 5)
    assert _there(tmp_path) == kept


def test_what_cannot_be_removed_is_said(tmp_path: Path) -> None:
    _archive(tmp_path)
    (tmp_path / f"{DATA}.bbbbbbbb.parquet").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"cannot remove .*bbbbbbbb\.parquet: Is a directory"):
        vacuum(tmp_path)
