"""The page of the comparison, and its pictures, from a stored result.

The test of the docs renders the stored result again and compares: the page says what was measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, NamedTuple

from peers import plots

DOCS: Final = Path(__file__).parents[2] / "docs" / "reference"
PAGE: Final = "benchmarks.md"
RATIOS: Final = "benchmarks-ratios.svg"
COSTS: Final = "benchmarks-costs.svg"
_OURS: Final = "klamm"
_PEERS: Final = ("kafka-3.9", "kafka-4")
_OTHERS: Final = ("klamm-single", "kafka-4-single", "kfake", "mock")
_APART: Final = "klamm-processes"


class Row(NamedTuple):
    """One line of the table: a figure of a cell."""

    title: str
    cell: str
    figure: str
    unit: str
    more_is_better: bool = False
    ours: str = _OURS
    why_behind: str = ""  # where klamm is not first


_MEMORY: Final = (
    "all brokers of klamm write in one thread here, those of Kafka in three processes; where new "
    "memory is dear, that thread is the limit, and `klamm up --processes` has three as well"
)
_CLIENT: Final = (
    "the client is the limit: librdkafka and the Python thread around it need more processor time "
    "than klamm's brokers"
)
_DECIDING: Final = (
    "both tell clients before a broker has done anything for it; what is left is the processor "
    "time in which klamm's controller decides, stores and tells"
)
ROWS: Final = (
    Row("start to the first record", "start", "first_record_s", "s"),
    Row("processor time of that", "start", "first_record_cpu_s", "s"),
    Row("idle memory", "start", "idle_memory_mb", "MB"),
    Row("idle processor time", "start", "idle_cpu_percent", "%"),
    Row(
        "1,000 partitions: leaders visible",
        "topics",
        "wide_led_s",
        "s",
        why_behind=_DECIDING,
    ),
    Row("1,000 partitions: every leader took a record", "topics", "wide_written_s", "s"),
    Row(
        "1,000 topics in one request: answered",
        "topics",
        "bulk_answered_s",
        "s",
        why_behind=_DECIDING,
    ),
    Row("1,000 topics in one request: led", "topics", "bulk_led_s", "s"),
    Row("topics one by one", "topics", "single_per_s", "/s", True),
    Row(
        "1,200 topics deleted: gone from metadata",
        "topics",
        "deleted_unseen_s",
        "s",
        why_behind=_DECIDING,
    ),
    Row("1,200 topics deleted: gone from the disk", "topics", "deleted_disk_s", "s"),
    *(
        row
        for cell, what in (("failover-1000", "1,000"), ("failover-10000", "10,000"))
        for row in (
            Row(
                f"{what} partitions, controller killed: noticed",
                cell,
                "noticed_s",
                "s",
                ours=_APART,
            ),
            Row(
                f"{what} partitions, controller killed: first to last led",
                cell,
                "first_to_last_s",
                "s",
                ours=_APART,
                why_behind="every controller of Kafka 4 has the metadata in memory; klamm's new "
                "controller decides anew and tells each broker",
            ),
            Row(
                f"{what} partitions, controller killed: all led",
                cell,
                "all_led_s",
                "s",
                ours=_APART,
            ),
        )
    ),
    Row(
        "produce 1 KB, 1 MB batches, RF 1",
        "rf1-1mb",
        "produce.mb_s",
        "MB/s",
        True,
        why_behind=_MEMORY,
    ),
    Row(
        "produce 1 KB, 1 MB batches, RF 3, acks=all",
        "rf3-1mb",
        "produce.mb_s",
        "MB/s",
        True,
        why_behind=_MEMORY,
    ),
    Row("produce 1 KB, 16 KB batches, RF 1", "rf1-16kb", "produce.mb_s", "MB/s", True),
    Row("produce 1 KB, 16 KB batches, RF 3, acks=all", "rf3-16kb", "produce.mb_s", "MB/s", True),
    Row(
        "produce 100 B, 1 MB batches, RF 1",
        "rf1-100b",
        "produce.mb_s",
        "MB/s",
        True,
        why_behind=_CLIENT,
    ),
    Row("produce 100 B, 1 MB batches, RF 3, acks=all", "rf3-100b", "produce.mb_s", "MB/s", True),
    Row("consume 1 KB, RF 1", "rf1-1mb", "consume.mb_s", "MB/s", True, why_behind=_CLIENT),
    Row("consume 1 KB, RF 3", "rf3-1mb", "consume.mb_s", "MB/s", True, why_behind=_CLIENT),
    Row(
        "Java producer, 1 KB, 16 KB batches, RF 1",
        "java",
        "produce.mb_s",
        "MB/s",
        True,
    ),
    Row("Java consumer, 1 KB", "java", "consume.mb_s", "MB/s", True, why_behind=_CLIENT),
    Row("latency, 300 records a second, acks=all, RF 3: p50", "latency", "p50_ms", "ms"),
    Row("the same: p99", "latency", "p99_ms", "ms"),
    Row("the same: p99.9", "latency", "p999_ms", "ms"),
    Row("the command that lists topics", "list", "wall_s", "s"),
)
# Processor time that the brokers need to move a gigabyte.
COST_ROWS: Final = tuple(
    Row(title, cell, f"{side}.cpu_s_per_gb", "s")
    for title, cell, side in (
        ("produce, 1 MB batches, RF 1", "rf1-1mb", "produce"),
        ("produce, 1 MB batches, RF 3", "rf3-1mb", "produce"),
        ("produce, 16 KB batches, RF 1", "rf1-16kb", "produce"),
        ("produce, 16 KB batches, RF 3", "rf3-16kb", "produce"),
        ("consume, RF 1", "rf1-1mb", "consume"),
        ("consume, RF 3", "rf3-1mb", "consume"),
    )
)
_OTHER_ROWS: Final = (
    Row("start to the first record", "start", "first_record_s", "s"),
    Row("idle memory", "start", "idle_memory_mb", "MB"),
    Row("produce 1 KB, 1 MB batches, RF 1", "rf1-1mb", "produce.mb_s", "MB/s", True),
    Row("consume 1 KB, RF 1", "rf1-1mb", "consume.mb_s", "MB/s", True),
    Row("produce 1 KB, 16 KB batches, RF 1", "rf1-16kb", "produce.mb_s", "MB/s", True),
)


class Measured:
    """A stored result, by row and system."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.result = result
        self._values: dict[tuple[str, str, str], list[float]] = {}
        for reading in result["readings"]:
            for figure, value in reading.get("figures", {}).items():
                key = reading["system"], reading["cell"], figure
                self._values.setdefault(key, []).append(value)

    def values(self, row: Row, system: str) -> list[float]:
        name = row.ours if system == _OURS else system
        return self._values.get((name, row.cell, row.figure), [])

    def median(self, row: Row, system: str) -> float | None:
        found = self.values(row, system)
        return statistics.median(found) if found else None

    def ratio(self, row: Row, peer: str) -> float | None:
        """How many times better klamm is."""
        ours, theirs = self.median(row, _OURS), self.median(row, peer)
        if not ours or not theirs:
            return None
        return ours / theirs if row.more_is_better else theirs / ours

    def worst_ratio(self, row: Row) -> float | None:
        """Beside the better of the two Kafkas."""
        found = [ratio for peer in _PEERS if (ratio := self.ratio(row, peer)) is not None]
        return min(found, default=None)

    def title(self, system: str) -> str:
        systems = self.result["systems"]
        return next((each["title"] for each in systems if each["name"] == system), system)

    def has(self, rows: Sequence[Row], system: str) -> bool:
        return any(self.values(row, system) for row in rows)


