"""Measure what commands cost beside their work: six records, and a few more than Spark is spared.

    python bench/start_up.py [--runs N] [--to FILE]

`klamm archive` of six records does without Spark; of 20,100 it starts one, or uses the one that
`klamm spark serve` runs. Seconds are from the command line to its end; CPU seconds are those of the
command and all it starts, for the shared Spark those of the command alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import cluster, machine

from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.settings import ConnectionOptions

_COUNTS = {"six": 6, "more": 20_100}
_KLAMM = (sys.executable, "-m", "klamm.cli")


def _fill(bootstrap: str) -> None:
    from confluent_kafka import Producer

    lookup = Lookup(ConnectionOptions(bootstrap=parse_bootstrap(bootstrap)))
    producer = Producer({"bootstrap.servers": bootstrap})
    for topic, count in _COUNTS.items():
        lookup.create(topic, 2, configs={})
        for number in range(count):
            producer.produce(topic, b"v%d" % number, partition=number % 2)
        producer.flush(60)


def _once(topic: str, bootstrap: str, place: Path, master: str) -> tuple[float, float]:
    to = place / os.urandom(3).hex()
    line = (*_KLAMM, "archive", topic, "--to", str(to), "-b", bootstrap, "--master", master)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(line, check=True, capture_output=True, timeout=300)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, used


def _measured(what: str, runs: int, *words: object) -> dict[str, object]:
    found = [_once(*words) for _ in range(runs + 1)][1:]  # type: ignore[arg-type]
    wall, cpu = (round(statistics.median(kind), 2) for kind in zip(*found, strict=True))
    print(f"{what:40} {wall:6.2f} s {cpu:6.2f} CPU s", flush=True)
    return {"what": what, "seconds": wall, "cpu_seconds": cpu, "all": found}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what commands cost beside their work.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--to", type=Path, help="the file of results")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="klamm-bench-") as scratch,
        cluster(brokers=1) as running,
    ):
        os.environ["XDG_STATE_HOME"] = scratch
        place, servers, runs = Path(scratch), running.bootstrap, options.runs
        _fill(servers)
        lines = [
            _measured("six records, without Spark", runs, "six", servers, place, "auto"),
            _measured("20,100 records, own Spark", runs, "more", servers, place, "local[*]"),
        ]
        server = subprocess.Popen((*_KLAMM, "spark", "serve"), stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None, "it was started with a pipe"
            server.stdout.readline()
            what = "20,100 records, shared Spark"
            lines.append(_measured(what, runs, "more", servers, place, "auto"))
        finally:
            server.terminate()
            server.wait()
    name = time.strftime("spark-start-up-%Y%m%d.json")
    path = options.to or Path(__file__).parent / "results" / name
    path.write_text(json.dumps({"machine": machine(), "measures": lines}, indent=1) + "\n")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
