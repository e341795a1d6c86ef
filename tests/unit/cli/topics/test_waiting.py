"""Explanations in words."""

from __future__ import annotations

from typing import Any

from klamm.cli.topics.waiting import tell

NOW_MS = 1_700_000_000_000


def reason(partition: int, **given: Any) -> dict[str, Any]:
    return {
        "what": "deletion",
        "partition": partition,
        "broker": 2,
        "why": "broker is down",
        "until": "broker 2 is back",
        "since_ms": NOW_MS - 200_000,
        "since_at_least": False,
        **given,
    }


def told(deleting: int | None, *waiting: dict[str, Any]) -> list[str]:
    found = {"topic": "T", "deleting_since_ms": deleting, "waiting": list(waiting)}
    return list(tell(found, NOW_MS))


def test_alike_reasons_are_told_once() -> None:
    first, *rest = told(NOW_MS - 500, *map(reason, range(12)))
    assert first.startswith("T is being deleted, since ")
    assert first.endswith(" (0 s)")
    where, since, until = rest
    assert where == (
        "  deletion of partitions 0, 1, 2, 3, 4, 5, 6, 7 and 4 more on broker 2: broker is down"
    )
    assert since.startswith("    since ")
    assert since.endswith(" (3 min)")
    assert until == "    until broker 2 is back"


def test_the_oldest_of_alike_reasons_counts_and_may_be_older() -> None:
    old = reason(1, since_ms=NOW_MS - 3 * 86_400_000, since_at_least=True)
    _, where, since, _ = told(None, reason(0), old)
    assert where.startswith("  deletion of partitions 0, 1 on broker 2")
    assert since.endswith(" (3 d) or earlier")


def test_a_reason_without_a_broker_and_one_of_another_kind() -> None:
    lines = told(None, reason(0), reason(3, broker=None, what="creation", why="no replica"))
    assert lines[0] == "T is degraded"
    assert lines[4] == "  creation of partition 3: no replica"


def test_a_topic_that_is_healthy() -> None:
    assert told(None) == ["T is healthy"]
