"""Topics: find and compare; and one topic: where each of its replicas is in its life, now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from klamm.console.params import Param
from klamm.console.reading.picture import CELL_WORDS, Partition, Picture, Topic
from klamm.console.scene import Ask, Json, Scene, View
from klamm.console.showing import remedies, twins
from klamm.console.views.health import short

_ROWS_MAX: Final = 200  # partitions in a matrix; more are behind `first`
_LINES: Final = 40

TOPIC: Final = Param(name="topic", about="a topic's name", in_path=True)

_STATES: Final[Mapping[str, Callable[[Topic], bool]]] = {
    "ill": lambda topic: topic.worst not in ".L",
    "well": lambda topic: topic.worst in ".L",
    "halted": lambda topic: topic.state == "halted",
    "deleting": lambda topic: topic.is_doomed,
    "frozen": lambda topic: topic.state == "frozen",
}


def _sorts(picture: Picture) -> Mapping[str, Callable[[Topic], Any]]:
    return {
        "name": lambda t: t.name,
        "partitions": lambda t: -len(t.partitions),
        "size": lambda t: -(picture.size(t) or 0),
        "records": lambda t: -(picture.records(t) or 0),
        "rate": lambda t: -(picture.rate(t) or 0),
        "state": lambda t: ("!x-~+o.L".index(t.worst), t.name),
    }


def topics(scene: Scene, ask: Ask) -> Json:
    """The list: filtered, sorted, a page at a time; internal topics only where asked for."""
    everything = list(scene.topics())
    wanted = (ask["q"] or "").lower()
    found = [t for t in everything if wanted in t.name.lower()]
    if ask["state"] != "any":
        found = [t for t in found if _STATES[ask["state"]](t)]
    folded = [t for t in found if t.internal and not ask["internal"]]
    found = [t for t in found if not t.internal or ask["internal"]]
    found.sort(key=lambda t: t.name)
    if ask["sort"] != "name":
        found.sort(key=_sorts(scene.picture)[ask["sort"]])
    first, limit = ask["first"], ask["limit"]
    shown = found[first : first + limit]
    return {
        "items": [_row(scene.picture, topic) for topic in shown],
        "total": len(found),
        "first": first,
        "last": first + len(shown),
        "next": first + limit if first + limit < len(found) else None,
        "previous": max(0, first - limit) if first else None,
        "folded": len(folded),
        "topics_count": len(everything),
        "partitions_count": sum(len(t.partitions) for t in everything),
    }


def _row(picture: Picture, topic: Topic) -> Json:
    readers = picture.readers(topic.name)
    lags = [lag for _, lag in readers if lag is not None]
    return {
        "id": topic.name,
        "name": topic.name,
        "state": _word(topic),
        "code": topic.worst,
        "partitions": len(topic.partitions),
        "replication_factor": topic.factor,
        "in_sync": topic.in_sync_count,
        "replicas": topic.replicas_count,
        "size": picture.size(topic),
        "records": picture.records(topic),
        "rate": picture.rate(topic),
        "lag_max": max(lags) if lags else None,
        "groups": len(readers),
        "internal": topic.internal,
    }


def _word(topic: Topic) -> str:
    """A topic's state in a word: that of its machine, or what is wrong with its replicas."""
    if topic.state != "created":
        return topic.state
    if any(p.leader < 0 for p in topic.partitions):
        return "offline"
    if any(p.is_short for p in topic.partitions):
        return "under-replicated"
    return "well" if topic.worst in ".L" else CELL_WORDS[topic.worst]


