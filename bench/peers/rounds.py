"""Every cell on every system in turn, the order changing from round to round."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from maven import Missing

from peers import cells, clients
from peers.cells import Cell, Options, warm_up
from peers.systems import Klamm, System

Reading = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pace:
    """How many rounds there are, and what is left out of all but the first."""

    rounds: int
    once: frozenset[str] = frozenset()  # cells
    end: float = math.inf  # by the clock of `now`; no reading of a later round begins after it

    def skips(self, cell: Cell, turn: int) -> bool:
        """Whether a cell has no reading in this round."""
        return turn > 1 and (cell.name in self.once or clients.now() > self.end)


_PAUSE_S: Final = 1.5
_FAULT_MAX: Final = 400


def say(*words: object) -> None:
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def measured(cell: Cell, system: System, turn: int, topic: str, options: Options) -> Reading:
    """One reading; a cell that breaks says why and the others go on."""
    reading: Reading = {
        "cell": cell.name,
        "system": system.name,
        "round": turn,
        "load": round(os.getloadavg()[0], 2),
    }
    try:
        figures = cell.run(system, topic, options)
    except (Missing, KeyboardInterrupt):
        raise
    except Exception as fault:  # noqa: BLE001 - a system under test may fail in any way
        reading["broke"] = f"{type(fault).__name__}: {fault}"[:_FAULT_MAX]
        say(cell.name, system.name, "broke:", reading["broke"])
    else:
        reading["figures"] = {name: float(f"{value:.4g}") for name, value in figures.items()}
        say(cell.name, system.name, reading["figures"])
    return reading


def cold(
    work: Sequence[Cell],
    systems: Sequence[type[System]],
    pace: Pace,
    data: Path,
    options: Options,
    keep: Callable[[Reading], None],
) -> None:
    """A cluster of its own for each reading."""
    missing: set[str] = set()
    for turn in range(1, pace.rounds + 1):
        for cell in work:
            for kind in _turned(systems, turn):
                if not cell.suits(kind) or kind.name in missing or pace.skips(cell, turn):
                    continue
                system = kind(data)
                try:
                    keep(measured(cell, system, turn, "cold", options))
                except Missing as why:
                    say(kind.name, "is left out:", why)
                    missing.add(kind.name)
                finally:
                    system.stop()
                time.sleep(_PAUSE_S)


def live(
    work: Sequence[Cell],
    systems: Sequence[type[System]],
    pace: Pace,
    warm_s: float,
    data: Path,
    options: Options,
    keep: Callable[[Reading], None],
) -> None:
    """All systems up and warm at the same time; those that have nothing to do cost little."""
    running: list[System] = []
    try:
        for kind in systems:
            if any(cell.suits(kind) for cell in work):
                running += _started(kind, data, warm_s)
        for turn in range(1, pace.rounds + 1):
            for cell in work:
                if pace.skips(cell, turn):
                    continue
                topic = f"{cell.name}-{turn}"
                able = [system for system in _turned(running, turn) if cell.suits(system)]
                for system in able:
                    keep(measured(cell, system, turn, topic, options))
                for system in able:
                    _forget(system, topic)
                time.sleep(_PAUSE_S)
    finally:
        for system in running:
            system.stop()


def _started(kind: type[System], data: Path, warm_s: float) -> list[System]:
    system = kind(data)
    try:
        system.prepare()
        system.start()
        clients.wait_for_brokers(system)
        clients.create(system, "ready", 1, max(min(3, system.copies_max), 1))
        # Python has nothing to warm up but its caches.
        warm_up(system, min(warm_s, 5) if isinstance(system, Klamm) else warm_s)
    except Missing as why:
        say(kind.name, "is left out:", why)
        system.stop()
        return []
    except BaseException:
        system.stop()
        raise
    say("warm:", kind.name)
    return [system]


def _forget(system: System, topic: str) -> None:
    """Delete a topic, and wait until its files are gone: that costs time, and is no cell's."""
    try:
        clients.delete(system, topic)
        cells.wait_clean(system, topic)
    except Exception as fault:  # noqa: BLE001 - most often there is none of that name
        if "UNKNOWN_TOPIC" not in str(fault):
            say("deleting", topic, "on", system.name, "failed:", fault)


def _turned(systems: Sequence[Any], turn: int) -> list[Any]:
    at = (turn - 1) % len(systems) if systems else 0
    return [*systems[at:], *systems[:at]]


def profiled(cell: Cell, data: Path, options: Options, out: Path) -> None:
    """One cell on klamm under py-spy; writes a flame graph."""
    kind = Klamm
    system = kind(data)
    try:
        if cell.is_cold:
            raise Missing(f"{cell.name} starts a cluster itself; py-spy needs one that runs")
        system.prepare()
        system.start()
        clients.wait_for_brokers(system)
        command = ["py-spy", "record", "-p", str(system.processes[0].pid), "-o", str(out)]
        try:
            spy = subprocess.Popen([*command, "-r", "250", "--nonblocking"])
        except FileNotFoundError:
            raise Missing("there is no py-spy here; `pip install py-spy` brings it") from None
        time.sleep(1)
        say(measured(cell, system, 1, "profiled", options).get("figures"))
        spy.send_signal(2)
        spy.wait(60)
    finally:
        system.stop()
