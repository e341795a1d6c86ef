"""Moments: what the topics of a cluster were, kept to be compared later; and how two differ."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.console.reading.picture import Topic
from klamm.console.showing import twins
from klamm.console.showing.formats import shown

Json = dict[str, Any]
MOMENTS_MAX: Final = 20
PARTITIONS_MAX: Final = 50_000  # of one moment: a few MB
_PLACES_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """All of a topic that is compared."""

    id: str
    placement: tuple[tuple[int, ...], ...]
    settings: Mapping[str, str] | None  # those that somebody chose; None where nobody could say

    @property
    def factor(self) -> int:
        return max(map(len, self.placement), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The topics of a cluster at one time."""

    name: str
    at_ms: int
    topics: Mapping[str, Shape]


def shaped(
    topics: Iterable[Topic], settings: Mapping[str, Mapping[str, str]] | None
) -> dict[str, Shape]:
    """Topics as they are compared; internal ones and those that are going are left out."""
    return {
        topic.name: Shape(
            id=topic.id,
            placement=tuple(p.origin for p in topic.partitions),
            settings=None if settings is None else settings.get(topic.name, {}),
        )
        for topic in topics
        if not topic.internal and not topic.is_doomed
    }


class Moments:
    """The moments that this console keeps, in its memory."""

    def __init__(self) -> None:
        self._kept: dict[str, Moment] = {}

    def keep(self, name: str, topics: Mapping[str, Shape]) -> Moment:
        """Keeps a moment; the oldest goes where there are too many."""
        made = Moment(name=name, at_ms=time.time_ns() // 1_000_000, topics=topics)
        self._kept.pop(name, None)
        self._kept[name] = made
        while len(self._kept) > MOMENTS_MAX:
            del self._kept[next(iter(self._kept))]
        return made

    def forget(self, name: str) -> None:
        """Lets a moment go."""
        self._kept.pop(name, None)

    def find(self, name: str) -> Moment | None:
        """One moment."""
        return self._kept.get(name)

    def all(self) -> list[Moment]:
        """Every moment, the newest first."""
        return list(reversed(self._kept.values()))


def compared(a: Mapping[str, Shape], b: Mapping[str, Shape], *, across: bool) -> Json:
    """The differences, and the commands that would make b like a.

    Ids and placement tell two moments of one cluster apart; two clusters differ in both anyway.
    """
    rows: list[Json] = []
    for name in sorted(a.keys() | b.keys()):
        mine, other = a.get(name), b.get(name)
        if mine is None and other is not None:
            rows.append(
                _row(name, "only in b", [], [twins.command("topics", "delete", names=(name,))])
            )
        elif other is None and mine is not None:
            rows.append(_row(name, "only in a", [], [_create(name, mine)]))
        elif mine is not None and other is not None:
            facts = list(_facts(mine, other, across=across))
            if facts:
                rows.append(_row(name, "different", facts, list(_commands(name, mine, other))))
    counts = {kind: sum(row["kind"] == kind for row in rows) for kind in _KINDS}
    return {"rows": rows, "counts": counts, "same": len(a.keys() & b.keys()) - counts["different"]}


_KINDS: Final = ("only in a", "only in b", "different")


def _row(name: str, kind: str, facts: list[Json], commands: list[str]) -> Json:
    return {
        "id": name,
        "name": name,
        "kind": kind,
        "facts": facts,
        "told": "; ".join(f"{f['what']} {f['a']} | {f['b']}" for f in facts[:6]),
        "command": "\n".join(commands),
    }


def _fact(what: str, a: object, b: object) -> Json:
    return {
        "id": what,
        "what": what,
        "a": shown(None if a is None else str(a)),
        "b": shown(None if b is None else str(b)),
    }


def _facts(a: Shape, b: Shape, *, across: bool) -> Iterator[Json]:
    if not across and a.id != b.id:
        yield _fact("topic id", a.id, b.id)
    if len(a.placement) != len(b.placement):
        yield _fact("partitions", len(a.placement), len(b.placement))
    if a.factor != b.factor:
        yield _fact("replication factor", a.factor, b.factor)
    if a.settings is not None and b.settings is not None:
        for name in sorted(a.settings.keys() | b.settings.keys()):
            if a.settings.get(name) != b.settings.get(name):
                yield _fact(name, a.settings.get(name), b.settings.get(name))
    if across:
        return
    moved = [
        (index, old, new)
        for index, (old, new) in enumerate(zip(a.placement, b.placement, strict=False))
        if old != new
    ]
    for index, old, new in moved[:_PLACES_SHOWN]:
        yield _fact(
            f"brokers of partition {index}", ", ".join(map(str, old)), ", ".join(map(str, new))
        )
    if len(moved) > _PLACES_SHOWN:
        yield _fact("brokers of partitions", f"{len(moved)} differ", "")


def _create(name: str, shape: Shape) -> str:
    words: list[str | int] = ["topics", "create", "-p", len(shape.placement), "-r", shape.factor]
    for setting, value in sorted((shape.settings or {}).items()):
        words += ["-c", f"{setting}={value}"]
    return twins.command(*words, names=(name,))


def _commands(name: str, a: Shape, b: Shape) -> Iterator[str]:
    if len(a.placement) > len(b.placement):
        count = len(a.placement)
        yield twins.command("topics", "alter", "-p", count, names=(name,))
    elif len(a.placement) < len(b.placement):
        count = len(a.placement)
        yield twins.command(
            "repartition", "--partitions", count, "--to", "repartition", names=(name,)
        )
    if a.settings is None or b.settings is None:
        return
    for setting in sorted(a.settings.keys() | b.settings.keys()):
        value = a.settings.get(setting)
        if value == b.settings.get(setting):
            continue
        if value is None:
            yield twins.command("configs", "unset", setting, "-t", name)
        else:
            yield twins.command("configs", "set", f"{setting}={value}", "-t", name)
