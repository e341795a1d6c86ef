"""Measure the data source and the bulk jobs, side by side with Spark's own Kafka connector.

    python bench/spark.py [WHAT ...] [--size 100 | 1000] [--runs N] [--master local[1]]

What is measured: `read` (to nowhere), `parquet` (through Spark's writer), `write`, `once` (a write
exactly once beside one at least once), `archive`, `restore`, `exact` (an exact restore beside one
that appends) and `repartition` (with and without a shuffle, proof included). The sides take turns
in one run on the same topic, first one, then the other in front; a round that warms workers and
caches does not count, and the median of the others does. CPU seconds are those of all processes:
Spark's, its Python workers' and the broker's.

The records look like those of a producer with Kafka's defaults: batches of 16 KB, keys of 12 B,
values half fresh hexadecimal digits and half words that do not change (zstd makes a third of them).
Both sides write Parquet with zstd at level 1; how many bytes each has written is in the results.
The connector is measured as it comes and, for reads, also with larger polls and fetches ("tuned").

A part that takes two or three minutes at a time: `archive --size 100 --to FILE`, then
`write --size 1000 --to FILE`, and so on: what is measured anew replaces what FILE holds of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import connector
from measure import cluster

from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.settings import ConnectionOptions
from klamm.pipelines.archive.archiving import archive
from klamm.pipelines.archive.exact import restore_exactly
from klamm.pipelines.archive.restoring import restore
from klamm.pipelines.repartition.repartition import Repartitioning
from klamm.pipelines.repartition.steps import TopicCluster
from klamm.pipelines.session.session import start

_RESULTS = Path(__file__).parent / "results"
_PARTITIONS = 2
_TICKS = os.sysconf("SC_CLK_TCK")
_RECORDS = {100: 5_000_000, 1000: 1_000_000}
_TUNED = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.fetch.max.bytes": "8388608",
}
_ZSTD = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}
# What the wall time of the connector must be at least, as a multiple of ours.
_GOALS = {("read", 100): 2.0, ("read", 1000): 1.2, ("archive", 100): 5.0, ("archive", 1000): 3.0}
# And that of a write at least once, as a multiple of one exactly once.
_GOALS |= {("once", 100): 0.7, ("once", 1000): 0.7}

Work = Callable[[], int | None]  # the bytes of Parquet that it has written


@dataclass(frozen=True, slots=True)
class Bench:
    """Where one size of records is measured."""

    spark: Any
    bootstrap: str
    size: int
    records: int
    topic: str
    rows: Any  # what a write takes: a DataFrame that is cheap to read
    scratch: Path
    has_connector: bool

    @property
    def lookup(self) -> Lookup:
        return Lookup(ConnectionOptions(bootstrap=parse_bootstrap(self.bootstrap)))

    def load(self, form: str, options: Mapping[str, str] | None = None) -> Any:
        reader = self.spark.read.format(form).option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("subscribe", self.topic).options(**(options or {})).load()

    def save(self, form: str, target: str, **options: str) -> None:
        writer = self.rows.write.format(form).mode("append").option("topic", target)
        writer.option("kafka.bootstrap.servers", self.bootstrap).options(**options).save()


def _cpu_seconds() -> float:
    """CPU time of this process and all its descendants: JVM, Python workers, broker."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = sum(int(f) for f in fields[11:15])
    family, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return sum(used[pid] for pid in family if pid in used) / _TICKS


def _read(bench: Bench) -> dict[str, Work]:
    def of(form: str, options: Mapping[str, str] | None = None) -> Work:
        def work() -> None:
            bench.load(form, options).write.format("noop").mode("overwrite").save()

        return work

    sides = {"klamm": of("klamm")}
    if bench.has_connector:
        sides |= {"connector": of("kafka"), "connector, tuned": of("kafka", _TUNED)}
    return sides


def _parquet_of(bench: Bench, form: str) -> Work:
    def work() -> int:
        target = bench.scratch / f"parquet-{form}"
        bench.load(form).write.mode("overwrite").options(**_ZSTD).parquet(str(target))
        return sum(path.stat().st_size for path in target.glob("*.parquet"))

    return work


def _parquet(bench: Bench) -> dict[str, Work]:
    sides = {"klamm": _parquet_of(bench, "klamm")}
    return sides | ({"connector": _parquet_of(bench, "kafka")} if bench.has_connector else {})


