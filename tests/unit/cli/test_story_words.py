"""Every cause a controller can write down has words."""

from __future__ import annotations

import inspect

from klamm.cli.topics.story import CAUSES, tell
from klamm.controller import events

# Asked for, but nothing moves because of them.
SILENT = {
    "Ask",
    "ReassignmentsListed",
    "ProducerIdsAsked",
    "ExplanationAsked",
    "ExplanationsAsked",
    "StatesAsked",
    "StatusAsked",
    "PlanAsked",
}


def test_every_event_that_moves_something_has_words() -> None:
    ends = ("Began", "Changed", "Modified", "Answered", "Failed", "Requested", "Asked")
    more = (
        "Switched",
        "Due",
        "GivenUp",
        "Cancelled",
        "Unreachable",
        "Reached",
        "Archived",
        "Noticed",
    )
    named = {
        name
        for name, kind in inspect.getmembers(events, inspect.isclass)
        if kind.__module__ == events.__name__ and name.endswith(ends + more)
    }
    assert named - SILENT == set(CAUSES)


def told(records: list[dict[str, object]]) -> list[str]:
    """A story of one day, without the date."""
    return list(tell(records))[1:]


def test_alike_moves_share_a_line() -> None:
    def moved(subject: str, sequence: int) -> dict[str, object]:
        return {
            "time_ms": 0,
            "controller_epoch": 1,
            "sequence": sequence,
            "cause": "BrokersChanged",
            "subject": subject,
            "before": "Online",
            "after": "Offline",
            "why": "",
        }

    lines = told([moved("t-0", 1), moved("t-1", 2)])
    assert lines[0].endswith("brokers came or went")
    assert lines[1].strip() == "t-0, t-1: Online -> Offline"


def test_a_cause_by_its_former_name_has_the_same_words() -> None:
    line = {"time_ms": 0, "controller_epoch": 1, "subject": "t-0", "before": "a", "after": "b"}
    (heading, _) = told([line | {"cause": "MovesAsked"}])
    assert heading.endswith("a client asked to reassign partitions")
    (heading, _) = told([line | {"cause": "of tomorrow"}])
    assert heading.endswith("of tomorrow")


def test_a_broker_that_went_or_came_is_named() -> None:
    line = {"controller_epoch": 1, "cause": "BrokersChanged", "subject": "t-0 on broker 2"}
    went = line | {"time_ms": 0, "before": "Online", "after": "Offline"}
    late = went | {"time_ms": 3, "subject": "t-1 on broker 2"}
    came = line | {"time_ms": 5_000, "before": "Offline", "after": "Online"}
    first, _, second, _ = told([went, late, came])
    assert first.endswith("broker 2 went down")
    assert second.endswith("broker 2 came back")


def test_a_topic_that_appears_was_created_and_one_that_vanishes_was_removed_by_hand() -> None:
    line = {"controller_epoch": 1, "cause": "TopicsChanged", "subject": "topic t"}
    born = line | {"time_ms": 0, "before": "New", "after": "Online"}  # the rest was cut off by -n
    gone = line | {"time_ms": 5_000, "before": "created", "after": "queued for deletion"}
    first, _, second, _ = told([born, gone])
    assert first.endswith("the topic was created")
    assert second.endswith("the topic was removed from the store by hand")
