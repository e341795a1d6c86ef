"""Notes of who led, who was the controller and what clients were told, to explain gaps with.

Each source is looked at by a thread of its own, so that one that is silent keeps no other waiting,
and is noted when it says something new. What the processes wrote into their logs is read later, and
only of the times that need explaining.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from chaos.load import Worker
from chaos.world import World
from klamm.ensemble import Server
from mixed.hosts import BrokerProcess

_LOOK_EVERY_S: Final = 0.25
_LINE_MAX: Final = 400
_TOLD: Final = re.compile(r"encountered error|timed out|IDEMPSTATE|ALL_BROKERS_DOWN|GAP|EPOCH")
# `12:00:00,123` of klamm and of ZooKeeper, each behind a date.
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})")


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """Something that was said: when (on the monotonic clock), by whom, what."""

    at: float
    whose: str
    what: str


class Notes:
    """All that was noted, by several threads."""

    def __init__(self) -> None:
        self.all: list[Note] = []

    def add(self, whose: str, what: str) -> None:
        self.all.append(Note(time.monotonic(), whose, what[:_LINE_MAX]))

    def between(self, began: float, ended: float) -> list[Note]:
        return sorted(note for note in self.all if began <= note.at <= ended)

    def latest(self, at: float) -> list[Note]:
        """The last word of each before this time."""
        found = {note.whose: note for note in sorted(self.all) if note.at <= at}
        return list(found.values())

    def client(self, name: str) -> logging.Logger:
        """A logger for a client, of which only the answers it got are noted."""
        logger = logging.getLogger(f"chaos.{name}")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.handlers = [_Told(name, self)]
        return logger


class _Told(logging.Handler):
    """Notes what a client was told, once for as long as it is told the same."""

    def __init__(self, name: str, notes: Notes) -> None:
        super().__init__()
        self._name = name
        self._notes = notes
        self._before: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not _TOLD.search(text):
            return
        what = re.sub(r"^(\w+) \[[^]]*\] \[thrd:[^]]*\]: ", r"\1 ", text)
        where = re.match(r"\w+ (?:\S+: )?(\S+ \[\d+\]|)", what)
        same = re.sub(r"\d{3,}|\(.*?\)", "", what)
        if self._before.get(key := where[1] if where else "") != same:
            self._before[key] = same
            self._notes.add(self._name, what)


class Witness(Worker):
    """Looks at one source, and notes when it says something new."""

    def __init__(self, whose: str, look: Callable[[], str], notes: Notes) -> None:
        super().__init__(f"witness of {whose}")
        self._whose = whose
        self._look = look
        self._notes = notes

    def run(self) -> None:
        before = ""
        while not self.halting.wait(_LOOK_EVERY_S):
            try:
                seen = self._look()
            except (KazooException, KazooTimeoutError, OSError) as fault:
                seen = f"cannot be read: {type(fault).__name__}"
            if seen != before:
                before = seen
                self._notes.add(self._whose, seen)


def witnesses(world: World, topic: str, partitions: int, notes: Notes) -> list[Worker]:
    """One for what the store says, one for each of its servers, and one for each broker."""
    servers = [node for node in world.nodes if isinstance(node, Server)]
    return [
        Witness("store", lambda: _stored(world, topic, partitions), notes),
        *(
            Witness(f"server {number}", lambda it=server: it.mode() or "takes no session", notes)
            for number, server in enumerate(servers, 1)
        ),
        *(
            Witness(f"broker {broker.id}", _asked(world, broker, topic), notes)
            for broker in world.brokers.values()
        ),
    ]


def _stored(world: World, topic: str, partitions: int) -> str:
    states = [world.state(topic, at) for at in range(partitions)]
    led = (f"{at} led by {s.get('leader')} with {s.get('isr')}" for at, s in enumerate(states))
    brokers = sorted(world.children("/brokers/ids"))
    return f"controller {world.controller()}, brokers {' '.join(brokers)}; {', '.join(led)}"


def _asked(world: World, broker: BrokerProcess, topic: str) -> Callable[[], str]:
    def look() -> str:
        if not broker.runs:
            return "is not there"
        told = world.ask(broker, topic)
        if told is None:
            return "does not answer"
        led = (
            f"{p.partition_index} led by {p.leader_id} with {sorted(p.isr_nodes)}"
            for found in told.topics
            for p in sorted(found.partitions, key=lambda each: each.partition_index)
        )
        return f"controller {told.controller_id}; {', '.join(led)}{_room(broker)}"

    return look


def _room(broker: BrokerProcess) -> str:
    """A word where its disk is nearly full."""
    disk = os.statvfs(broker.directory)
    return "" if disk.f_bavail > disk.f_blocks / 8 else "; its disk is nearly full"


def logged(files: Iterable[Path], began: float, ended: float) -> Iterator[Note]:
    """Lines of logs from between these times."""
    offset = time.time() - time.monotonic()
    for file in files:
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            if stamp := _STAMP.match(line):
                day = datetime.strptime(stamp[1], "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007
                at = day.timestamp() + int(stamp[2]) / 1000 - offset
                if began <= at <= ended:
                    yield Note(at, file.stem, line[stamp.end() :].strip()[:_LINE_MAX])


def told(notes: Sequence[Note], began: float) -> list[str]:
    """As lines, with the seconds since the beginning of a gap."""
    return [f"{note.at - began:+8.2f} s  {note.whose}: {note.what}" for note in notes]