def newest(results: Path) -> Path:
    """The stored result that the page is of."""
    return max(results.glob("peers-*.json"))


def write(result: Mapping[str, Any], name: str, docs: Path = DOCS) -> Iterator[Path]:
    for file, text in rendered(result, name).items():
        (docs / file).write_text(text)
        yield docs / file


def rendered(result: Mapping[str, Any], name: str) -> dict[str, str]:
    """Every file of the page and what is in it."""
    measured = Measured(result)
    bars = [(row.title, ratio) for row in ROWS if (ratio := measured.worst_ratio(row)) is not None]
    columns = [name for name in (_OURS, *_PEERS) if measured.has(COST_ROWS, name)]
    groups = [
        (row.title, [measured.median(row, name) for name in columns])
        for row in COST_ROWS
        if measured.values(row, _OURS)
    ]
    return {
        PAGE: "\n".join(_page(measured, name)) + "\n",
        RATIOS: plots.ratios("How many times better klamm is than the better Kafka", bars),
        COSTS: plots.groups(
            "Processor seconds of the brokers for a GB, less is better",
            [measured.title(name) for name in columns],
            groups,
        ),
    }


def _page(measured: Measured, name: str) -> Iterator[str]:
    result = measured.result
    machine = result["machine"]
    yield "<!-- Rendered by `make bench-peers` from a stored result; do not edit. -->"
    yield "# klamm beside Apache Kafka"
    yield ""
    loads = sorted(reading["load"] for reading in result["readings"]) or [0.0]
    yield from _prose(
        "The same work, the same clients, the same machine, in alternating rounds; "
        "`make bench-peers` does it again. This page is of "
        f"`bench/results/{name}`: {result['at']}, {machine['cpus']} cores, data on "
        f"{machine['data_on']}, {_count(result['rounds'], 'round')}, {result['seconds']:g} s a "
        f"throughput cell, JVMs warmed up for {result['warm_s']:g} s. The load of the machine "
        f"before a reading was {loads[0]:g} to {loads[-1]:g}, in the median "
        f"{statistics.median(loads):g}. {result.get('note', '')}",
        "Medians, and the spread in brackets. A ratio above 1 means that klamm is better.",
    )
    yield from _table(measured)
    yield ""
    yield f"![How many times better klamm is than the better Kafka]({RATIOS})"
    yield ""
    yield from _behind(measured)
    yield "## What it costs"
    yield ""
    yield from _prose(
        "Throughput depends on what else a machine does; processor time hardly does. So this is "
        "the fairer figure: seconds of the brokers for a gigabyte."
    )
    yield from _plain_table(measured, COST_ROWS, (_OURS, *_PEERS))
    yield ""
    yield f"![Processor time of the brokers for a gigabyte]({COSTS})"
    yield ""
    others = [each for each in _OTHERS if measured.has(_OTHER_ROWS, each)]
    if others:
        yield "## Smaller ones"
        yield ""
        yield from _prose(
            "One broker of each, and two fakes for tests: kfake (franz-go) and librdkafka's mock "
            "keep records in memory only, have no copies and no disk; the mock keeps the last few "
            "records of a partition, so nothing is consumed from it."
        )
        yield from _plain_table(measured, _OTHER_ROWS, (_OURS, *others))
        yield ""
    yield from _settings(measured)


