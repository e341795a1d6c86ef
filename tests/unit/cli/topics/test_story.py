"""A story groups what one cause led to."""

from __future__ import annotations

import re

from klamm.cli.topics.story import Record, tell


def record(sequence: int, subject: str, before: str, after: str, why: str = "") -> Record:
    return {
        "time_ms": 1_700_000_000_123,
        "controller_epoch": 1,
        "sequence": sequence,
        "cause": "topic t was created",
        "subject": subject,
        "before": before,
        "after": after,
        "why": why,
    }


def test_one_cause_is_one_heading_and_alike_moves_one_line() -> None:
    told = list(
        tell(
            [
                record(1, "t-0", "NonExistent", "New"),
                record(2, "t-1", "NonExistent", "New"),
                record(3, "t-0", "New", "Online", "broker 1 leads"),
            ]
        )
    )
    assert len(told) == 4
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", told[0])
    assert told[1].endswith(".123  topic t was created")
    assert told[2].strip() == "t-0, t-1: NonExistent -> New"
    assert told[3].strip() == "t-0: New -> Online (broker 1 leads)"


def test_many_subjects_are_counted() -> None:
    told = list(tell([record(at, f"t-{at}", "New", "Online") for at in range(100)]))
    assert told[2].strip() == "t-0, t-1 and 98 more partitions: New -> Online"


def test_partitions_and_replicas_have_lines_of_their_own() -> None:
    subjects = ["t-0", "t-1", "t-0 on broker 1", "t-1 on broker 1"]
    lines = list(tell([record(at, name, "A", "B") for at, name in enumerate(subjects)]))
    assert [line.strip() for line in lines[2:]] == [
        "t-0, t-1: A -> B",
        "t-0 on broker 1, t-1 on broker 1: A -> B",
    ]


def test_another_day_has_its_date() -> None:
    first = record(1, "t-0", "A", "B")
    later = record(2, "t-0", "B", "C") | {"time_ms": 1_700_200_000_000}
    assert sum(bool(re.fullmatch(r"\d{4}-\d\d-\d\d", line)) for line in tell([first, later])) == 2