def topic(scene: Scene, ask: Ask) -> Json:
    """One topic: the matrix, the machines' states, the waits, the last lines."""
    found = scene.topic(ask["topic"])
    picture = scene.picture
    first = ask["first"]
    rows = found.partitions[first : first + _ROWS_MAX]
    waits = [wait for wait in picture.waits if wait["topic"] == found.name]
    columns = _columns(picture, found)
    return {
        "name": found.name,
        "topic_id": found.id,
        "state": found.state,
        "word": _word(found),
        "code": found.worst,
        "internal": found.internal,
        "derived": not picture.is_klamm,
        "partitions": len(found.partitions),
        "replication_factor": found.factor,
        "in_sync": found.in_sync_count,
        "replicas": found.replicas_count,
        "size": picture.size(found),
        "records": picture.records(found),
        "rate": picture.rate(found),
        "brokers": columns,
        "rows": [
            _partition(picture, found, number, partition, columns)
            for number, partition in enumerate(rows, start=first)
        ],
        "first": first,
        "next": first + _ROWS_MAX if first + _ROWS_MAX < len(found.partitions) else None,
        "squares": found.squares if len(found.partitions) > _ROWS_MAX else "",
        "waits": remedies.grouped(waits),
        "lines": [short(line) for line in islice(scene.lines(found.name), _LINES)],
        "groups": [
            {"id": name, "name": name, "lag": lag}
            for name, lag in sorted(picture.readers(found.name))
            if scene.visible_groups is None or name in scene.visible_groups
        ],
        "frozen": found.state == "frozen",
        "doomed": found.is_doomed,
    }


def _columns(picture: Picture, found: Topic) -> list[Json]:
    named = {broker for p in found.partitions for broker in p.replicas}
    present = {b["id"]: b for b in picture.brokers}
    away = {b["id"] for b in picture.brokers if b["presence"] != "up"}
    return [
        {
            "id": id,
            "presence": present[id]["presence"] if id in present else "unknown",
            "away": id in away,
            "since_ms": present[id]["since_ms"] if id in away else None,
        }
        for id in sorted(named | (present.keys() if len(present) <= 12 else set()))
    ]


def _partition(
    picture: Picture, found: Topic, number: int, p: Partition, columns: list[Json]
) -> Json:
    letters = dict(zip(p.replicas, found.cells[number], strict=True))
    states = dict(zip(p.replicas, p.replica_states, strict=True))
    known = picture.offsets.get((found.name, p.index))
    sizes = [picture.sizes.get((found.name, p.index, broker)) for broker in p.replicas]
    sized = [size for size in sizes if size is not None]
    moves = f"{_listed(p.removing) or '–'} → {_listed(p.adding) or '–'}"  # noqa: RUF001
    return {
        "id": p.index,
        "index": p.index,
        "state": p.state,
        "leader": p.leader if p.leader >= 0 else None,
        "leader_epoch": p.leader_epoch,
        "isr": _listed(p.isr),
        "cells": [
            {
                "id": column["id"],
                "code": letters.get(column["id"], ""),
                "word": CELL_WORDS.get(letters.get(column["id"], ""), ""),
                "state": states.get(column["id"], ""),
                "about": _about(found.name, p.index, column["id"], letters, states),
            }
            for column in columns
        ],
        "start": known.start if known else None,
        "end": known.end if known else None,
        "size": max(sized) if sized else None,
        "move": moves if p.adding or p.removing else "",
    }


def _about(
    name: str, index: int, broker: int, letters: Mapping[int, str], states: Mapping[int, str]
) -> str:
    if broker not in letters:
        return ""
    word = CELL_WORDS[letters[broker]]
    return f"{name}-{index} on broker {broker}: {word} ({states[broker]})"


def _listed(brokers: tuple[int, ...]) -> str:
    return ", ".join(map(str, brokers))


_FIRST: Final = Param(name="first", about="the first row", kind="number", default=0, most=10**7)

VIEWS: Final = (
    View(
        name="topics",
        title="Topics",
        path="/topics",
        build=topics,
        twin=lambda ask: twins.command("topics", "list"),
        params=(
            Param(name="q", about="part of a name"),
            Param(
                name="sort",
                about="by what",
                kind="choice",
                default="name",
                choices=("name", "partitions", "size", "records", "rate", "state"),
            ),
            Param(
                name="state",
                about="only these",
                kind="choice",
                default="any",
                choices=("any", *_STATES),
            ),
            Param(name="internal", about="internal topics too", kind="flag", default=False),
            _FIRST,
            Param(name="limit", about="rows", kind="number", default=50, least=1, most=500),
        ),
        about="All topics: state, replicas, size, records, rate, lag.",
    ),
    View(
        name="topic",
        title="Topic",
        path="/topics/{topic}",
        build=topic,
        twin=lambda ask: twins.command("topics", "describe", names=(ask["topic"],)),
        params=(TOPIC, _FIRST),
        about="One topic: where each replica is in its life, what waits, what happened last.",
    ),
)