def _write(bench: Bench) -> dict[str, Work]:
    def of(form: str) -> Work:
        def work() -> None:
            target = f"{bench.topic}-{form}-{os.urandom(3).hex()}"
            bench.lookup.create(target, _PARTITIONS, configs={})
            bench.save(form, target)
            bench.lookup.delete(target)

        return work

    return {"klamm": of("klamm")} | ({"connector": of("kafka")} if bench.has_connector else {})


def _once(bench: Bench) -> dict[str, Work]:
    def of(**options: str) -> Work:
        def work() -> None:
            target = f"{bench.topic}-once-{os.urandom(3).hex()}"
            bench.lookup.create(target, _PARTITIONS, configs={})
            bench.save("klamm", target, **({"jobId": target} if options else {}), **options)
            bench.lookup.delete(target)

        return work

    return {"exactly once": of(delivery="exactly-once"), "at least once": of()}


def _archive(bench: Bench) -> dict[str, Work]:
    def keep() -> int:
        root = bench.scratch / f"archive-{os.urandom(3).hex()}"
        kept = archive(bench.spark, bench.lookup.options, bench.topic, root)
        shutil.rmtree(root)
        return kept.manifest.bytes

    sides: dict[str, Work] = {"klamm": keep}
    return sides | ({"connector": _parquet_of(bench, "kafka")} if bench.has_connector else {})


def _restore(bench: Bench) -> dict[str, Work]:
    kept = archive(bench.spark, bench.lookup.options, bench.topic, bench.scratch / "restore")

    def back() -> None:
        target = f"{bench.topic}-back-{os.urandom(3).hex()}"
        restore(bench.spark, bench.lookup.options, kept.manifest, to=target)
        bench.lookup.delete(target)

    return {"klamm": back}


def _exact(bench: Bench) -> dict[str, Work]:
    kept = archive(bench.spark, bench.lookup.options, bench.topic, bench.scratch / "exact")

    def of(way: Callable[..., Any]) -> Work:
        def work() -> None:
            target = f"{bench.topic}-{way.__name__}-{os.urandom(3).hex()}"
            way(bench.spark, bench.lookup.options, kept.manifest, to=target)
            bench.lookup.delete(target)

        return work

    return {"exact": of(restore_exactly), "append": of(restore)}


def _repartition(bench: Bench) -> dict[str, Work]:
    """Each side has a topic of its own, which goes to and fro between two numbers."""

    def of(other: int) -> Work:
        topic = f"{bench.topic}-to-{other}"
        bench.lookup.create(topic, _PARTITIONS, configs={"retention.ms": "-1"})
        bench.save("klamm", topic, **{"kafka.batch.size": "16384"})
        place = TopicCluster(bench.lookup, None)

        def work() -> None:
            now = len(place.topic(topic).leaders)
            targets = other if now == _PARTITIONS else _PARTITIONS
            done = Repartitioning(bench.spark, place, topic, targets, bench.scratch / topic).run()
            if done.violations or done.records != bench.records:
                raise SystemExit(f"{topic} is not what it was: {done}")
            bench.lookup.delete(done.kept_as)

        return work

    return {"no shuffle": of(2 * _PARTITIONS), "shuffle": of(_PARTITIONS + 1)}


_WHAT: Mapping[str, tuple[str, Callable[[Bench], dict[str, Work]]]] = {
    "read": ("read to nowhere", _read),
    "parquet": ("read to Parquet", _parquet),
    "write": ("write", _write),
    "once": ("write exactly once", _once),
    "archive": ("archive, against reading to Parquet", _archive),
    "restore": ("restore, with proof", _restore),
    "exact": ("exact restore, with proof", _exact),
    "repartition": ("re-partition, with proof", _repartition),
}


def _measured(bench: Bench, what: str, runs: int) -> list[dict[str, Any]]:
    """All sides in turn; who is first alternates."""
    sides, written = _WHAT[what][1](bench), {}
    load = round(os.getloadavg()[0], 1)
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for number in range(runs + 1):
        for side in list(sides) if number % 2 else list(sides)[::-1]:
            cpu, began = _cpu_seconds(), time.perf_counter()
            written[side] = sides[side]()
            took = (time.perf_counter() - began, _cpu_seconds() - cpu)
            if number:
                found[side].append(took)
    lines = [_line(bench, what, side, times) for side, times in found.items()]
    for line in lines:
        line["load_before"], line["bytes_written"] = load, written[line["side"]]
        line["wall_ratio"] = round(line["seconds"] / lines[0]["seconds"], 2)
        line["cpu_ratio"] = round(line["cpu_seconds"] / lines[0]["cpu_seconds"], 2)
        _print(line)
    return lines


