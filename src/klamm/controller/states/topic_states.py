"""The topic state machine: a table of the legal transitions and the rule of each.

A topic's life is decided from the store: its node makes it, its delete marker ends it, its settings
freeze it. One that is imported begins closed to clients: its leaders take batches that have their
offsets already, and it serves when its settings say that all of them are there. It never becomes
that again, for a client may have written by then.

So a rule has nothing to write and nobody to tell; it says whether the topic may go there, and why
it does, in the words of the ledger. What a transition means for the topic's partitions and replicas
is decided where it is made (`topics.py`, `deletion.py`, `cancellation.py`,
`swapping.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.controller.states import TopicState as S
from klamm.model.errors import Refused
from klamm.model.names import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """All that a rule may look at."""

    name: str
    state: S
    reason: str = ""  # given by whoever wants the transition
    obstacle: str | None = None  # why its deletion must not begin now
    loss: str | None = None  # why its deletion cannot be called off any more
    is_vanished: bool = False  # its node was removed by hand
    is_renamed: bool = False  # its name was given to another topic
    is_removed: bool = False  # its nodes were removed, for each copy is confirmed or given up
    given_up: tuple[BrokerId, ...] = ()  # the brokers whose copies were given up


@dataclass(frozen=True, slots=True)
class TopicStep:
    """The effects of one legal transition: only its entry in the ledger."""

    why: str = ""


Rule = Callable[[TopicView], TopicStep | Refused]


def admit(t: TopicView) -> TopicStep:
    """A topic appeared in the store and is taken up."""
    return TopicStep(t.reason)


def take_in(t: TopicView) -> TopicStep:
    """A topic appeared that is filled with batches of another log; clients may read, not write."""
    return TopicStep(t.reason)


def grow(t: TopicView) -> TopicStep:
    """Partitions were added, and are brought to life."""
    return TopicStep(t.reason)


def serve(t: TopicView) -> TopicStep:
    """Clients read and write."""
    return TopicStep(t.reason)


def freeze(t: TopicView) -> TopicStep:
    """Clients read; what they write is refused."""
    return TopicStep(t.reason)


def queue(t: TopicView) -> TopicStep:
    """Somebody asked to delete the topic, or removed its node by hand."""
    return TopicStep(t.reason)


def wait(t: TopicView) -> TopicStep | Refused:
    """A deletion that cannot go on waits, and says what for."""
    return TopicStep(t.reason) if t.reason else Refused("a deletion waits for a reason")


def begin(t: TopicView) -> TopicStep | Refused:
    """Logs are removed from here on, unless something has to end before."""
    if t.obstacle is not None and not t.is_vanished:
        return Refused(t.obstacle)
    return TopicStep(t.reason)


def call_off(t: TopicView) -> TopicStep | Refused:
    """A deletion is taken back, as long as it has cost no log."""
    return TopicStep(t.reason) if t.loss is None else Refused(t.loss)


def finish(t: TopicView) -> TopicStep | Refused:
    """A topic is gone when the store has nothing of it. Its nodes are removed when each copy is
    confirmed to be gone, or was given up."""
    if t.is_vanished:
        return TopicStep("its node is gone")
    if not t.is_removed:
        return Refused("its nodes are in the store")
    if t.given_up:
        return TopicStep(f"every replica has confirmed, but for {_copies(t.given_up)}: given up")
    return TopicStep("every replica has confirmed")


def part(t: TopicView) -> TopicStep | Refused:
    """Another topic has the name now, and this one goes on under another."""
    return TopicStep(t.reason) if t.is_renamed else Refused("its name is its own")


# Every legal transition, and nothing else: a pair that is not here is refused.
TRANSITIONS: Final[Mapping[tuple[S, S], Rule]] = {
    (S.ABSENT, S.CREATED): admit,
    (S.ABSENT, S.IMPORTING): take_in,
    (S.IMPORTING, S.CREATED): serve,
    (S.IMPORTING, S.FROZEN): freeze,
    (S.IMPORTING, S.GROWING): grow,
    (S.GROWING, S.IMPORTING): take_in,
    (S.CREATED, S.GROWING): grow,
    (S.FROZEN, S.GROWING): grow,
    (S.GROWING, S.CREATED): serve,
    (S.GROWING, S.FROZEN): freeze,
    (S.CREATED, S.FROZEN): freeze,
    (S.FROZEN, S.CREATED): serve,
    (S.CREATED, S.QUEUED): queue,
    (S.FROZEN, S.QUEUED): queue,
    (S.IMPORTING, S.QUEUED): queue,
    (S.QUEUED, S.HALTED): wait,
    (S.DELETING, S.HALTED): wait,
    (S.HALTED, S.HALTED): wait,
    (S.QUEUED, S.DELETING): begin,
    (S.HALTED, S.DELETING): begin,
    (S.HALTED, S.CREATED): call_off,
    (S.HALTED, S.FROZEN): call_off,
    (S.HALTED, S.IMPORTING): call_off,
    (S.DELETING, S.ABSENT): finish,
    (S.FROZEN, S.ABSENT): part,
}


def plan(t: TopicView, target: S) -> TopicStep | Refused:
    """The step that moves this topic to this state, or the reason why not."""
    rule = TRANSITIONS.get((t.state, target))
    return rule(t) if rule else Refused(f"{t.state} -> {target} is not a legal transition")


def _copies(brokers: tuple[BrokerId, ...]) -> str:
    ids = ", ".join(map(str, sorted(brokers)))
    return f"the copies on broker {ids}" if len(brokers) == 1 else f"the copies on brokers {ids}"
