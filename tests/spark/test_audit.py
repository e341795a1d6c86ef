"""The audit: what is planted is found, and nothing else."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from klamm.controller.states.judging import judge
from klamm.controller.states.tables import MACHINES
from klamm.pipelines.audit import judging as audit
from klamm.pipelines.audit import judging_here
from klamm.pipelines.audit import tables as audit_tables
from klamm.pipelines.audit.findings import Findings
from klamm.pipelines.audit.report import render

Line = tuple[str, str, str]

LIFE: list[Line] = [
    ("controller 0", "standby", "active"),
    ("broker 0", "gone", "live"),
    ("broker 1", "gone", "live"),
    ("topic orders", "absent", "created"),
    ("orders-0", "NonExistent", "New"),
    ("orders-0 on broker 0", "NonExistent", "New"),
    ("orders-0", "New", "Online"),
    ("orders-0 on broker 0", "New", "Online"),
    ("orders-0 ISR", "0,1", "0"),
    ("orders-0", "0:1", "0:2"),
    ("orders-0", "Online", "Offline"),
    ("orders-0", "Offline", "Online"),
    ("topic orders", "created", "queued for deletion"),
    ("orders-0 on broker 0", "Online", "Offline"),
    ("orders-0 on broker 0", "Offline", "DeletionStarted"),
    ("orders-0 on broker 0", "DeletionStarted", "DeletionSuccessful"),
    ("orders-0 on broker 0", "DeletionSuccessful", "NonExistent"),
    ("orders-0", "Online", "Offline"),
    ("orders-0", "Offline", "NonExistent"),
    ("topic orders", "deleting", "absent"),
]


def _entry(epoch: int, sequence: int, line: Line, time_ms: int | None = None) -> dict[str, Any]:
    subject, before, after = line
    topic = "orders" if "orders" in subject else "other" if "other" in subject else ""
    return {
        "time_ms": sequence * 100 if time_ms is None else time_ms,
        "controller_epoch": epoch,
        "sequence": sequence,
        "controller_id": epoch - 1,
        "cause": "a test",
        "topic": topic,
        "topic_id": f"id of {topic}" if topic else None,
        "subject": subject,
        "before": before,
        "after": after,
        "why": "",
    }


def _life(epoch: int = 1) -> list[dict[str, Any]]:
    return [_entry(epoch, number, line) for number, line in enumerate(LIFE, 1)]


def _frame(spark: SparkSession, entries: list[dict[str, Any]]) -> DataFrame:
    return audit_tables.events(spark.createDataFrame(entries, audit_tables.LEDGER))


def test_subjects_are_taken_apart(spark: SparkSession) -> None:
    rows = _frame(spark, _life()[4:9]).select("sequence", "entity", "partition", "broker")
    wanted = [
        (5, "partition", 0, None),
        (6, "replica", 0, 0),
        (7, "partition", 0, None),
        (8, "replica", 0, 0),
        (9, "other", None, None),
    ]
    assertDataFrameEqual(rows, spark.createDataFrame(wanted, rows.schema))


@pytest.fixture(scope="module")
def planted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """One audit of a life with faults in it, and where its tables are."""
    path = tmp_path_factory.mktemp("planted")
    life = _life()
    entries = [
        *life[:12],
        *life[:5],  # two brokers may both hold an entry
        _entry(1, 13, ("orders-1", "NonExistent", "Online")),  # no table allows it
        _entry(1, 14, ("other-0 on broker 1", "Offline", "DeletionStarted")),
        _entry(1, 15, ("orders-0 on broker 0", "Offline", "Online")),  # it was Online before
        _entry(1, 16, ("topic other", "created", "queued for deletion")),
        _entry(1, 20, ("broker 1", "live", "gone")),  # 17 to 19 are lost
        _entry(2, 1, ("controller 1", "standby", "active"), 2100),
        _entry(1, 21, ("orders-0", "Online", "Offline"), 2300),  # the old one is still at it
        _entry(2, 2, ("orders<script>-0", "Online", "Offline"), 2400),
    ]
    # A crash may have cut the last line, and somebody may have put his own between them.
    foreign = ['{"controller_epoch": "one"}', '{"controller_epoch": 7, "sequence": 1}', "[]", "7"]
    lines = [*map(json.dumps, entries), *foreign, json.dumps(entries[0])[:20]]
    (path / "a.jsonl").write_text("\n".join(lines))
    evidence = audit.of_files(spark, str(path / "a.jsonl"))
    return audit.run(spark, evidence, path / "tables", now_ms=1_000_000), path / "tables"


def test_everything_planted_is_found_and_nothing_else(planted: tuple[Any, Path]) -> None:
    found, _ = planted
    assert found.events == 20
    assert [r["subject"] for r in found.rows["illegal"]] == ["orders-1"]
    assert [r["subject"] for r in found.rows["broken_chains"]] == ["orders-0 on broker 0"]
    assert [(r["first"], r["last"]) for r in found.rows["lost"]] == [(17, 19)]
    assert {(r["subject"], r["waits_for"]) for r in found.rows["stuck"]} == {
        ("other-0 on broker 1", "waits for broker 1"),
        ("topic other", "waits for broker 1"),
    }
    assert [
        (r["controller_epoch"], r["overtime_ms"], r["late"], r["quiet_ms"])
        for r in found.rows["epochs"]
    ] == [(1, 200, 1, None), (2, 0, 0, -200)]
    made = {(r["entity"], r["from_state"], r["to_state"]): r for r in found.rows["moves"]}
    wrong = made["partition", "NonExistent", "Online"]
    assert (wrong["count"], wrong["legal"]) == (1, False)
    assert made["partition", "New", "Offline"]["count"] == 0
    assert not found.is_clean


def test_tables_are_whole_and_by_day(spark: SparkSession, planted: tuple[Any, Path]) -> None:
    found, tables = planted
    names = {
        "illegal",
        "broken_chains",
        "lost",
        "stuck",
        "moves",
        "latency",
        "durations",
        "epochs",
        "timeline",
    }
    assert {path.name for path in tables.iterdir()} == names | {"events"}
    assert spark.read.parquet(str(tables / "events")).count() == found.events
    assert [path.name for path in (tables / "events").glob("day=*")] == ["day=1970-01-01"]
    timeline = spark.read.parquet(str(tables / "timeline"))
    row = timeline.filter("subject = 'orders-0' AND state = 'Offline'").orderBy("since_ms").first()
    assert row is not None
    assert (row.since_ms, row.until_ms) == (1100, 1200)


def _rows(tables: Path, name: str) -> tuple[list[tuple[str, str]], list[str]]:
    """The columns of a table with their types, and its rows in some order of their own."""
    table = dataset.dataset(tables / name, partitioning="hive").to_table()
    columns = sorted((f.name, str(f.type)) for f in table.schema if f.name != "day")
    return columns, sorted(
        json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist()
    )


def _are_the_same(one: tuple[Findings, Path], other: tuple[Findings, Path]) -> None:
    for name in (*sorted(one[0].counts), "events"):
        assert _rows(one[1], name) == _rows(other[1], name), name
    ours, theirs = one[0], other[0]
    assert (ours.events, ours.first_ms, ours.last_ms) == (
        theirs.events,
        theirs.first_ms,
        theirs.last_ms,
    )
    assert ours.counts == theirs.counts
    assert ours.by_time == theirs.by_time


def test_without_spark_the_tables_are_the_same(planted: tuple[Any, Path], tmp_path: Path) -> None:
    evidence = judging_here.of_files(planted[1].parent / "a.jsonl")
    found = judging_here.run(evidence, tmp_path / "tables", now_ms=1_000_000)
    _are_the_same(planted, (found, tmp_path / "tables"))


def test_without_spark_any_ledger_is_judged_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Lines at random, of three terms and both editions, with gaps and clocks that go back."""
    dice = random.Random(8)
    subjects = (
        "orders-0",
        "orders-0 on broker 1",
        "topic orders",
        "other-1",
        "other-1 on broker 2",
    )
    words = [sorted({w for m in MACHINES for w in m.words()}), ["0,1", "live", "gone", "found"]]
    entries = []
    for epoch in (1, 2, 4):
        for sequence in sorted(dice.sample(range(1, 140), 110)):
            subject = dice.choice((*subjects, "broker 1", "controller 1", "archive of orders"))
            line = (subject, *(dice.choice(words[dice.random() < 0.1]) for _ in range(2)))
            time_ms = epoch * 100_000 + sequence * 100 + dice.randrange(-200, 200)
            entries.append(_entry(epoch, sequence, line, time_ms))
        if epoch != 2:
            entries[-110] |= WHOLE
    given = {"now_ms": 600_000, "since_ms": 103_000}
    theirs = audit.run(spark, audit.of_entries(spark, entries), tmp_path / "spark", **given)
    ours = judging_here.run(judging_here.of_entries(entries), tmp_path / "here", **given)
    assert ours.counts["broken_chains"] > 50
    _are_the_same((theirs, tmp_path / "spark"), (ours, tmp_path / "here"))


