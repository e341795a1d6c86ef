"""How long work on topics took, from its cause to the last confirmation."""

from __future__ import annotations

from typing import Any

from klamm.controller.states import EDITION
from klamm.pipelines.audit import tables_here


def _line(number: int, time_ms: int, cause: str, subject: str, before: str, after: str) -> Any:
    entry = {"time_ms": time_ms, "controller_epoch": 1, "sequence": number, "cause": cause}
    entry |= {"topic": "orders", "topic_id": "x", "subject": subject, "edition": EDITION}
    return tables_here.line_of(entry | {"before": before, "after": after, "controller_id": 0})


def test_a_topics_life() -> None:
    topic, partition, replica = "topic orders", "orders-0", "orders-0 on broker 1"
    lines = [
        _line(1, 100, "TopicsChanged", topic, "absent", "created"),
        _line(2, 100, "TopicsChanged", partition, "NonExistent", "New"),
        _line(3, 130, "TopicsChanged", partition, "New", "Online"),
        _line(4, 140, "TopicsChanged", replica, "New", "Online"),
        _line(5, 500, "TopicModified", topic, "created", "growing"),
        _line(6, 520, "TopicModified", topic, "growing", "created"),
        _line(7, 900, "MarkersChanged", topic, "created", "queued for deletion"),
        _line(8, 910, "MarkersChanged", topic, "queued for deletion", "deleting"),
        _line(9, 950, "BrokersChanged", topic, "deleting", "halted"),
        _line(10, 4000, "RetryDue", topic, "halted", "deleting"),
        _line(11, 4100, "StopReplicaAnswered", topic, "deleting", "absent"),
    ]
    found = tables_here.durations(tables_here.events(lines))
    assert [(r["what"], r["began_ms"], r["took_ms"]) for r in found] == [
        ("created", 100, 40),
        ("growing", 500, 20),
        ("queued for deletion", 900, 3200),
    ]
