"""Judging the controllers without Spark: the same tables and the same page, by this process alone.

For ledgers of up to some hundred thousand events, where starting Spark would take longer.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from klamm.client.blocking.lookup import Lookup
from klamm.client.security.settings import properties_of
from klamm.client.settings import ConnectionOptions
from klamm.model.names import KLAMM_LEDGER
from klamm.pipelines.audit import tables_here as tables
from klamm.pipelines.audit.findings import SPANS, Findings, put_in_place, shown
from klamm.pipelines.audit.tables_here import Row

_LONG, _INT, _TEXT = pa.int64(), pa.int32(), pa.string()
_EVENT: Final = {
    "time_ms": _LONG,
    "controller_epoch": _INT,
    "sequence": _LONG,
    "controller_id": _INT,
    "cause": _TEXT,
    "topic": _TEXT,
    "topic_id": _TEXT,
    "subject": _TEXT,
    "entity": _TEXT,
    "partition": _INT,
    "broker": _INT,
    "from_state": _TEXT,
    "to_state": _TEXT,
    "why": _TEXT,
    "edition": _INT,
}
_MOVE: Final = {"entity": _TEXT, "from_state": _TEXT, "to_state": _TEXT}
_THING: Final = {
    "subject": _TEXT,
    "entity": _TEXT,
    "topic": _TEXT,
    "partition": _INT,
    "broker": _INT,
    "state": _TEXT,
    "since_ms": _LONG,
}
_COLUMNS: Final[Mapping[str, Mapping[str, pa.DataType]]] = {
    "illegal": _EVENT,
    "broken_chains": {**_EVENT, "expected": _TEXT},
    "lost": {
        "controller_epoch": _INT,
        "first": _LONG,
        "last": _LONG,
        "count": _LONG,
        "time_ms": _LONG,
    },
    "stuck": {**_THING, "waits_for": _TEXT},
    "moves": {**_MOVE, "count": _LONG, "legal": pa.bool_()},
    "latency": {
        **_MOVE,
        "topic": _TEXT,
        "controller_epoch": _INT,
        "count": _LONG,
        "p50_ms": _LONG,
        "p95_ms": _LONG,
        "p99_ms": _LONG,
        "max_ms": _LONG,
    },
    "durations": {
        "what": _TEXT,
        "subject": _TEXT,
        "topic": _TEXT,
        "topic_id": _TEXT,
        "began_ms": _LONG,
        "ended_ms": _LONG,
        "took_ms": _LONG,
    },
    "epochs": {
        "controller_epoch": _INT,
        "controller": _INT,
        "began_ms": _LONG,
        "last_ms": _LONG,
        "events": _LONG,
        "quiet_ms": _LONG,
        "overtime_ms": _LONG,
        "late": _LONG,
        "unheard": _INT,
    },
    "timeline": {**_THING, "until_ms": _LONG},
    "events": _EVENT,
}


@dataclass(frozen=True, slots=True)
class Lines:
    """The ledger to judge, and since when it is complete."""

    entries: Sequence[Row]
    source: str  # in words
    horizon_ms: int = 0


def of_files(path: Path) -> Lines:
    """A broker's own files; lines that a crash cut short are left out."""
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    texts = (line for file in files for line in file.read_bytes().splitlines())
    return Lines(list(_parsed(texts)), f"files in {path}")


def of_entries(entries: Sequence[Mapping[str, Any]]) -> Lines:
    """The evidence in the brokers' answers."""
    found = [line for entry in entries if (line := tables.line_of(dict(entry)))]
    return Lines(found, "the brokers' files")


def of_topic(
    reach: ConnectionOptions,
    waiting: Sequence[Mapping[str, Any]],
    *,
    now_ms: int,
    since_ms: int = 0,
) -> Lines | None:
    """The topic, and what brokers have not brought there yet; None where it cannot be read."""
    from klamm.pipelines.source.fetcher import read_range
    from klamm.pipelines.source.options import parse_read
    from klamm.pipelines.source.planning import plan_batch

    lookup = Lookup(reach)
    found = lookup.view([KLAMM_LEDGER]).topics.get(KLAMM_LEDGER)
    if found is None or not all(found.leaders.values()):
        return None
    given = {f"kafka.{name}": value for name, value in properties_of(reach.security).items()}
    given |= {"kafka.bootstrap.servers": reach.servers, "subscribe": KLAMM_LEDGER}
    given |= {"kafkaConsumer.pollTimeoutMs": str(reach.patience_ms)}
    if since_ms:
        given |= {
            "startingTimestamp": str(since_ms),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    options = parse_read(given, streaming=False)
    values = (
        value
        for split in plan_batch(options)
        for piece in split
        for frame in read_range(options, piece, ("value",))
        for value in frame.column("value").to_pylist()
        if value is not None
    )
    lag_ms = int(lookup.configs(KLAMM_LEDGER).get("min.compaction.lag.ms", 0))
    lines = [*_parsed(values), *of_entries(waiting).entries]
    return Lines(lines, f"the topic {KLAMM_LEDGER}", max(now_ms - lag_ms, 0))


def _parsed(texts: Iterator[bytes]) -> Iterator[Row]:
    for text in texts:
        try:
            line = tables.line_of(json.loads(text))
        except ValueError:
            continue
        if line is not None:
            yield line


def run(
    evidence: Lines, to: Path, *, now_ms: int, since_ms: int = 0, stuck_after_ms: int = 60_000
) -> Findings:
    """Judges the events, and writes the tables as Parquet."""
    found = tables.events(evidence.entries, since_ms)
    horizon_ms = evidence.horizon_ms
    made: dict[str, list[Row]] = {
        "illegal": tables.illegal(found),
        "broken_chains": tables.broken_chains(found, horizon_ms=horizon_ms),
        "lost": tables.lost(found, horizon_ms=horizon_ms),
        "stuck": tables.stuck(found, now_ms=now_ms, limit_ms=stuck_after_ms),
        "moves": tables.made(found),
        "latency": tables.latency(found),
        "durations": tables.durations(found),
        "epochs": tables.epochs(found),
        "timeline": tables.timeline(found),
    }
    aside = to.with_name(f"{to.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    counts, rows = {}, {}
    for name, table in made.items():
        _write(name, table, aside / name)
        counts[name], rows[name] = shown(name, aside / name)
    _write_by_day(found, aside / "events")
    put_in_place(aside, to)
    times = [row["time_ms"] for row in found]
    first, last = min(times, default=0), max(times, default=0)
    by_time = tables.by_time(found, first, last, SPANS)
    return Findings(len(found), first, last, counts, rows, by_time)


def _write(name: str, rows: Sequence[Row], directory: Path) -> None:
    directory.mkdir(parents=True)
    schema = pa.schema(list(_COLUMNS[name].items()))
    table = pa.Table.from_pylist(list(rows), schema=schema)
    pq.write_table(table, directory / "part-0.parquet", compression="snappy")


def _write_by_day(found: Sequence[Row], directory: Path) -> None:
    directory.mkdir(parents=True)
    days: defaultdict[str, list[Row]] = defaultdict(list)
    for row in found:
        days[str(datetime.fromtimestamp(row["time_ms"] / 1000, UTC).date())].append(row)
    for day, rows in days.items():
        _write("events", rows, directory / f"day={day}")