def test_report_is_one_page_that_needs_nothing_else(planted: tuple[Any, Path]) -> None:
    page = render(planted[0], title="klamm audit")
    for words in (
        "Illegal transitions",
        "Broken chains",
        "lost events",
        "Stuck deletions",
        "Controllers",
    ):
        assert words in page
    assert "&lt;script&gt;" in page
    for foreign in ("http:", "https:", "<script", "<link", "@import", "url(", " src="):
        assert foreign not in page


def _faults(found: DataFrame, **more: int) -> tuple[list[str], list[tuple[int, int]]]:
    chains = audit_tables.broken_chains(found, **more).orderBy("controller_epoch", "sequence")
    lost = audit_tables.lost(found, **more).orderBy("controller_epoch", "first")
    return [r.subject for r in chains.collect()], [(r["first"], r["last"]) for r in lost.collect()]


def test_chains_over_a_failover_and_a_new_topic_of_an_old_name(spark: SparkSession) -> None:
    born = ("orders-0", "NonExistent", "New")
    again = _entry(2, 4, born) | {"topic_id": "another id"}
    entries = [
        *_life()[:8],
        _entry(2, 1, ("controller 1", "standby", "active"), 900),
        _entry(2, 2, ("orders-0 on broker 0", "DeletionIneligible", "Offline"), 901),  # its view
        _entry(2, 3, ("orders-0 on broker 0", "NonExistent", "New"), 902),  # but it was there
        again,  # its end is nowhere, but this is another topic
        _entry(3, 3, ("controller 0", "standby", "active"), 2000),  # 1 and 2 are lost
    ]
    assert _faults(_frame(spark, entries)) == (["orders-0 on broker 0"], [(1, 2)])


