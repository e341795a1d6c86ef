"""Measure a cluster from outside, with librdkafka as the client.

    python bench/run.py [NAME ...] [--list] [--repeat N]

Prints a table with the goals and writes `bench/results/<time>.json`, with the machine's load before
each number: on a busy machine wall time says little. Every measurement of a cluster starts a
`klamm up` of its own on free ports and temporary data, so nothing is warm but the page cache.
A case, which has several numbers, runs once. How to read them: `bench/README.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import authorization
import bytes as data_plane
import cluster_life
import codec
import command_line
import connections
import cores
import creations
import failover
import hot_paths
import log
import null_sink
import pages
import processes
import tls
from measure import Case, Measure, machine

MEASURES: tuple[Measure, ...] = (
    *cluster_life.MEASURES,
    *failover.MEASURES,
    *authorization.MEASURES,
    *hot_paths.MEASURES,
    *codec.MEASURES,
    *log.MEASURES,
)
CASES: tuple[Case, ...] = (
    *cluster_life.CASES,
    *log.CASES,
    *data_plane.CASES,
    *null_sink.CASES,
    *connections.CASES,
    *tls.CASES,
    *creations.CASES,
    *processes.CASES,
    *cores.CASES,
    *pages.CASES,
    *command_line.CASES,
)
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    options = _options()
    known = {entry.name for entry in (*MEASURES, *CASES)}
    unknown = set(options.names) - known
    if options.list or unknown:
        for entry in (*MEASURES, *CASES):
            print(f"{entry.name:28} {entry.what}")
        return 2 if unknown else 0
    before = machine()
    measures, cases = [], []
    for measure in MEASURES:
        if not options.names or measure.name in options.names:
            load = os.getloadavg()[0]
            values = [measure.run() for _ in range(options.repeat)]
            measures.append({**_line(measure, values), "load": round(load, 2)})
            print(_text(measures[-1]), flush=True)
    for case in CASES:
        if not options.names or case.name in options.names:
            load = os.getloadavg()[0]
            figures = {name: round(value, 3) for name, value in case.run().items()}
            cases.append(_case(case, figures) | {"load": round(load, 2)})
            print(_case_text(case, figures), flush=True)
    path = _write({"machine": before, "measures": measures, "cases": cases})
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


def _case(case: Case, figures: dict[str, float]) -> dict[str, object]:
    return {
        "name": case.name,
        "what": case.what,
        "figures": figures,
        "goals": dict(case.goals),
        "limits": dict(case.limits),
        "met": case.is_met(figures),
    }


def _case_text(case: Case, figures: dict[str, float]) -> str:
    mark = "ok  " if case.is_met(figures) else "MISS"
    shown = "  ".join(f"{name} {value:g}" for name, value in figures.items())
    wanted = {**case.goals, **case.limits}
    goals = "".join(f"  goal {name} {goal:g}" for name, goal in wanted.items())
    return f"{mark}  {case.name:<26}{case.what:<44}{shown}{goals}"


def _write(result: dict[str, object]) -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / time.strftime("%Y%m%d-%H%M%S.json", time.gmtime())
    path.write_text(json.dumps(result, indent=2) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
