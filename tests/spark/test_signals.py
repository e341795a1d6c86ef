"""Commands that are asked to end in the middle: they do so quietly, and put back what they must.

A restore in a process with a Spark of its own, ended by Ctrl-C, is in `test_commands`.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from klamm.client.blocking.lookup import Lookup
from klamm.model.errors import UsageError
from klamm.pipelines.archive.restore_topic import FROZEN
from klamm.pipelines.archive.shelf import find_archive

from . import dying, dying_jobs
from .conftest import FOREIGN, numbered

Make = Callable[..., str]
Fill = Callable[..., None]
End = Callable[..., str]


@pytest.fixture
def end(spark: SparkSession, bootstrap: str, tmp_path: Path) -> End:
    """Ends a command line at a step with a signal; what it has said."""
    gateway = dying.gateway_of(spark)

    def run(*line: object, at: str) -> str:
        said = tmp_path / "said"
        args = [*map(str, line), "-b", bootstrap] if line[0] != "demo" else [*map(str, line)]
        notes = tmp_path / "notes"
        dying.run(_quoted, notes, said, gateway, *args, deadly=at, number=signal.SIGTERM)
        return said.read_text()

    return run


def _quoted(said: Path, *args: object) -> None:
    """A command whose complaints, and whatever it leaves for a while, can be looked at."""
    import os
    import sys

    tempfile.tempdir = str(said.parent / "temporary")
    Path(tempfile.tempdir).mkdir(exist_ok=True)
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, sys.stderr.fileno())
    dying_jobs.command(*args)  # type: ignore[arg-type]


def test_archive(end: End, topic: Make, fill: Fill, tmp_path: Path) -> None:
    name = topic(1)
    fill(name, numbered(20, 1))
    assert end("archive", name, "--to", tmp_path / "a", at="os.rename #2") == ""
    with pytest.raises(UsageError, match="holds no archive"):
        find_archive(tmp_path / "a")
    assert not list((tmp_path / "a").rglob("*.draft"))


def test_audit(end: End, tmp_path: Path) -> None:
    ledger, place = tmp_path / "ledger.jsonl", tmp_path / "place"
    ledger.write_text('{"controller_epoch": 1, "sequence": 1, "time_ms": 1, "subject": "x"}\n')
    (place / "tables").mkdir(parents=True)
    (place / "tables" / "of").write_text("an earlier audit")
    assert end("audit", "--ledger", ledger, "--to", place, at="a table #1") == ""
    assert [p.name for p in (place / "tables").iterdir()] == ["of"]
    assert not (place / "audit.html").exists()


@pytest.mark.skipif(FOREIGN is not None, reason="freezing is klamm's own")
def test_deletion_after_an_archive(
    end: End, topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    """Frozen for it, and not deleted: the topic takes records again."""
    name = topic(1)
    fill(name, numbered(20, 1))
    # Three files have got their names when the topic is frozen, and one more when this ends.
    line = ("topics", "delete", name, "--archive", tmp_path / "a")
    assert end(*line, at="os.rename #5") == ""
    steps = (tmp_path / "notes").read_text()
    assert "INCREMENTAL_ALTER_CONFIGS" in steps
    assert FROZEN not in lookup.configs(name)
    fill(name, numbered(1, 1))


@pytest.mark.skipif(FOREIGN is not None, reason="it starts a cluster of its own")
def test_demo(end: End, tmp_path: Path) -> None:
    assert end("demo", "--to", tmp_path / "demo", "--records", 1000, at="PRODUCE #1") == ""
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not (tmp_path / "demo").exists()
