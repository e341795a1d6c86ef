"""The command behind `make suites`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

from suites import fetching, kafka, running, verdict
from suites.catalogue import Suite, Unusable, read_explanations, read_suites


def main() -> int:
    """Run the suites that were asked for; 1 when a failure has no explanation."""
    parser = argparse.ArgumentParser(prog="make suites", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SUITE", help="default: all")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    parser.add_argument(
        "--kafka",
        action="store_true",
        help="run what is explained on Apache Kafka 3.9",
    )
    given = parser.parse_args()
    # Being told to end takes the clusters and suites along, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        wanted = read_suites(given.names)
        if given.kafka:
            _say(kafka.as_table([row for suite in wanted for row in _compare(suite)]))
            return 0
        verdicts = [_run(suite) for suite in wanted]
    except Unusable as fault:
        _say(str(fault))
        return 2
    _say(verdict.table(verdicts))
    if given.json:
        given.json.write_text(json.dumps([v.as_json() for v in verdicts], indent=2) + "\n")
    return 0 if all(v.is_good for v in verdicts) else 1


def _run(suite: Suite) -> verdict.Verdict:
    known = read_explanations(suite.name)
    logs = fetching.CACHE / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    print(f"{suite.name} {suite.version} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="klamm-suites-") as work:
        try:
            first, second, seconds, faults = running.run(suite, known, Path(work), logs)
        except fetching.Absent as fault:
            return verdict.Verdict(suite=suite.name, version=suite.version, absent=str(fault))
    return verdict.judge(
        suite.name, suite.version, first, second, known, seconds=seconds, faults=faults
    )


def _compare(suite: Suite) -> list[tuple[str, str, str, str]]:
    """What becomes of a suite's explained failures on Apache Kafka."""
    known = read_explanations(suite.name)
    logs = fetching.CACHE / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    print(f"{suite.name} {suite.version} on Apache Kafka ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="klamm-suites-") as work:
        try:
            outcomes = running.run_explained(suite, known, Path(work), logs, kafka.kafka)
        except fetching.Absent as fault:
            _say(f"{suite.name} was not run: {fault}")
            return []
    return kafka.comparison(suite.name, known, outcomes)


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
