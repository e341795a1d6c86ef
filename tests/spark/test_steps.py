"""Each job killed at each of its steps, taken up again each time, ends like an undisturbed one.

The steps come from a whole run (see `dying`), so that a job which gets a new one has it tested. A
run begins in the ruins of all those before it, which is harder than to begin in those of one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from klamm.client.blocking.lookup import Lookup
from klamm.client.requests import Committed
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive.archiving import archive, range_of, verify
from klamm.pipelines.archive.files import ArchiveJob as WindowJob
from klamm.pipelines.archive.layout import Manifest, plan_windows
from klamm.pipelines.archive.restore_partition import RestoreJob as PartitionJob
from klamm.pipelines.archive.restoring import restore
from klamm.pipelines.archive.shelf import find_archive, vacuum

from . import dying, dying_jobs
from .conftest import FOREIGN, numbered

Make = Callable[..., str]
Fill = Callable[..., None]
Read = Callable[..., DataFrame]
Ends = Callable[..., list[str]]
COLUMNS = ("partition", "offset", "key", "value", "timestamp")


@pytest.fixture
def filled(topic: Make, fill: Fill, lookup: Lookup) -> str:
    name = topic(2, retention_ms="-1")
    fill(name, numbered(300, 2))
    lookup.commit(f"group-{name}", {TopicPartition(name, 0): Committed(70)})
    return name


@pytest.fixture
def klamm(
    spark: SparkSession, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Ends:
    """Runs a command line to its end, or to a deadly step."""
    gateway = dying.gateway_of(spark)

    def run(*line: object, deadly: str | None = None) -> list[str]:
        args = [*map(str, line), "-b", bootstrap]
        return dying.run(dying_jobs.command, tmp_path / "notes", gateway, *args, deadly=deadly)

    return run


def _content(manifest: Manifest) -> Any:
    return manifest.partitions, [(f.partition, f.first, f.last, f.digests) for f in manifest.files]


def _kinds(steps: list[str]) -> list[str]:
    return [step.split(" at ")[0] for step in steps]


def test_archive(
    klamm: Ends, spark: SparkSession, filled: str, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    """The second time, over an archive that is whole: it stays so until the new one is."""
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    steps = klamm("archive", filled, "--to", whole)
    assert _kinds(steps) == ["os.rename"] * 3  # settings, groups, manifest
    for step in steps:
        klamm("archive", filled, "--to", broken, deadly=step)
        with pytest.raises(UsageError, match="holds no archive"):
            find_archive(broken)
    done = archive(spark, lookup.options, filled, broken)
    assert done.reused == 2
    assert _content(done.manifest) == _content(find_archive(whole))

    fill(filled, numbered(40, 2))
    lookup.commit(f"group-{filled}", {TopicPartition(filled, 0): Committed(165)})
    for step in steps:
        klamm("archive", filled, "--to", broken, deadly=step)
        assert find_archive(broken) == done.manifest
    assert verify(spark, done.manifest) == []
    again = archive(spark, lookup.options, filled, broken)
    assert vacuum(broken)[0] > 0
    assert verify(spark, again.manifest) == []
    assert again.manifest.records == 340


def test_task_of_an_archive(
    spark: SparkSession, filled: str, lookup: Lookup, tmp_path: Path
) -> None:
    whole = archive(spark, lookup.options, filled, tmp_path / "whole").manifest
    wanted = range_of(lookup.view([filled]), filled, plan_windows(0, 0, 150)[0])

    def job(root: Path) -> WindowJob:
        return WindowJob(
            connection=lookup.options,
            directory=str(root / whole.path.relative_to(tmp_path / "whole")),
            topic=filled,
            topic_id=whole.topic_id,
            ranges=[wanted],
        )

    given, broken = (dying_jobs.window, tmp_path / "notes"), tmp_path / "broken"
    steps = dying.run(*given, job(tmp_path / "other"), wanted)
    assert _kinds(steps) == ["os.rename"]
    for step in steps:
        dying.run(*given, job(broken), wanted, deadly=step)
        assert [path.suffix for path in broken.rglob("*") if path.is_file()] == [".draft"]
    done = archive(spark, lookup.options, filled, broken)
    assert done.reused == 0
    assert _content(done.manifest) == _content(whole)


def _restored(lookup: Lookup, read: Read, group: str, name: str) -> tuple[Any, DataFrame]:
    facts = lookup.configs(name), lookup.committed(group)[TopicPartition(name, 0)]
    return facts, read(name).select(*COLUMNS)


def test_restore(
    klamm: Ends, spark: SparkSession, read: Read, filled: str, lookup: Lookup, tmp_path: Path
) -> None:
    manifest = archive(spark, lookup.options, filled, tmp_path / "a").manifest
    line = ("restore", manifest.path, "--no-check", "--to")
    name, whole = f"{filled}-broken", f"{filled}-whole"
    steps = klamm(*line, whole)
    # What the journal says: creating, filling, complete.
    assert _kinds(steps) == [
        "os.rename",
        "CREATE_TOPICS",
        "os.rename",
        "OFFSET_COMMIT",
        "INCREMENTAL_ALTER_CONFIGS",
        "os.rename",
    ]
    journal = manifest.path / "restores" / manifest.cluster / name / "journal.json"
    for step in steps:
        klamm(*line, name, deadly=step)
        assert not journal.exists() or json.loads(journal.read_text())["state"] != "complete"
    done = restore(spark, lookup.options, manifest, to=name)
    assert (done.records, done.resumed) == (300, 300)
    facts, rows = _restored(lookup, read, f"group-{filled}", name)
    wanted, undisturbed = _restored(lookup, read, f"group-{filled}", whole)
    assert facts == wanted
    assertDataFrameEqual(rows, undisturbed)
    with pytest.raises(UsageError, match="there is a topic"):
        restore(spark, lookup.options, manifest, to=name)


def test_task_of_a_restore(
    spark: SparkSession, read: Read, filled: str, lookup: Lookup, tmp_path: Path
) -> None:
    manifest = archive(spark, lookup.options, filled, tmp_path / "a").manifest
    name = f"{filled}-copy"
    lookup.create(name, 2, configs={})
    job = PartitionJob(
        connection=lookup.options,
        directory=str(manifest.path),
        topic=name,
        partitions={p: manifest.files_of(p) for p in (0, 1)},
        as_of_ms=None,
        commits={},
        map_directory=str(tmp_path / "map"),
    )
    given = (dying_jobs.partition, tmp_path / "notes", job)
    steps = dying.run(*given, 1)
    assert _kinds(steps) == ["PRODUCE", "os.rename"]
    for step in steps:
        dying.run(*given, 0, deadly=step)
        assert not (tmp_path / "map" / "partition-0.parquet").exists()
    dying.run(*given, 0)
    assertDataFrameEqual(read(name).select(*COLUMNS), read(filled).select(*COLUMNS))


def _ledger(path: Path, count: int) -> Path:
    """The first moves of a partition's life."""
    states = ["NonExistent", "New", "Online", "Offline", "Online"]
    with path.open("w") as lines:
        for number, (before, after) in enumerate(pairwise(states[: count + 1])):
            entry = {
                "time_ms": number * 100,
                "controller_epoch": 1,
                "sequence": number + 1,
                "controller_id": 0,
                "cause": "a test",
                "topic": "orders",
                "topic_id": "id",
                "subject": "orders-0",
                "before": before,
                "after": after,
                "why": "",
            }
            lines.write(f"{json.dumps(entry)}\n")
    return path


