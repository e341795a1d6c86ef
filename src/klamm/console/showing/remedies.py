"""Waits in sentences: what waits, for whom, until when, and what one can do about it.

Every reason that the controller gives has a row here. A deed is something the console can do; it
goes through its plan like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.console.showing import twins

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remedy:
    """The words for a reason, how bad it is, and which ways out there are."""

    words: str
    severity: str  # bad: somebody cannot read or write, or nothing will go on; warn: it may pass
    ways: tuple[str, ...] = ()


REMEDIES: Final[Mapping[str, Remedy]] = {
    "broker is down": Remedy("it is down", "bad", ("forget",)),
    "broker does not take the controller's requests": Remedy(
        "it does not take the controller's requests", "bad", ("forget",)
    ),
    "broker is shutting down": Remedy("it is shutting down", "warn"),
    "log directory failed": Remedy("its log directory failed", "bad"),
    "broker has a log of another topic of that name": Remedy(
        "it holds the log of another topic of that name", "bad"
    ),
    "partition is being moved": Remedy("the partition is being moved", "warn", ("cancel-move",)),
    "the broker could not delete its copy": Remedy("it could not delete its copy", "bad"),
    "the broker has not answered yet": Remedy("it has not answered yet", "warn"),
    "no assigned replica is live": Remedy("none of the assigned brokers is up", "bad"),
    "the last in-sync replica has lost its log": Remedy(
        "the last in-sync replica has lost its log", "bad", ("unclean",)
    ),
    "no in-sync replica is live": Remedy("no in-sync replica is up", "bad", ("unclean",)),
    "new replica is catching up": Remedy(
        "the new replica is catching up", "warn", ("cancel-move",)
    ),
    "replica is not in sync": Remedy("it is behind its leader", "warn"),
    "broker refused to serve its replica": Remedy("it refused the controller's order", "bad"),
    # Seen from outside, of a cluster that is not klamm's.
    "it has no leader": Remedy("it has no leader", "bad"),
    "behind its leader": Remedy("it is behind its leader", "warn"),
}
_UNKNOWN: Final = Remedy("", "warn")
_TOPICS_SHOWN: Final = 6


def remedy_of(why: str) -> Remedy:
    """The row of a reason; one from a newer controller is shown in its own words."""
    return REMEDIES.get(why, _UNKNOWN)


def grouped(explanations: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Waits with one cause as one row, the oldest first; each deletion is a row of its own."""
    rows: dict[tuple[Any, ...], list[tuple[str, Mapping[str, Any]]]] = {}
    for told in explanations:
        for wait in told["waiting"]:
            own = told["topic"] if wait["what"] == "deletion" or wait["broker"] is None else ""
            key = (wait["what"], wait["broker"], wait["why"], own)
            rows.setdefault(key, []).append((told["topic"], wait))
    found = [_row(key, waits) for key, waits in rows.items()]
    return sorted(found, key=lambda r: (r["since_ms"] is None, r["since_ms"] or 0, r["id"]))


def _row(key: tuple[Any, ...], waits: list[tuple[str, Mapping[str, Any]]]) -> Json:
    what, broker, why, _ = key
    topics = sorted({topic for topic, _ in waits})
    known = [wait["since_ms"] for _, wait in waits if wait["since_ms"] is not None]
    partitions = sorted({(topic, wait["partition"]) for topic, wait in waits})
    remedy = remedy_of(why)
    first = waits[0][1]
    return {
        "id": "/".join(map(str, key)),
        "what": what,
        "broker": broker,
        "why": why,
        "severity": remedy.severity,
        "text": _sentence(what, broker, remedy.words or why, topics, partitions),
        "until": first["until"] if len({w["until"] for _, w in waits}) == 1 else None,
        "since_ms": min(known) if known else None,
        "since_at_least": any(wait["since_at_least"] for _, wait in waits),
        "waits_for": f"broker {broker}" if broker is not None else "a replica",
        "topics": [{"id": name, "name": name} for name in topics[:_TOPICS_SHOWN]],
        "topics_count": len(topics),
        "partitions_count": len(partitions),
        "ways": list(_ways(remedy, what, broker, topics, partitions)),
    }


def _sentence(
    what: str, broker: int | None, words: str, topics: list[str], partitions: list[tuple[str, int]]
) -> str:
    of = _of(topics, partitions)
    if broker is None:
        return f"{what.capitalize()} of {of} waits: {words}."
    return f"{what.capitalize()} of {of} waits for broker {broker}: {words}."


def _of(topics: list[str], partitions: list[tuple[str, int]]) -> str:
    if len(partitions) == 1:
        return f"{partitions[0][0]}-{partitions[0][1]}"
    if len(topics) == 1:
        return f"{topics[0]} ({len(partitions):,} partitions)"
    return f"{len(partitions):,} partitions of {len(topics):,} topics"


def _ways(
    remedy: Remedy,
    what: str,
    broker: int | None,
    topics: list[str],
    partitions: list[tuple[str, int]],
) -> Iterable[Json]:
    """The ways out that fit this wait."""
    topic = topics[0]
    for way in remedy.ways:
        if way == "forget" and what == "deletion":
            yield {
                "id": way,
                "label": f"Forget broker {broker}'s copy",
                "deed": {"kind": "forget", "topic": topic, "broker": broker},
                "twin": twins.command("topics", "delete", topic, "--forget-broker", str(broker)),
            }
        elif way == "unclean" and what == "election":
            chosen = [f"{name}-{index}" for name, index in partitions]
            yield {
                "id": way,
                "label": "Unclean election",
                "deed": {"kind": "elect", "election": "unclean", "partitions": chosen[:100]},
                "twin": twins.command("elect", "unclean", *chosen[:20]),
            }
        elif way == "cancel-move" and what == "move":
            moved = [f"{name}-{index}" for name, index in partitions]
            yield {
                "id": way,
                "label": "Cancel the move",
                "deed": {"kind": "cancel-move", "partitions": moved[:100]},
                "twin": twins.command("reassign", "cancel", *moved[:20]),
            }
