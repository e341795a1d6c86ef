"""Judging a ledger line by line: illegal transitions, and chains that do not join.

The lines about one thing are a chain: each begins where the one before ended. A new controller
knows what is stored, not what was written down before its term. So the chain begins anew with its
first line about a thing: that line begins with the word "found", or with the state in which
everything is that a new controller says nothing about, or it tells of a birth.

Ledgers of the first edition kept no chain of topics, and none over two terms. The first line of a
term says of which edition it is (`"edition": 2`); where none does, less is concluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from klamm.controller.context import Context
from klamm.controller.effects import Transition
from klamm.controller.states import EDITION, FOUND
from klamm.controller.states.tables import MACHINES, TOPICS, Machine, machine_of
from klamm.model.names import Replica, id_text

_Thing = tuple[str, str | None]  # a subject, and the id of its topic


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the ledger, as far as it is judged."""

    epoch: int
    subject: str
    topic_id: str | None
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.before} -> {self.after} (epoch {self.epoch})"


@dataclass(slots=True)
class Judge:
    """Takes lines in their order."""

    illegal: list[Line] = field(default_factory=list)
    broken: list[tuple[Line, str]] = field(default_factory=list)  # with the state expected
    _editions: dict[int, int] = field(default_factory=dict)
    _last: dict[_Thing, tuple[int, str]] = field(default_factory=dict)

    def begin(self, epoch: int, edition: int = EDITION) -> None:
        """A term's lines are of this edition."""
        self._editions[epoch] = edition

    def take(self, line: Line) -> None:
        """Look at the next line."""
        machine = machine_of(line.subject)
        is_whole = self._editions.get(line.epoch, 1) >= EDITION
        if machine is None or not (machine.words() & {line.before, line.after}):
            return
        if machine is TOPICS and not is_whole:
            return
        if (line.before, line.after) not in machine.legal():
            self.illegal.append(line)
        thing = (line.subject, line.topic_id)
        known = self._last.get(thing)
        if known is not None:
            expected = _unmet(machine, line, known, is_whole=is_whole)
            if expected is not None:
                self.broken.append((line, expected))
        self._last[thing] = (line.epoch, line.after)

    def faults(self) -> list[str]:
        """All that was found, in words."""
        return [
            *(f"illegal: {line}" for line in self.illegal),
            *(f"broken: {line}, expected {state}" for line, state in self.broken),
        ]

    def differences(self, context: Context) -> Iterator[str]:
        """The differences between a controller's memory and its ledger."""
        for thing, machine, state in _states(context):
            epoch, told = self._last.get(thing, (None, ""))
            if epoch != context.epoch:
                told = str(state if state == machine.never else machine.unsaid)
            if state != told:
                yield f"{thing[0]} is {state}, and the ledger says {told}"


def judge(entries: Iterable[Mapping[str, Any]]) -> Judge:
    """Judges the entries of a ledger, in whatever order they come."""
    verdict = Judge()
    seen: set[tuple[int, int]] = set()
    for entry in sorted(entries, key=lambda e: (e["controller_epoch"], e["sequence"])):
        epoch, sequence = entry["controller_epoch"], entry["sequence"]
        if (epoch, sequence) in seen:
            continue
        seen.add((epoch, sequence))
        if entry.get("edition") is not None:
            verdict.begin(epoch, entry["edition"])
        topic_id = entry.get("topic_id")
        verdict.take(Line(epoch, entry["subject"], topic_id, entry["before"], entry["after"]))
    return verdict


def _unmet(machine: Machine, line: Line, known: tuple[int, str], *, is_whole: bool) -> str | None:
    """The state in which a line should have begun; None where it joins."""
    epoch, state = known
    if epoch == line.epoch:
        return None if line.before == state else state
    if line.before == machine.never:
        is_sure = state != machine.never and not (is_whole and machine.ends_unseen)
        return state if is_sure else None  # what is there cannot come into being
    if is_whole and line.before not in (FOUND, machine.unsaid):
        return str(machine.unsaid)
    return None


def _states(context: Context) -> Iterator[tuple[_Thing, Machine, str]]:
    topics, partitions, replicas = MACHINES
    for name, topic in context.topics.items():
        id = id_text(topic.id)
        yield (f"topic {name}", id), topics, topic.state
        for partition in topic.partitions.values():
            yield (str(partition.id), id), partitions, partition.state
            for broker in partition.assignment.replicas:
                replica = Replica(partition.id, broker)
                yield (str(replica), id), replicas, context.replica_state(replica)


def line_of(epoch: int, entry: Transition) -> Line:
    """A decision's entry as the ledger will have it."""
    topic_id = None if entry.topic_id is None else id_text(entry.topic_id)
    return Line(epoch, entry.subject, topic_id, entry.before, entry.after)