def _prose(*paragraphs: str) -> Iterator[str]:
    for paragraph in paragraphs:
        yield from wrap(paragraph, 118, break_long_words=False, break_on_hyphens=False)
        yield ""


def _table(measured: Measured) -> Iterator[str]:
    titles = [measured.title(name) for name in (_OURS, *_PEERS)]
    yield f"| work | {' | '.join(titles)} | ratios |"
    yield "|---|---|---|---|---|"
    for row in ROWS:
        if not measured.values(row, _OURS):
            continue
        cells = [_cell(measured.values(row, name), row.unit) for name in (_OURS, *_PEERS)]
        ratios = [_ratio(measured.ratio(row, peer)) for peer in _PEERS]
        yield f"| {row.title} | {' | '.join(cells)} | {' / '.join(ratios)} |"


def _plain_table(measured: Measured, rows: Sequence[Row], systems: Sequence[str]) -> Iterator[str]:
    yield f"| | {' | '.join(measured.title(name) for name in systems)} |"
    yield "|---" * (1 + len(systems)) + "|"
    for row in rows:
        if measured.values(row, _OURS):
            cells = [_cell(measured.values(row, name), row.unit) for name in systems]
            yield f"| {row.title} | {' | '.join(cells)} |"


def _behind(measured: Measured) -> Iterator[str]:
    """Where klamm is not first, and why."""
    behind = [
        (row, ratio)
        for row in ROWS
        if (ratio := measured.worst_ratio(row)) is not None and ratio < 1
    ]
    yield "## Where klamm is behind"
    yield ""
    if not behind:
        yield "Nowhere in this run."
    for row, ratio in behind:
        why = row.why_behind or "not explained yet"
        yield f"- **{row.title}** ({_ratio(ratio)}): {why}."
    broken = [reading for reading in measured.result["readings"] if "broke" in reading]
    for reading in broken:
        where, why = measured.title(reading["system"]), _line(reading["broke"])
        yield f"- `{reading['cell']}` broke once on {where}: {why}"
    yield ""


