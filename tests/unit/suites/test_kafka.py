"""Explained failures beside Apache Kafka."""

from __future__ import annotations

from suites.catalogue import Explanation
from suites.kafka import as_table, comparison
from suites.outcomes import FAILED, PASSED, Outcome


def test_each_pattern_is_told_by_its_worst_test() -> None:
    known = (Explanation(("p.TestA", "p.TestB*"), "slow"), Explanation(("p.TestC",), "gone", False))
    outcomes = [
        Outcome("p.TestA/one", PASSED),
        Outcome("p.TestA/two", FAILED),
        Outcome("p.TestBee", PASSED),
    ]
    rows = comparison("s", known, outcomes)
    assert [(test, end) for _, test, end, _ in rows] == [
        ("p.TestA", FAILED),
        ("p.TestB*", PASSED),
        ("p.TestC", "not run"),
    ]
    assert "| s | `p.TestA` | failed | slow |" in as_table(rows)
