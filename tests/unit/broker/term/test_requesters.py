"""Notes of who asked for what comes back through the store."""

from __future__ import annotations

import uuid

from klamm.broker.term.requesters import CREATION, DELETION, GROWTH, Requesters, came_to_nothing
from klamm.controller import events
from klamm.model.errors import ErrorCode, Refused
from klamm.model.topics import StoredTopic

NODE = StoredTopic(topic_id=uuid.UUID(int=7), partitions={})


def test_a_note_is_of_one_kind_and_one_topic() -> None:
    notes = Requesters()
    notes.note(CREATION, ["t", "u"], "alice")
    assert notes.of(CREATION, "t") == notes.of(CREATION, "u") == "alice"
    assert notes.of(DELETION, "t") == notes.of(CREATION, "v") == ""


def test_what_was_told_is_no_longer_anybodys() -> None:
    notes = Requesters()
    notes.note(CREATION, ["t"], "alice")
    notes.note(GROWTH, ["t"], "bob")
    notes.note(DELETION, ["t"], "carol")
    notes.told(events.TopicsChanged({"t": NODE}))
    assert notes.of(CREATION, "t") == ""
    assert notes.of(GROWTH, "t") == "bob"
    notes.told(events.TopicModified("t", NODE))
    notes.told(events.MarkersChanged(("t",)))
    assert notes.of(GROWTH, "t") == notes.of(DELETION, "t") == ""


def test_both_looks_at_changed_settings_know_the_requester() -> None:
    notes = Requesters()
    notes.note_settings(["t"], "alice")
    assert notes.of(events.FreezeSwitched, "t") == "alice"
    notes.told(events.FreezeSwitched("t", True))
    assert notes.of(events.FreezeSwitched, "t") == ""
    assert notes.of(events.UncleanSwitched, "t") == "alice"
    notes.told(events.UncleanSwitched(None, True))
    assert notes.of(events.UncleanSwitched, "t") == "alice"


def test_notes_do_not_grow_without_end() -> None:
    notes = Requesters()
    for number in range(10_000):
        notes.note(CREATION, [f"t{number}"], "alice")
    notes.note(CREATION, ["last"], "bob")
    assert notes.of(CREATION, "t1") == ""
    assert notes.of(CREATION, "last") == "bob"


def test_a_request_that_timed_out_may_still_come_to_something() -> None:
    assert came_to_nothing(Refused("no"))
    assert not came_to_nothing(Refused("late", ErrorCode.REQUEST_TIMED_OUT))
    assert not came_to_nothing(None)
