"""Archives as tables of Delta and Iceberg: the same files, in place, as often as they are asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from klamm.pipelines.archive.shelf import find_archive
from klamm.pipelines.tables.formats.iceberg_place import open_table

from .conftest import numbered

Make = Callable[..., str]
Fill = Callable[..., None]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_KERNELS", "numpy")
    monkeypatch.setattr("klamm.cli.spark.jobs._running", lambda: None)


def rows_of(place: Path, format_: str) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value, as another reader of the format finds them."""
    if format_ == "delta":
        from deltalake import DeltaTable

        found: Any = DeltaTable(str(place)).to_pyarrow_table()
    else:
        opened = open_table(place)
        assert opened is not None
        found = opened[0].scan().to_arrow()
    return sorted((r["partition"], r["offset"], r["value"]) for r in found.to_pylist())


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_an_archive_that_grows_is_the_same_table(
    command: Run, topic: Make, fill: Fill, tmp_path: Path, format_: str
) -> None:
    name = topic(2)

    def registered() -> tuple[int, int]:
        assert command("archive", name, "--to", str(tmp_path))[0] == 0
        line = ("archive", "register", str(tmp_path), "--topic", name, "--format", format_)
        code, out, err = command(*line, "-o", "json")
        assert code == 0, err
        done = json.loads(out)
        return done["added"], done["removed"]

    fill(name, numbered(10))
    assert registered() == (2, 0)
    place = find_archive(tmp_path, name).path
    assert isinstance(place, Path)
    assert rows_of(place, format_) == [
        (i % 2, i // 2, b"v%d" % i) for i in (*range(0, 10, 2), *range(1, 10, 2))
    ]
    files = {path: path.stat().st_mtime_ns for path in place.rglob("data/**/*.parquet")}
    assert registered() == (0, 0)
    assert {path: path.stat().st_mtime_ns for path in place.rglob("data/**/*.parquet")} == files
    fill(name, numbered(4, first=10))
    added, removed = registered()
    assert (added, removed) in {(2, 0), (2, 2)}  # the windows' files, or longer ones instead
    assert [offset for _, offset, _ in rows_of(place, format_)] == [*range(7), *range(7)]
    # The archive itself is none the worse.
    assert command("archive", "verify", str(tmp_path), "--topic", name)[0] == 0
    assert command("archive", "vacuum", str(tmp_path))[0] == 0
    assert len(rows_of(place, format_)) == 14


def test_mistakes(command: Run, topic: Make, fill: Fill, tmp_path: Path) -> None:
    name = topic(1)
    fill(name, numbered(3, 1))
    assert command("archive", name, "--to", str(tmp_path))[0] == 0
    place = find_archive(tmp_path, name).path

    def says(*line: str) -> str:
        code, out, err = command("archive", "register", *line)
        assert (code != 0, out, err.count("\n")) == (True, "", 1), (code, out, err)
        return err

    assert "nobody" in says(str(tmp_path), "--topic", "nobody", "--format", "delta")
    assert str(tmp_path / "x") in says(str(tmp_path / "x"), "--format", "delta")
    (place / "_delta_log").mkdir()  # type: ignore[union-attr]
    (place / "_delta_log/00000000000000000000.json").write_text("nonsense\n")
    assert "cannot be registered" in says(str(tmp_path), "--format", "delta")
    (place / "metadata").mkdir()  # type: ignore[union-attr]
    (place / "metadata/v1.metadata.json").write_text("{}")
    assert "cannot be registered" in says(str(tmp_path), "--format", "iceberg")
