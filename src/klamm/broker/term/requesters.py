"""The requesters of changes that reach the controller through the store.

A topic is created, grown, changed or marked for deletion by a node in the store, which has no room
for who wanted it. The controller's own broker serves most of those requests, so it knows: it notes
the requester before the write, and the turn that acts on the node finds the note. Other brokers
tell it theirs (`api/note.py`). What was written by hand, or by another kind of broker, has no
requester.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from klamm.controller import events
from klamm.model.errors import ErrorCode, Refused

_NOTES_MAX: Final = 10_000  # requests that failed leave some behind

CREATION: Final = events.TopicsChanged
GROWTH: Final = events.TopicModified
DELETION: Final = events.MarkersChanged
# Whatever is changed of a topic's settings, both are looked at.
SETTINGS: Final = (events.FreezeSwitched, events.ImportSwitched, events.UncleanSwitched)


class Requesters:
    """Notes of who asked for what."""

    def __init__(self) -> None:
        self._notes: dict[tuple[type, str], str] = {}

    def note(self, kind: type, topics: Iterable[str], by: str, *, more: bool = True) -> None:
        """Somebody is about to write such a change of these topics.

        Without `more`, whoever is noted already stays: a broker asks for somebody it told us of.
        """
        if len(self._notes) >= _NOTES_MAX:
            self._notes.clear()
        for topic in topics:
            if more or (kind, topic) not in self._notes:
                self._notes[kind, topic] = by

    def note_settings(self, topics: Sequence[str], by: str) -> None:
        """Somebody is about to change settings of these topics; '': nothing came of it."""
        for kind in SETTINGS:
            if by:
                self.note(kind, topics, by)
            else:
                self.drop(kind, topics)

    def drop(self, kind: type, topics: Iterable[str]) -> None:
        """Nothing came of it."""
        for topic in topics:
            self._notes.pop((kind, topic), None)

    def told(self, event: events.Event) -> None:
        """Forgets the asker of a change that was told: the next is somebody else's."""
        match event:
            case events.TopicsChanged():
                self.drop(CREATION, event.appeared)
            case events.TopicModified():
                self.drop(GROWTH, (event.topic,))
            case events.MarkersChanged():
                self.drop(DELETION, event.topics)
            case events.FreezeSwitched() | events.ImportSwitched() | events.UncleanSwitched() if (
                event.topic is not None
            ):
                self.drop(type(event), (event.topic,))
            case _:
                pass

    def of(self, kind: type, topic: str) -> str:
        """The requester of such a change of a topic; '' where nobody is known."""
        return self._notes.get((kind, topic), "")


def came_to_nothing(outcome: object) -> bool:
    """Whether nothing was written, and nothing will come of it later."""
    return isinstance(outcome, Refused) and outcome.code is not ErrorCode.REQUEST_TIMED_OUT