def test_what_compaction_took_is_not_missed(spark: SparkSession) -> None:
    life = _life()
    # Of the first events only the last ones of their subjects are left, then all.
    entries = [life[7], life[9], *life[11:]]
    assert _faults(_frame(spark, entries))[1] == [(9, 9), (11, 11)]
    assert _faults(_frame(spark, entries), horizon_ms=life[11]["time_ms"]) == ([], [])


def test_a_clock_that_went_back_loses_nothing(spark: SparkSession) -> None:
    """`--since` cuts by the order of decisions, not by times."""
    life = _life()
    life[10]["time_ms"] = life[11]["time_ms"] - 900
    ledger = spark.createDataFrame(life, audit_tables.LEDGER)
    found = audit_tables.events(audit_tables.since(ledger, life[7]["time_ms"]))
    assert [r.sequence for r in found.orderBy("sequence").collect()] == list(range(8, 21))
    assert audit_tables.lost(found).collect() == []


def test_deletions_wait_for_brokers_by_name(spark: SparkSession) -> None:
    lines = [
        ("broker 3", "live", "gone"),
        ("topic orders", "created", "queued for deletion"),
        ("orders-0 on broker 1", "Offline", "DeletionStarted"),
        ("orders-0 on broker 2", "DeletionStarted", "DeletionSuccessful"),
        ("orders-0 on broker 3", "Online", "Offline"),  # nobody could ask it
        ("topic other", "created", "queued for deletion"),
    ]
    entries = [_entry(1, number, line) for number, line in enumerate(lines, 1)]
    entries.append(_entry(1, 7, ("topic orders", "deleting", "halted")) | {"why": "one is offline"})
    found = audit_tables.stuck(_frame(spark, entries), now_ms=1_000_000).collect()
    assert {(r.subject, r.waits_for) for r in found} == {
        ("orders-0 on broker 1", "waits for broker 1"),
        ("topic orders", "waits for broker 1, 3: one is offline"),
        ("topic other", ""),
    }


