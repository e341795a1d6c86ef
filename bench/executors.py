"""Measure a job on a Spark cluster, `spark://`, with one executor and with two.

    python bench/executors.py [--records N] [--runs N]

Master and workers are processes, a worker and an executor have one core each. Two jobs are
measured on a topic of six partitions: a read to nowhere and an archive; a round that warms does
not count. On two cores the broker and the driver want some of
them as well, so that two executors cannot be twice as fast there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import cluster, machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fire.standalone import standalone
from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.settings import ConnectionOptions
from klamm.pipelines.archive.archiving import archive
from klamm.pipelines.session.session import start

_PARTITIONS = 6
_TOPIC = "bench"


def _jobs(spark: Any, bootstrap: str, scratch: Path) -> dict[str, Callable[[], object]]:
    reader = spark.read.format("klamm").option("kafka.bootstrap.servers", bootstrap)
    options = ConnectionOptions(bootstrap=parse_bootstrap(bootstrap))

    def keep() -> None:
        root = scratch / os.urandom(3).hex()
        archive(spark, options, _TOPIC, root)
        shutil.rmtree(root)

    def read() -> None:
        rows = reader.option("subscribe", _TOPIC).load()
        rows.write.format("noop").mode("overwrite").save()

    return {"read": read, "archive": keep}


def _measured(
    master: str, executors: int, bootstrap: str, scratch: Path, runs: int
) -> dict[str, list[float]]:
    """The seconds of each run, with so many executors."""
    settings = {"spark.cores.max": str(executors), "spark.executor.cores": "1"}
    spark = start(master, name=f"{executors} executors", settings=settings)
    try:
        found: dict[str, list[float]] = {}
        for what, job in _jobs(spark, bootstrap, scratch).items():
            for number in range(runs + 1):
                began = time.perf_counter()
                job()
                if number:
                    found.setdefault(what, []).append(round(time.perf_counter() - began, 3))
        return found
    finally:
        spark.stop()


def _fill(master: str, bootstrap: str, records: int) -> None:
    spark = start(master, name="fill", settings={"spark.cores.max": "2"})
    options = {"kafka.bootstrap.servers": bootstrap, "topic": _TOPIC}
    rows = spark.range(0, records, 1, _PARTITIONS).selectExpr(
        "format_string('key-%08d', id) AS key",
        "concat(md5(string(id)), ' ', repeat('words ', 11)) AS value",
    )
    rows.write.format("klamm").mode("append").options(**options).save()
    spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure jobs with one executor and with two.")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--to", type=Path, help="the file of results")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="klamm-bench-") as scratch,
        cluster(brokers=1) as running,
        standalone(Path(scratch), 2) as master,
    ):
        lookup = Lookup(ConnectionOptions(bootstrap=parse_bootstrap(running.bootstrap)))
        lookup.create(_TOPIC, _PARTITIONS, configs={"retention.ms": "-1"})
        _fill(master, running.bootstrap, options.records)
        found: dict[int, dict[str, list[float]]] = {1: {}, 2: {}}
        for executors in (1, 2):
            found[executors] = _measured(
                master, executors, running.bootstrap, Path(scratch), options.runs
            )
    lines = []
    for what in found[1]:
        one, two = (statistics.median(found[n][what]) for n in (1, 2))
        lines.append({"what": what, "records": options.records, "one_s": one, "two_s": two})
        lines[-1] |= {"ratio": round(one / two, 2), "all": {n: found[n][what] for n in (1, 2)}}
        print(f"{what:8} one executor {one:.2f} s, two {two:.2f} s: {one / two:.2f} times")
    name = time.strftime("spark-executors-%Y%m%d.json")
    path = options.to or Path(__file__).parent / "results" / name
    path.write_text(json.dumps({"machine": machine(), "measures": lines}, indent=1) + "\n")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