def _tables(directory: Path) -> dict[str, list[str]]:
    return {
        path.name: sorted(map(str, pq.read_table(path).to_pylist())) for path in directory.iterdir()
    }


def test_audit(klamm: Ends, tmp_path: Path) -> None:
    place, whole = tmp_path / "place", tmp_path / "whole"
    (place / "tables").mkdir(parents=True)
    pq.write_table(pa.table({"of": ["an earlier audit"]}), place / "tables" / "moves.parquet")
    (place / "audit.html").write_text(page := "<p>an earlier audit</p>")
    old = _tables(place / "tables")
    line = ("audit", "--ledger", _ledger(tmp_path / "ledger.jsonl", 4), "--to")
    (whole / "tables").mkdir(parents=True)
    steps = klamm(*line, whole)
    new = _tables(whole / "tables")
    first, *moving, _, last = steps
    assert (first.split(" at ")[0], last.split(" at ")[0]) == ("a table", "os.rename")
    klamm(*line, place, deadly=first)
    assert _tables(place / "tables") == old
    klamm(*line, place, deadly=last)
    assert _tables(place / "tables") == new
    assert (place / "audit.html").read_text() == page
    klamm(*line, place)
    assert _tables(place / "tables") == new
    assert (place / "audit.html").read_text() == (whole / "audit.html").read_text()
    assert {p.name for p in place.iterdir() if p.suffix != ".draft"} == {"tables", "audit.html"}
    # Between the two: the old tables aside, the new ones in their place, the old ones gone.
    assert _kinds(moving) == ["os.rename", "os.rename", "shutil.rmtree"]


def test_tables_of_an_audit_in_the_place_of_others(tmp_path: Path) -> None:
    fresh, to, before = (tmp_path / name for name in ("fresh", "tables", "tables.before"))

    def write(place: Path, text: str) -> None:
        place.mkdir(exist_ok=True)
        (place / "table").write_text(text)

    given = (dying_jobs.tables, tmp_path / "notes", fresh, to)
    write(to, "old")
    write(fresh, "new")
    steps = dying.run(*given)
    assert _kinds(steps) == ["os.rename", "os.rename", "shutil.rmtree"]
    write(to, "old")
    for step in steps:
        write(fresh, "new")
        dying.run(*given, deadly=step)
        whole = [(p / "table").read_text() for p in (to, before) if p.exists()]
        assert whole in (["old"], ["new", "old"]), step
    write(fresh, "new")
    dying.run(*given)
    assert (to / "table").read_text() == "new"
    assert not before.exists()


@pytest.mark.skipif(FOREIGN is not None, reason="freezing is klamm's own")
def test_deletion_after_an_archive(
    klamm: Ends,
    spark: SparkSession,
    filled: str,
    fill: Fill,
    topic: Make,
    lookup: Lookup,
    tmp_path: Path,
) -> None:
    other = topic(1)
    fill(other, numbered(5, 1))
    steps = klamm("topics", "delete", other, "--archive", tmp_path / "whole")
    archived = ["os.rename"] * 3
    assert _kinds(steps) == [
        *archived,
        "INCREMENTAL_ALTER_CONFIGS",  # frozen
        *archived,
        "DELETE_TOPICS",
    ]
    # Within an archive it is like any other, which is ended at each step above.
    for step in (*steps[2:4], *steps[6:]):
        klamm("topics", "delete", filled, "--archive", tmp_path / "broken", deadly=step)
        assert filled in lookup.view([filled]).topics
    klamm("topics", "delete", filled, "--archive", tmp_path / "broken")
    assert filled not in lookup.view([filled]).topics
    manifest = find_archive(tmp_path / "broken")
    assert manifest.records == 300
    assert verify(spark, manifest) == []
