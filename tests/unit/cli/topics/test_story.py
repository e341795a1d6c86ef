"""A story groups what one cause led to."""

from __future__ import annotations

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
    assert len(told) == 3
    assert told[0].endswith(".123  topic t was created")
    assert told[1].strip() == "t-0, t-1: NonExistent -> New"
    assert told[2].strip() == "t-0: New -> Online (broker 1 leads)"


def test_many_subjects_are_counted() -> None:
    told = list(tell([record(at, f"t-{at}", "New", "Online") for at in range(100)]))
    assert told[1].strip() == "t-0, t-1 and 98 more: New -> Online"
