"""The audit: what is planted is found, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from klamm.pipelines import audit
from klamm.pipelines.report import render

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
        "cause": "a test",
        "topic": topic,
        "subject": subject,
        "before": before,
        "after": after,
        "why": "",
    }


def _life(epoch: int = 1) -> list[dict[str, Any]]:
    return [_entry(epoch, number, line) for number, line in enumerate(LIFE, 1)]


def _run(spark: SparkSession, path: Path, entries: list[dict[str, Any]], **more: Any) -> Any:
    path.mkdir(exist_ok=True)
    (path / "a.jsonl").write_text("".join(json.dumps(e) + "\n" for e in entries))
    more.setdefault("now_ms", 1_000_000)
    return audit.run(spark, str(path), None, **more)


def _frame(spark: SparkSession, entries: list[dict[str, Any]]) -> DataFrame:
    return audit.events(spark.createDataFrame(entries, audit.LEDGER))


def test_an_ordinary_life_is_clean(spark: SparkSession, tmp_path: Path) -> None:
    # Two brokers may both hold an entry.
    found = _run(spark, tmp_path / "ledger", _life() + _life()[:5])
    assert found.events == len(LIFE)
    assert found.is_clean, found.counts
    assert found.counts["epochs"] == 1


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


def test_everything_planted_is_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    life = _life()
    planted = [
        *life[:12],
        _entry(1, 13, ("orders-1", "NonExistent", "Online")),  # no table allows it
        _entry(1, 14, ("other-0 on broker 1", "Offline", "DeletionStarted")),
        _entry(1, 15, ("orders-0 on broker 0", "Offline", "Online")),  # it was Online before
        _entry(1, 16, ("topic other", "created", "queued for deletion")),
        _entry(1, 20, ("broker 1", "live", "gone")),  # 17 to 19 are lost
        _entry(2, 1, ("controller 1", "standby", "active"), 2100),
        _entry(1, 21, ("orders-0", "Online", "Offline"), 2300),  # the old one is still at it
    ]
    found = _run(spark, tmp_path / "ledger", planted)
    assert [r["subject"] for r in found.rows["illegal"]] == ["orders-1"]
    assert [r["subject"] for r in found.rows["broken_chains"]] == ["orders-0 on broker 0"]
    assert [(r["first"], r["last"]) for r in found.rows["lost"]] == [(17, 19)]
    assert {(r["subject"], r["waits_for"]) for r in found.rows["stuck"]} == {
        ("other-0 on broker 1", "waits for broker 1"),
        ("topic other", ""),
    }
    assert [(r["controller_epoch"], r["overtime_ms"]) for r in found.rows["epochs"]] == [
        (1, 200),
        (2, 0),
    ]
    assert not found.is_clean


def test_young_deletions_are_not_stuck(spark: SparkSession) -> None:
    frame = _frame(spark, _life()[:15])
    assert audit.stuck(frame, now_ms=2000).count() == 0
    found = audit.stuck(frame, now_ms=100_000).collect()
    assert {r.state for r in found} == {"DeletionStarted", "queued for deletion"}


def test_latencies(spark: SparkSession) -> None:
    found = audit.latency(_frame(spark, _life())).filter("entity = 'partition'").collect()
    taken = {(r.from_state, r.to_state): r.p50_ms for r in found}
    assert ("NonExistent", "New") not in taken  # nothing came before it
    assert taken["New", "Online"] == 200
    assert taken["Offline", "Online"] == 100


def test_report_is_one_page_that_needs_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    entries = [*_life(), _entry(1, 21, ("orders-9", "<script>", "Online"))]
    page = render(_run(spark, tmp_path / "ledger", entries), title="klamm audit")
    assert page.count("<svg") == 3
    assert "Illegal moves" in page
    assert "&lt;script&gt;" in page
    for foreign in ("http://", "https://", "<script", "<link", "@import"):
        assert foreign not in page


def test_tables_are_written_and_broken_lines_left_out(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.mkdir()
    lines = [json.dumps(e) for e in _life()]
    # A crash may have cut the last line.
    (path / "a.jsonl").write_text("\n".join([*lines, lines[0][:20]]))
    found = audit.run(spark, str(path), tmp_path / "tables", now_ms=0)
    assert found.events == len(LIFE)
    timeline = spark.read.parquet(str(tmp_path / "tables" / "timeline"))
    row = timeline.filter("subject = 'orders-0' AND state = 'Offline'").orderBy("since_ms").first()
    assert row is not None
    assert (row.since_ms, row.until_ms) == (1100, 1200)


def test_empty_ledger(spark: SparkSession, tmp_path: Path) -> None:
    found = _run(spark, tmp_path / "ledger", [])
    assert (found.events, found.is_clean) == (0, True)
    assert "klamm audit" in render(found, title="klamm audit")
