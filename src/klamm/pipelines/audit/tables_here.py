"""The tables of the audit without Spark, for ledgers that fit into memory many times.

Each function makes the rows that the one of the same name in `tables` makes, which has the words
about what they mean. Both are held to each other by a test.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from klamm.controller.states import EDITION, FOUND, PartitionState, ReplicaState, TopicState
from klamm.controller.states.tables import MACHINES, PARTITIONS, REPLICAS

Row = dict[str, Any]
_NUMBERS: Final = ("time_ms", "controller_epoch", "sequence", "controller_id", "edition")
_TEXTS: Final = ("cause", "topic", "topic_id", "subject", "before", "after", "why")
_MOVE: Final = ("entity", "from_state", "to_state")
_MACHINES: Final = {machine.entity: machine for machine in MACHINES}
_DELETING: Final = {
    "replica": {str(ReplicaState.DELETION_STARTED), str(ReplicaState.DELETION_INELIGIBLE)},
    "topic": {str(TopicState.QUEUED), str(TopicState.HALTED), str(TopicState.DELETING)},
}
_BUSY: Final = {
    str(state)
    for state in (
        TopicState.GROWING,
        TopicState.IMPORTING,
        TopicState.QUEUED,
        TopicState.DELETING,
        TopicState.HALTED,
    )
}
_NEW, _ONLINE = str(PartitionState.NEW), str(PartitionState.ONLINE)
_ONE_CAUSE: Final = ("topic", "topic_id", "controller_epoch", "cause")
_GONE: Final = {str(ReplicaState.DELETION_SUCCESSFUL), str(ReplicaState.NON_EXISTENT)}


def line_of(entry: Any) -> Row | None:
    """An entry of the ledger; None for whatever else is in a file or a topic."""
    if not isinstance(entry, dict):
        return None
    row: Row = {n: v if type(v := entry.get(n)) is int else None for n in _NUMBERS}
    row |= {n: v if isinstance(v := entry.get(n), str) else None for n in _TEXTS}
    known = ("time_ms", "controller_epoch", "sequence", "subject")
    return row if all(row[name] is not None for name in known) else None


def place(row: Mapping[str, Any]) -> tuple[int, int]:
    """The ledger's order."""
    return row["controller_epoch"], row["sequence"]


def events(lines: Iterable[Row], since_ms: int = 0) -> list[Row]:
    """The ledger in its order, with its subjects taken apart."""
    once: dict[tuple[int, int], Row] = {}
    editions: dict[int, int] = {}
    for line in lines:
        once.setdefault(place(line), line)
        if line["edition"] is not None:
            epoch = line["controller_epoch"]
            editions[epoch] = max(editions.get(epoch, line["edition"]), line["edition"])
    first = min((at for at, line in once.items() if line["time_ms"] >= since_ms), default=None)
    return [
        _event(once[at], editions.get(at[0], 1))
        for at in sorted(once)
        if not since_ms or (first is not None and at >= first)
    ]


def _event(line: Row, edition: int) -> Row:
    subject, topic = line["subject"], line["topic"]
    replica = re.search(REPLICAS.subject, subject)
    partition = None if replica or not topic else re.search(PARTITIONS.subject, subject)
    entity = "replica" if replica else "partition" if partition else "other"
    broker = int(replica[3]) if replica else None
    for start in ("topic ", "broker ", "controller ", "archive of "):
        if not replica and subject.startswith(start):
            entity, partition = start.split(" ")[0], None
            second = subject.split(" ")[1]
            if entity in ("broker", "controller") and second.isdigit():
                broker = int(second)
    found = replica or partition
    return {
        **{n: line[n] for n in ("time_ms", "controller_epoch", "sequence", "controller_id")},
        **{n: line[n] for n in ("cause", "topic", "topic_id", "subject")},
        "entity": entity,
        "partition": int(found[2]) if found else None,
        "broker": broker,
        "from_state": line["before"],
        "to_state": line["after"],
        "why": line["why"],
        "edition": edition,
    }


def _is_move(row: Row, *entities: str) -> bool:
    if row["entity"] not in entities:
        return False
    return bool({row["from_state"], row["to_state"]} & _MACHINES[row["entity"]].words())


def moves(found: Iterable[Row]) -> list[Row]:
    """The transitions of the state machines."""
    return [
        row
        for row in found
        if _is_move(row, "partition", "replica")
        or (_is_move(row, "topic") and row["edition"] >= EDITION)
    ]


def _is_legal(entity: str, before: str, after: str) -> bool:
    return (before, after) in _MACHINES[entity].legal()


def illegal(found: Iterable[Row]) -> list[Row]:
    """Moves that no table allows."""
    return [row for row in moves(found) if not _is_legal(*(row[name] for name in _MOVE))]