def _line(bench: Bench, what: str, side: str, times: list[tuple[float, float]]) -> dict[str, Any]:
    wall, cpu = (statistics.median(kind) for kind in zip(*times, strict=True))
    return {
        "what": what,
        "size": bench.size,
        "side": side,
        "records": bench.records,
        "seconds": round(wall, 3),
        "cpu_seconds": round(cpu, 2),
        "records_per_second": round(bench.records / wall),
        "records_per_cpu_second": round(bench.records / max(cpu, 0.01)),
        "all_seconds": [round(wall, 3) for wall, _ in times],
        "goal": _GOALS.get((what, bench.size)) if side in ("connector", "at least once") else None,
    }


def _print(line: dict[str, Any]) -> None:
    goal, verdict = line["goal"], ""
    if goal is not None:
        verdict = f"  goal {goal} {'met' if line['wall_ratio'] >= goal else 'MISSED'}"
    ratios = f"{line['wall_ratio']:.2f} wall, {line['cpu_ratio']:.2f} CPU"
    print(
        f"{line['what']:8} {line['size']:>5} B  {line['side']:17}"
        f"{line['seconds']:>8.2f} s {line['cpu_seconds']:>7.1f} CPU s "
        f"{line['records_per_second']:>11,} records/s   {ratios}{verdict}",
        flush=True,
    )


@contextmanager
def _bench(spark: Any, size: int, records: int, *, has_connector: bool) -> Iterator[Bench]:
    """A broker with a topic that holds the records, and the same as a table."""
    with (
        cluster(brokers=1) as running,
        tempfile.TemporaryDirectory(prefix="klamm-bench-") as scratch,
    ):
        table = f"{scratch}/rows"
        parts = size // 64 + 1
        fresh = f"transform(sequence(1, {parts}), i -> md5(concat(id, ' ', i)))"
        text = f"substr(array_join({fresh}, ' words that every record holds '), 1, {size})"
        spark.range(0, records, 1, _PARTITIONS).selectExpr(
            "format_string('key-%08d', id) AS key", f"{text} AS value"
        ).write.option("compression", "snappy").parquet(table)
        topic = f"bench-{size}"
        rows = spark.read.parquet(table)
        bench = Bench(
            spark=spark,
            bootstrap=running.bootstrap,
            size=size,
            records=records,
            topic=topic,
            rows=rows,
            scratch=Path(scratch),
            has_connector=has_connector,
        )
        bench.lookup.create(topic, _PARTITIONS, configs={"retention.ms": "-1"})
        bench.save("klamm", topic, **{"kafka.batch.size": "16384"})
        yield bench


def _connector() -> tuple[list[Path], str]:
    try:
        jars = connector.jars()
    except connector.Missing as why:
        print(f"the connector is not measured: {why}")
        return [], ""
    return jars, connector.version(jars)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the data source and the bulk jobs.")
    parser.add_argument("what", nargs="*", help=f"of {', '.join(_WHAT)} (default: all)")
    parser.add_argument("--size", type=int, choices=sorted(_RECORDS), help="of a value in bytes")
    parser.add_argument("--records", type=int, help="instead of 5 M of 100 B and 1 M of 1 KB")
    parser.add_argument("--runs", type=int, default=3, help="rounds that count")
    parser.add_argument("--master", default="local[1]")
    parser.add_argument("--to", type=Path, help="the file of results; one that exists is added to")
    options = parser.parse_args()
    if unknown := set(options.what) - set(_WHAT):
        parser.error(f"there is no {', '.join(sorted(unknown))}: choose from {', '.join(_WHAT)}")
    return options


def main() -> None:
    options = _options()
    jars, version = _connector()
    settings = {"spark.driver.memory": "2g"}
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    spark = start(options.master, name="bench", settings=settings)
    lines = []
    for size in [options.size] if options.size else sorted(_RECORDS):
        count = options.records or _RECORDS[size]
        with _bench(spark, size, count, has_connector=bool(jars)) as bench:
            for what in options.what or _WHAT:
                lines += _measured(bench, what, options.runs)
    machine = {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "spark": spark.version,
        "connector": version or None,
        "master": options.master,
    }
    spark.stop()
    path = options.to or Path(__file__).parent / "results" / time.strftime(
        "spark-%Y%m%d-%H%M%S.json"
    )
    _keep(path, machine, lines)
    print(f"\nwritten to {path}")


def _keep(path: Path, machine: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    before = json.loads(path.read_text())["measures"] if path.exists() else []
    new = {(line["what"], line["size"]) for line in lines}
    kept = [line for line in before if (line["what"], line["size"]) not in new]
    body = {"machine": machine, "measures": kept + lines}
    path.write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
