"""Lines of the ledger: whether a move is legal, and the states after some of them.

Lines about in-sync sets, replicas and brokers are facts and not moves; they are never illegal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

Line = Mapping[str, Any]

FOUND: Final = "found"
_TOPIC: Final = re.compile(r"topic (.+)")
_PARTITION: Final = re.compile(r"([^ ]+)-(\d+)")
_REPLICA: Final = re.compile(r"([^ ]+)-(\d+) on broker (\d+)")
_ISR: Final = re.compile(r"([^ ]+)-(\d+) ISR")
_ROOM: Final = 50_000  # things whose last state is remembered


def kind_of(subject: str) -> str | None:
    """The machine that a line is about; None for a fact."""
    if _REPLICA.fullmatch(subject):
        return "replica"
    if _TOPIC.fullmatch(subject):
        return "topic"
    return "partition" if _PARTITION.fullmatch(subject) else None


class Judge:
    """Holds each line against the tables that the controller gave, and against the one before."""

    def __init__(self, machines: Iterable[Mapping[str, Any]]) -> None:
        self._legal: dict[str, frozenset[tuple[str, str]]] = {}
        self._words: dict[str, frozenset[str]] = {}
        for machine in machines:
            moved = {(t["before"], t["after"]) for t in machine["transitions"]}
            found = {(FOUND, state) for state in machine["found"]}
            self._legal[machine["entity"]] = frozenset(moved | found)
            self._words[machine["entity"]] = frozenset(machine["states"])
        self._last: dict[tuple[str, str | None], tuple[int, str]] = {}

    def fault(self, line: Line) -> str | None:
        """Why a line is illegal, in words; None where it is as it should be."""
        kind = kind_of(line["subject"])
        if kind is None or kind not in self._legal:
            return None
        before, after = line["before"], line["after"]
        if not self._words[kind] & {before, after}:
            return None
        thing = (line["subject"], line.get("topic_id"))
        known = self._last.get(thing)
        if len(self._last) >= _ROOM:
            self._last.clear()
        self._last[thing] = (line["controller_epoch"], after)
        if (before, after) not in self._legal[kind]:
            return f"{before} to {after} is not in the table of the {kind}'s machine"
        # A new controller begins its chains anew.
        if known is not None and known[0] == line["controller_epoch"] and known[1] != before:
            return f"it begins at {before}, but the line before ended at {known[1]}"
        return None


def place_text(line: Line) -> str:
    """A place in the ledger, as people and addresses write it."""
    return f"{line['controller_epoch']}.{line['sequence']}"


def states_at(lines: Iterable[Line]) -> dict[str, str]:
    """The last state of each subject after these lines, oldest first."""
    found: dict[str, str] = {}
    for line in lines:
        if kind_of(line["subject"]) or _ISR.fullmatch(line["subject"]):
            found[line["subject"]] = line["after"]
    return found
