"""One event's turn: the context it works on, what it has to say, and how it waits for the store.

The work on an event is a generator. It yields writes and receives their outcomes, so an event that
needs several rounds still reads from top to bottom; between two rounds nothing else touches the
context. What a turn says (`requests`) goes out with the next round, and so only after everything
in it was stored.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from klamm.controller.batch import Batch
from klamm.controller.context import Context
from klamm.controller.effects import Outcome, Request, Transition, Write
from klamm.model.names import BrokerId

T = TypeVar("T")
Flow = Generator[tuple[Write, ...], Sequence[Outcome], T]

# How often a write that came too late is planned again before it is given up.
ATTEMPTS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The broker settings a controller decides by."""

    deletion_enabled: bool = True
    deletion_cancellable: bool = False  # no log is removed until every replica can confirm
    vanished_deletes_logs: bool = False  # for topics whose nodes were removed by hand
    imbalance_percentage: int = 10
    rebalance_batch_max: int = 500  # how many leaders one round of the rebalance moves
    legacy_reassignments_checked: bool = False  # the legacy request obeys the rules of the API


@dataclass(slots=True)
class Turn:
    """The work on one event."""

    context: Context
    settings: ControllerSettings
    cause: str
    requests: list[Request] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unclean_elections_count: int = 0

    def batch(self) -> Batch:
        return Batch(self.context)

    def send(self, batch: Batch) -> None:
        self.requests += batch.requests()

    def note(self, subject: str, topic: str, before: str, after: str, why: str = "") -> None:
        """Enter a transition into the ledger."""
        known = self.context.topics.get(topic)
        self.transitions.append(
            Transition(subject, topic, before, after, why, known.id if known else None)
        )

    def warn(self, text: str) -> None:
        """Say something an operator should see."""
        self.warnings.append(text)

    def publish_brokers(self, to: Sequence[BrokerId] | None = None) -> None:
        """Tell brokers who is there."""
        batch = self.batch()
        batch.publish(to=to)
        self.send(batch)


def pause() -> Flow[None]:
    """Let what is said so far arrive, before the rest is decided."""
    yield ()


def commit(writes: Sequence[Write]) -> Flow[Sequence[Outcome]]:
    """Have these stored; no writes need no round."""
    if not writes:
        return ()
    return (yield tuple(writes))