def made(found: Iterable[Row]) -> list[Row]:
    """The number of times each transition was made, legal or not."""
    counts = Counter(tuple(row[name] for name in _MOVE) for row in moves(found))
    for machine in MACHINES:
        for before, after in machine.legal():
            counts[machine.entity, before, after] += 0
    return [
        {**dict(zip(_MOVE, move, strict=True)), "count": count, "legal": _is_legal(*move)}
        for move, count in counts.items()
    ]


def _chains(found: Iterable[Row], *more: str) -> Iterator[list[Row]]:
    """The events of each thing, in their order."""
    chains: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in found:
        chains[tuple(row[name] for name in ("subject", "topic_id", *more))].append(row)
    yield from chains.values()


def broken_chains(found: Iterable[Row], *, horizon_ms: int = 0) -> list[Row]:
    """Moves that begin elsewhere than the one before ended."""
    broken = []
    for chain in _chains(moves(found)):
        for before, row in pairwise(chain):
            expected = _unmet(before, row)
            if expected is not None and before["time_ms"] >= horizon_ms:
                broken.append({**row, "expected": expected})
    return broken


def _unmet(before: Row, row: Row) -> str | None:
    """The state in which a move should have begun; None when it did."""
    machine, begins, expected = _MACHINES[row["entity"]], row["from_state"], before["to_state"]
    if expected is None or begins is None:
        return None
    if before["controller_epoch"] == row["controller_epoch"]:
        return None if expected == begins else str(expected)
    never, unsaid, is_whole = str(machine.never), str(machine.unsaid), row["edition"] >= EDITION
    if is_whole and begins not in (never, FOUND, unsaid):
        return unsaid
    is_twice = begins == never and expected != never and not (is_whole and machine.ends_unseen)
    return str(expected) if is_twice else None


def lost(found: Sequence[Row], *, horizon_ms: int = 0) -> list[Row]:
    """Numbers missing from an epoch's sequence."""
    terms: defaultdict[int, list[Row]] = defaultdict(list)
    for row in found:
        terms[row["controller_epoch"]].append(row)
    gaps = []
    last_ms: int | None = None
    for epoch, rows in sorted(terms.items()):
        steps = [
            (a["sequence"], a["time_ms"], b["sequence"], b["time_ms"]) for a, b in pairwise(rows)
        ]
        if last_ms is not None:
            began = min(row["time_ms"] for row in rows)
            steps.insert(0, (0, last_ms, rows[0]["sequence"], began))
        for previous, previous_ms, sequence, time_ms in steps:
            gap = sequence - previous - 1
            if gap > 0 and previous_ms >= horizon_ms:
                gaps.append(
                    {
                        "controller_epoch": epoch,
                        "first": previous + 1,
                        "last": sequence - 1,
                        "count": gap,
                        "time_ms": time_ms,
                    }
                )
        last_ms = max(row["time_ms"] for row in rows)
    return gaps


def timeline(found: Iterable[Row]) -> list[Row]:
    """The time that each topic, partition and replica spent in each state."""
    tracked = [
        row
        for row in found
        if _is_move(row, "partition", "replica") or row["entity"] in ("topic", "broker")
    ]
    return [
        {
            **{n: row[n] for n in ("subject", "entity", "topic", "partition", "broker")},
            "state": row["to_state"],
            "since_ms": row["time_ms"],
            "until_ms": None if after is None else after["time_ms"],
        }
        for chain in _chains(tracked)
        for row, after in pairwise([*chain, None])
        if row is not None
    ]


def latency(found: Iterable[Row]) -> list[Row]:
    """The time from the last transition of the same thing to this one."""
    tracked = [
        row for row in found if _is_move(row, "partition", "replica") or row["entity"] == "topic"
    ]
    taken: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for chain in _chains(tracked, "controller_epoch"):
        for before, row in pairwise(chain):
            move = tuple(row[name] for name in _MOVE)
            for key in ((*move, None, None), (*move, row["topic"], row["controller_epoch"])):
                taken[key].append(row["time_ms"] - before["time_ms"])
    names = (*_MOVE, "topic", "controller_epoch")
    return [
        {
            **dict(zip(names, key, strict=True)),
            "count": len(each),
            **{f"p{p}_ms": _percentile(each, p) for p in (50, 95, 99)},
            "max_ms": max(each),
        }
        for key, each in taken.items()
    ]


def durations(found: Iterable[Row]) -> list[Row]:
    """The time that work on a topic took, from its cause to the last confirmation."""
    rows = list(found)
    online: dict[tuple[Any, ...], int] = {}
    for row in rows:
        if (row["from_state"], row["to_state"]) == (_NEW, _ONLINE):
            key = tuple(row[name] for name in _ONE_CAUSE)
            online[key] = max(row["time_ms"], online.get(key, 0))
    done = []
    for chain in _chains(row for row in moves(rows) if row["entity"] == "topic"):
        for row in chain:
            key = tuple(row[name] for name in _ONE_CAUSE)
            if row["from_state"] == str(TopicState.ABSENT) and key in online:
                done.append(_duration(row, "created", row["time_ms"], online[key]))
        limits = [r for r in chain if (r["from_state"] in _BUSY) != (r["to_state"] in _BUSY)]
        for before, row in pairwise(limits):
            if before["to_state"] in _BUSY and row["from_state"] in _BUSY:
                done.append(_duration(row, before["to_state"], before["time_ms"], row["time_ms"]))
    return done


