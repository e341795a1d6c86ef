"""The audit's page and summary, without a Spark."""

from __future__ import annotations

from typing import Any

from klamm.cli.spark.audit import _summary
from klamm.pipelines.audit.findings import Findings
from klamm.pipelines.audit.report import render

TABLES = (
    "illegal",
    "broken_chains",
    "lost",
    "stuck",
    "moves",
    "latency",
    "durations",
    "epochs",
    "timeline",
)


def _audit(events: int = 0, **rows: list[dict[str, Any]]) -> Findings:
    every = {name: rows.get(name, []) for name in TABLES}
    counts = {name: len(found) for name, found in every.items()}
    return Findings(events, 0, events * 1000, counts, every, [])


def _lane(number: int, **more: Any) -> dict[str, Any]:
    return {
        "subject": f"orders-{number}",
        "entity": "partition",
        "topic": "orders",
        "partition": number,
        "broker": None,
        "state": "Online",
        "since_ms": number,
        "until_ms": None,
    } | more


def _stuck(number: int = 0) -> dict[str, Any]:
    return {
        "subject": f"topic {number}",
        "state": "queued for deletion",
        "since_ms": 5,
        "waits_for": "waits for <broker> 1",
    }


def test_an_empty_ledger_has_a_page() -> None:
    page = render(_audit(), title="an audit")
    assert "there is nothing to check" in page
    assert "Something is wrong" not in page


def test_a_clean_one_says_so_and_a_bad_one_too() -> None:
    assert "nothing is missing" in render(_audit(3), title="an audit")
    page = render(_audit(3, stuck=[_stuck()]), title="<an audit>")
    assert "Something is wrong" in page
    assert "waits for &lt;broker&gt; 1" in page
    assert "&lt;an audit&gt;" in page
    assert "<an audit>" not in page


def test_what_is_left_out_is_counted() -> None:
    page = render(_audit(3, timeline=[_lane(n) for n in range(70)]), title="an audit")
    assert "10 more are in the table timeline" in page
    page = render(_audit(3, stuck=[_stuck(n) for n in range(130)]), title="an audit")
    assert "30 more are in the table" in page


def test_lanes_go_by_topic_and_partition_and_brokers_come_last() -> None:
    rows = [
        _lane(0, subject="broker 1", entity="broker", topic="", state="live"),
        _lane(0, subject="__klamm_ledger-0", topic="__klamm_ledger"),
        *(_lane(n) for n in (10, 2, 1)),
    ]
    page = render(_audit(3, timeline=rows), title="an audit")
    order = ["orders-1", "orders-2", "orders-10", "broker 1", "__klamm_ledger-0"]
    places = [page.index(f"<bdi>{name}</bdi>") for name in order]
    assert places == sorted(places)
    assert page.index("<details>") < places[-1]  # internal topics are folded away


def test_the_summary_names_what_is_wrong_and_where_it_was_read() -> None:
    lines = list(_summary(_audit(3, stuck=[_stuck()]), "the topic __klamm_ledger"))
    assert lines[0].startswith("3 events, 1970-01-01 00:00:00 to 1970-01-01 00:00:03 UTC")
    assert lines[1] == "read from the topic __klamm_ledger"
    assert "       0  illegal transitions" in lines
    assert "       1  stuck deletions" in lines
    assert lines[-1].strip() == "topic 0: queued for deletion, waits for <broker> 1"


def test_a_strangers_text_is_neither_markup_nor_turns_a_line() -> None:
    evil = "<script>x</script>\u202e\"' onload=y"
    page = render(
        _audit(
            3,
            timeline=[_lane(0, subject=evil, state=evil)],
            illegal=[{"subject": evil, "from_state": evil, "to_state": evil, "why": evil}],
        ),
        title=evil,
    )
    assert "<script" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page
    assert "\"' onload" not in page
