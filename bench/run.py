"""Measure a cluster from outside, with librdkafka as the client.

    python bench/run.py [NAME ...] [--list] [--repeat N]

Prints a table with the goals and writes `bench/results/<time>.json`. Every measurement starts a
`klamm up` of its own on free ports and temporary data, so nothing is warm but the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import cluster_life
import codec
import failover
import log
import throughput
from measure import Measure

MEASURES: tuple[Measure, ...] = (
    *cluster_life.MEASURES,
    *failover.MEASURES,
    *throughput.MEASURES,
    *codec.MEASURES,
    *log.MEASURES,
)
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    options = _options()
    chosen = [m for m in MEASURES if not options.names or m.name in options.names]
    unknown = set(options.names) - {m.name for m in MEASURES}
    if options.list or unknown:
        for measure in MEASURES:
            print(f"{measure.name:28} {measure.what}")
        return 2 if unknown else 0
    lines = []
    for measure in chosen:
        values = [measure.run() for _ in range(options.repeat)]
        lines.append(_line(measure, values))
        print(_text(lines[-1]), flush=True)
    path = _write(lines)
    print(f"\nwritten to {path}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure a cluster from outside.")
    parser.add_argument("names", nargs="*", help="measurements to run (default: all)")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--repeat", type=int, default=3, help="runs each; the median counts")
    return parser.parse_args()


def _line(measure: Measure, values: list[float]) -> dict[str, object]:
    median = statistics.median(values)
    goal = measure.goal
    met = goal is None or (median <= goal if measure.less_is_better else median >= goal)
    return {
        "name": measure.name,
        "what": measure.what,
        "unit": measure.unit,
        "median": round(median, 3),
        "all": [round(value, 3) for value in values],
        "goal": goal,
        "met": met,
    }


def _text(line: dict[str, object]) -> str:
    mark = "ok  " if line["met"] else "MISS"
    value = f"{line['median']:>10} {line['unit']:<5}"
    goal = "" if line["goal"] is None else f"  goal {line['goal']} {line['unit']}"
    return f"{mark}  {line['name']:<18}{line['what']:<44}{value}{goal}"


def _write(lines: list[dict[str, object]]) -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    machine = {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
    }
    path.write_text(json.dumps({"machine": machine, "measures": lines}, indent=2) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