def _duration(row: Row, what: str, began_ms: int, ended_ms: int) -> Row:
    return {
        "what": what,
        **{n: row[n] for n in ("subject", "topic", "topic_id")},
        "began_ms": began_ms,
        "ended_ms": ended_ms,
        "took_ms": ended_ms - began_ms,
    }


def _percentile(values: list[int], percent: int) -> int:
    values.sort()
    return values[max(math.ceil(len(values) * percent / 100), 1) - 1]


def _latest(found: Iterable[Row]) -> dict[str, Row]:
    latest: dict[str, Row] = {}
    for row in found:
        latest[row["subject"]] = row
    return latest


def stuck(found: Sequence[Row], *, now_ms: int, limit_ms: int = 60_000) -> list[Row]:
    """Deletions that do not end, and which brokers they wait for."""
    tracked = (row for row in found if _is_move(row, "replica") or row["entity"] == "topic")
    latest = _latest(tracked)
    awaited = _awaited(latest.values(), found)
    late = [
        row
        for row in latest.values()
        if row["to_state"] in _DELETING[row["entity"]] and now_ms - row["time_ms"] > limit_ms
    ]
    return [
        {
            **{n: row[n] for n in ("subject", "entity", "topic", "partition", "broker")},
            "state": row["to_state"],
            "since_ms": row["time_ms"],
            "waits_for": _waits_for(row, awaited.get(row["topic"])),
        }
        for row in late
    ]


def _waits_for(row: Row, awaited: str | None) -> str | None:
    broker = awaited if row["broker"] is None else str(row["broker"])
    if broker is None:
        why: str | None = row["why"]
        return why
    return f"waits for broker {broker}" + (f": {row['why']}" if row["why"] else "")


def _awaited(latest: Iterable[Row], found: Iterable[Row]) -> dict[str, str]:
    """The brokers that a topic's deletion waits for: those asked, and those that are away."""
    brokers = _latest(row for row in found if row["entity"] == "broker").values()
    down = {row["broker"] for row in brokers if row["to_state"] != "live"}
    waits: defaultdict[str, set[int]] = defaultdict(set)
    for row in latest:
        is_asked = row["to_state"] in _DELETING["replica"] or row["broker"] in down
        if row["entity"] == "replica" and row["to_state"] not in _GONE and is_asked:
            waits[row["topic"]].add(row["broker"])
    return {topic: ", ".join(map(str, sorted(ids))) for topic, ids in waits.items()}


def epochs(found: Sequence[Row]) -> list[Row]:
    """Each controller's reign, the quiet before it, and what it wrote after its time."""
    terms: defaultdict[int, list[Row]] = defaultdict(list)
    for row in found:
        terms[row["controller_epoch"]].append(row)
    reigns = [_reign(epoch, rows) for epoch, rows in sorted(terms.items())]
    for before, reign in pairwise(reigns):
        reign["quiet_ms"] = reign["began_ms"] - before["last_ms"]
        reign["unheard"] = reign["controller_epoch"] - before["controller_epoch"] - 1
        before["overtime_ms"] = max(before["last_ms"] - reign["began_ms"], 0)
        times = (row["time_ms"] for row in terms[before["controller_epoch"]])
        before["late"] = sum(time_ms > reign["began_ms"] for time_ms in times)
    return reigns


def _reign(epoch: int, rows: Sequence[Row]) -> Row:
    elections = [row for row in rows if row["entity"] == "controller"]
    ids = [row["controller_id"] for row in rows if row["controller_id"] is not None]
    ids += [
        r["broker"] for r in elections if r["controller_id"] is None and r["broker"] is not None
    ]
    return {
        "controller_epoch": epoch,
        "controller": max((number for number in ids if number is not None), default=None),
        "began_ms": min(row["time_ms"] for row in elections or rows),
        "last_ms": max(row["time_ms"] for row in rows),
        "events": len(rows),
        "quiet_ms": None,
        "overtime_ms": 0,
        "late": 0,
        "unheard": 0,
    }


def by_time(found: Iterable[Row], first: int, last: int, spans: int) -> list[Row]:
    """The number of events of each kind in each span of time."""
    span = max((last - first) // spans + 1, 1)
    counts = Counter(((row["time_ms"] - first) // span, row["entity"]) for row in found)
    return [{"span": at, "entity": e, "count": n} for (at, e), n in sorted(counts.items())]