def test_young_deletions_are_not_stuck(spark: SparkSession) -> None:
    frame = _frame(spark, _life()[:15])
    assert audit_tables.stuck(frame, now_ms=2000).count() == 0
    found = audit_tables.stuck(frame, now_ms=100_000).collect()
    assert {r.state for r in found} == {"DeletionStarted", "queued for deletion"}


def test_latencies(spark: SparkSession) -> None:
    found = (
        audit_tables.latency(_frame(spark, _life()))
        .filter("entity = 'partition' AND topic IS NULL")
        .collect()
    )
    taken = {(r.from_state, r.to_state): r.p50_ms for r in found}
    assert ("NonExistent", "New") not in taken  # nothing came before it
    assert taken["New", "Online"] == 200
    assert taken["Offline", "Online"] == 100


def test_empty_ledger(spark: SparkSession, tmp_path: Path) -> None:
    found = audit.run(spark, audit.of_entries(spark, []), tmp_path / "tables", now_ms=0)
    assert (found.events, found.is_clean) == (0, True)
    assert "klamm audit" in render(found, title="klamm audit")


WHOLE = {"edition": 2}
DELETED: list[Line] = [
    ("controller 0", "standby", "active"),
    ("topic orders", "absent", "created"),
    ("topic orders", "created", "growing"),
    ("topic orders", "growing", "created"),
    ("orders-0 on broker 7", "NonExistent", "New"),
    ("orders-0 on broker 7", "New", "Online"),
    ("topic orders", "created", "queued for deletion"),
    ("topic orders", "queued for deletion", "deleting"),
    ("topic orders", "deleting", "halted"),
    ("orders-0 on broker 7", "Online", "DeletionSuccessful"),  # given up
    ("topic orders", "halted", "deleting"),
    ("orders-0 on broker 7", "DeletionSuccessful", "NonExistent"),
    ("topic orders", "deleting", "absent"),
]


def _told(epoch: int, lines: list[Line]) -> list[dict[str, Any]]:
    entries = [_entry(epoch, number, line) for number, line in enumerate(lines, 1)]
    return [entries[0] | WHOLE, *entries[1:]]


def test_the_life_of_a_topic_is_judged_and_a_copy_may_be_given_up(spark: SparkSession) -> None:
    frame = _frame(spark, _told(1, DELETED))
    assert audit_tables.illegal(frame).count() == 0
    assert _faults(frame) == ([], [])
    wrong = _told(1, [*DELETED[:8], ("topic orders", "created", "absent")])
    assert [r.subject for r in audit_tables.illegal(_frame(spark, wrong)).collect()] == [
        "topic orders"
    ]


OVER_TERMS: list[tuple[Line, str | None]] = [
    (("topic orders", "found", "queued for deletion"), None),
    (("orders-0", "found", "Offline"), None),
    (("orders-0", "Online", "Offline"), None),
    (("orders-0 on broker 0", "NonExistent", "New"), None),
    (("orders-0", "Offline", "Online"), "Online"),
    (("orders-0", "NonExistent", "New"), "Offline"),
    (("topic orders", "halted", "deleting"), "created"),
]


@pytest.mark.parametrize("edition", [1, 2])
def test_a_new_term_says_what_it_found(spark: SparkSession, edition: int) -> None:
    """Both judges say the same, of both editions."""
    before = [
        ("controller 0", "standby", "active"),
        ("topic orders", "queued for deletion", "halted"),
        ("orders-0", "Online", "Offline"),
        ("orders-0 on broker 0", "New", "Online"),
    ]
    told = [_entry(epoch, 0, before[0]) | WHOLE for epoch in (1, 2)]
    for case, (line, _) in enumerate(OVER_TERMS):
        own = {"topic_id": f"case {case}"}
        told += [_entry(1, 10 * case + at, old) | own for at, old in enumerate(before[1:], 1)]
        told.append(_entry(2, case + 1, line) | own)
    entries = [{k: v for k, v in e.items() if edition == 2 or k != "edition"} for e in told]
    frame, verdict = _frame(spark, entries), judge(entries)
    found = {r.topic_id: r.expected for r in audit_tables.broken_chains(frame).collect()}
    assert found == {line.topic_id: expected for line, expected in verdict.broken}
    if edition == 2:
        wanted = enumerate(expected for _, expected in OVER_TERMS)
        assert found == {f"case {case}": expected for case, expected in wanted if expected}
    assert audit_tables.illegal(frame).count() == len(verdict.illegal) == 0
