"""Measure the data source and the bulk jobs, beside the official connector where it can be had.

    python bench/spark.py [--records N] [--large N] [--connector JARS] [--bootstrap HOST:PORT]

Each figure is the best of a few runs after a warm one, in records/s of wall time and of CPU time
(all processes of Spark on this machine, from /proc). The connector's jars come from Maven:
`--connector DIR` names a directory that holds them; without it only klamm's own side runs, and says
so.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measure import cluster

from klamm.pipelines.archive import archive
from klamm.pipelines.cluster import Lookup
from klamm.pipelines.options import ConnectionOptions, parse_bootstrap
from klamm.pipelines.restore import restore
from klamm.pipelines.session import start

_PARTITIONS = 2
_TICKS = os.sysconf("SC_CLK_TCK")


def _cpu_seconds() -> float:
    """CPU time of this process and all its descendants: the JVM and the Python workers."""
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


def _timed(name: str, records: int, work: Callable[[int], Any], runs: int) -> dict[str, Any]:
    """The best of some runs; the first, which warms workers and caches, does not count."""
    found = []
    for number in range(runs + 1):
        cpu, began = _cpu_seconds(), time.perf_counter()
        work(number)
        found.append((time.perf_counter() - began, _cpu_seconds() - cpu))
    wall, cpu = min(found[1:])
    line = {
        "name": name,
        "records": records,
        "seconds": round(wall, 3),
        "cpu_seconds": round(cpu, 3),
        "records_per_second": round(records / wall),
        "records_per_cpu_second": round(records / max(cpu, 0.01)),
    }
    print(
        f"{name:36} {line['records_per_second']:>12,} records/s "
        f"{line['records_per_cpu_second']:>12,} per CPU second",
        flush=True,
    )
    return line


@contextmanager
def _broker(bootstrap: str | None) -> Iterator[str]:
    if bootstrap is not None:
        yield bootstrap
        return
    with cluster(brokers=1) as running:
        yield running.bootstrap


def _measure(
    spark: Any, bootstrap: str, size: int, records: int, runs: int, formats: list[str]
) -> list[dict[str, Any]]:
    lookup = Lookup(ConnectionOptions(bootstrap=parse_bootstrap(bootstrap)))
    topic, label = f"bench-{size}-{os.urandom(3).hex()}", f"{size} B"
    lookup.create(topic, _PARTITIONS, configs={"retention.ms": "-1"})
    rows = spark.range(records).selectExpr(
        "format_string('key-%08d', id) AS key", f"repeat('x', {size}) AS value"
    )
    lines = []

    def write(form: str, target: str) -> None:
        writer = rows.write.format(form).mode("append").option("topic", target)
        writer.option("kafka.bootstrap.servers", bootstrap).save()

    write("klamm", topic)
    for form in formats:
        frame = (
            spark.read.format(form)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
        )

        def read(_: int, frame: Any = frame) -> None:
            frame.load().write.format("noop").mode("overwrite").save()

        def to_parquet(_: int, frame: Any = frame) -> None:
            with tempfile.TemporaryDirectory() as path:
                frame.load().write.mode("overwrite").option("compression", "zstd").parquet(path)

        def to_topic(number: int, form: str = form) -> None:
            target = f"{topic}-{form}-{number}"
            lookup.create(target, _PARTITIONS, configs={})
            write(form, target)
            lookup.delete(target)

        lines.append(_timed(f"{form}: read {label} to noop", records, read, runs))
        lines.append(_timed(f"{form}: read {label} to Parquet", records, to_parquet, runs))
        lines.append(_timed(f"{form}: write {label}", records, to_topic, 1))
    with tempfile.TemporaryDirectory() as root:

        def keep(number: int) -> None:
            archive(spark, lookup.options, topic, f"{root}/{number}")

        lines.append(_timed(f"archive {label}", records, keep, runs))
        manifest = archive(spark, lookup.options, topic, f"{root}/0").manifest

        def back(number: int) -> None:
            restore(spark, lookup.options, manifest, to=f"{topic}-back-{number}", check=False)
            lookup.delete(f"{topic}-back-{number}")

        lines.append(_timed(f"restore {label}, with proof", records, back, 1))
    lookup.delete(topic)
    return lines


def _connector(directory: str | None) -> tuple[list[str], str]:
    """The formats to measure, and the jars for them."""
    if directory is None:
        print("without --connector only klamm's side runs (its jars come from Maven)")
        return ["klamm"], ""
    jars = sorted(str(path) for path in Path(directory).glob("*.jar"))
    if not any("spark-sql-kafka" in jar for jar in jars):
        print(f"{directory} holds no spark-sql-kafka jar: only klamm's side runs")
        return ["klamm"], ""
    return ["klamm", "kafka"], ",".join(jars)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the data source and the bulk jobs.")
    parser.add_argument("--records", type=int, default=5_000_000, help="records of 100 B")
    parser.add_argument("--large", type=int, default=1_000_000, help="records of 1 KB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--master", default="local[1]")
    parser.add_argument("--connector", metavar="DIR", help="the official connector's jars")
    parser.add_argument("--bootstrap", help="a cluster to measure on; default: one of our own")
    parser.add_argument("--to", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    formats, jars = _connector(options.connector)
    settings = {"spark.driver.memory": "2g"} | ({"spark.jars": jars} if jars else {})
    spark = start(options.master, name="bench", settings=settings)
    with _broker(options.bootstrap) as bootstrap:
        lines = _measure(spark, bootstrap, 100, options.records, options.runs, formats)
        lines += _measure(spark, bootstrap, 1000, options.large, options.runs, formats)
    spark.stop()
    if options.to is not None:
        options.to.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