def _settings(measured: Measured) -> Iterator[str]:
    versions = measured.result["versions"]
    yield "## How it was measured"
    yield ""
    yield "| system | brokers | heap |"
    yield "|---|---|---|"
    for each in measured.result["systems"]:
        yield f"| {each['title']} | {each['brokers']} | {each['heap']} |"
    yield ""
    for point in (
        "Settings are those a system ships with, but for these, which all have: "
        "`log.segment.delete.delay.ms=1000`, `group.initial.rebalance.delay.ms=0`, "
        "`auto.create.topics.enable=false`, sessions of 6 s. JVM flags are those of Kafka's own "
        "scripts.",
        f"Clients: librdkafka through confluent-kafka {versions['rdkafka']} as it is, but for "
        "`batch.size` where a row says so and `fetch.queue.backoff.ms=2`; Java rows use the tools "
        f"of Kafka {versions['3.9']} for every system. After each produce the offsets on the "
        "brokers are compared with what was acknowledged.",
        "The client runs on the same cores. Where it is the limit, systems look alike; the "
        "processor time above tells them apart.",
        *_congestion(measured.result.get("congestion", "")),
        "On a virtual machine a page of memory that was not in use is found by the host first: a "
        "GB written to new pages can take ten times the processor time of one written to pages "
        "that a deleted file has just left (`bench/run.py new-pages`). So a cell that writes may "
        "cost more in one round than in the next, on every system; with three replicas it counts "
        "three times.",
        "The controller's process is killed with `kill -9`. For klamm that is a cluster of "
        "`klamm up --processes`, whose parent notices the death of its child at once, while a "
        "broker of Kafka is missed when its session ends. So the time until the first partition "
        "is led elsewhere is a row of its own.",
        "Idle memory is the proportional set size of all processes.",
    ):
        yield from wrap(
            f"- {point}",
            118,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _congestion(name: str) -> Iterator[str]:
    """A word about the system's way to send, where that makes a difference."""
    if name.startswith("bbr"):
        yield (
            f"The machine's TCP congestion control is {name}, which paces what it sends by timers, "
            "on the loopback too. klamm's brokers do not use it inside one machine; clients and "
            "the other systems send as the machine is set."
        )


def _cell(values: Sequence[float], unit: str) -> str:
    if not values:
        return "-"
    middle = _number(statistics.median(values))
    if len(values) == 1:
        return f"{middle} {unit}"
    return f"{middle} {unit} ({_number(min(values))}-{_number(max(values))})"


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _line(text: str) -> str:
    return " ".join(text.split())[:160].replace("|", "/").replace("<", "(").replace(">", ")")
