"""klamm beside Apache Kafka and others, measured with the same clients in alternating rounds.

    make bench-peers                                     # everything; about an hour
    make bench-peers ARGS="rf3-1mb latency --rounds 2"   # some cells
    make bench-peers ARGS="--minutes 12 --once start"    # later rounds end in time
    make bench-peers ARGS="--list"
    make bench-peers ARGS="rf3-1mb --profile"            # a flame graph of klamm at that work
    make bench-peers ARGS="--render"                     # the page from the newest stored result

Writes `bench/results/peers-<time>.json` and renders docs/reference/benchmarks.md from it.
`--before DIR` measures the klamm of another source tree along. How to read it: bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from maven import Missing
from measure import machine

from peers import clients, page
from peers.cells import CELLS, Cell, Options
from peers.kafka import VERSIONS, Kafka4, Kafka4Single, Kafka39
from peers.rounds import Pace, Reading, cold, live, profiled, say
from peers.systems import Kfake, Klamm, KlammApart, KlammSingle, Mock, System

RESULTS = Path(__file__).parents[1] / "results"
SYSTEMS: tuple[type[System], ...] = (
    Klamm,
    Kafka39,
    Kafka4,
    KlammApart,
    KlammSingle,
    Kafka4Single,
    Kfake,
    Mock,
)


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # so that what was started is ended
    options = _options()
    if options.list:
        for cell in CELLS:
            print(f"{cell.name:<16} {cell.what}")
        print("systems:", ", ".join(kind.name for kind in SYSTEMS))
        return 0
    if options.render is not None:
        return _render(options.render)
    cells = _chosen(options.cells, CELLS)
    how = Options(seconds=options.seconds, latency_seconds=max(4.0, 3 * options.seconds))
    with tempfile.TemporaryDirectory(prefix="klamm-peers-", dir=options.data) as data:
        if options.profile:
            out = Path(f"profile-{cells[0].name}.svg").resolve()
            profiled(cells[0], Path(data), how, out)
            print(out)
            return 0
        return _measure(cells, options, how, Path(data))


def _measure(cells: list[Cell], options: argparse.Namespace, how: Options, data: Path) -> int:
    systems = list(_chosen(_named(options.systems), SYSTEMS))
    if options.before:
        source = Path(options.before).resolve() / "src"
        made = {"name": "klamm-before", "title": "klamm, before", "source": source}
        systems.insert(1, type("KlammBefore", (Klamm,), made))
    result: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%d %H:%M"),
        "machine": machine(),
        "congestion": _congestion_control(),
        "versions": {**VERSIONS, "klamm": version("klamm"), "rdkafka": version("confluent-kafka")},
        "rounds": options.rounds,
        "seconds": options.seconds,
        "warm_s": options.warm,
        "note": options.note,
        "systems": [
            {"name": kind.name, "title": kind.title, "brokers": kind.brokers, "heap": kind.heap}
            for kind in systems
        ],
        "readings": [],
    }
    path = RESULTS / f"peers-{time.strftime('%Y%m%d-%H%M%S')}.json"
    if options.store:
        path = Path(options.store)
    elif options.into:
        path = Path(options.into)
        result = _joined(json.loads(path.read_text()), result)

    def keep(reading: Reading) -> None:
        result["readings"].append(reading)
        path.write_text(json.dumps(result, indent=1) + "\n")

    once = frozenset(cell.name for cell in _chosen(_named(options.once), CELLS) if options.once)
    end = clients.now() + 60 * options.minutes if options.minutes else math.inf
    pace = Pace(options.rounds, once, end)
    cold([cell for cell in cells if cell.is_cold], systems, pace, data, how, keep)
    warm = [cell for cell in cells if not cell.is_cold]
    if warm:
        # Processes of klamm's are there to be killed, unless somebody asks for more.
        up = [kind for kind in systems if kind is not KlammApart or options.systems]
        live(warm, up, pace, options.warm, data, how, keep)
    print(path)
    return 0 if options.no_page or options.store else _render(str(path))


def _congestion_control() -> str:
    """How the machine sends, unless a socket says otherwise."""
    try:
        return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    except OSError:
        return ""


def _joined(before: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """A stored result that takes more readings; systems that are new to it are named in it."""
    known = {each["name"] for each in before["systems"]}
    before["systems"] += [each for each in result["systems"] if each["name"] not in known]
    return before


def _render(given: str) -> int:
    path = Path(given) if given else page.newest(RESULTS)
    for written in page.write(json.loads(path.read_text()), path.name):
        say("wrote", written)
    return 0


def _named(text: str) -> list[str]:
    return text.split(",") if text else []


def _chosen(names: Sequence[str], known: Sequence[Any]) -> list[Any]:
    """Those of these names, or all."""
    unknown = set(names) - {each.name for each in known}
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}; --list names what there is")
    return [each for each in known if not names or each.name in names]


def _options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="make bench-peers", description=__doc__.splitlines()[0], allow_abbrev=False
    )
    add = parser.add_argument
    add("cells", nargs="*", help="which cells; all without a name")
    add("--list", action="store_true", help="what there is")
    add("--systems", default="", help="names with commas; all that can be had without it")
    add("--rounds", type=int, default=3)
    add("--once", default="", help="cells with commas that have a reading in the first round only")
    add("--minutes", type=float, default=0, help="no reading of a later round begins after these")
    add("--seconds", type=float, default=3.0, help="of each throughput cell")
    add("--warm", type=float, default=60.0, help="seconds of work before the first live cell")
    add("--data", default=None, help="where the data goes [the temporary directory]")
    add("--before", default="", help="a source tree whose klamm is measured along")
    add("--note", default="", help="a sentence about the circumstances, for the page")
    add("--into", default="", help="a stored result that takes the readings of this run as well")
    add("--store", default="", help="where the result goes, if it is not for the page")
    add("--no-page", action="store_true", help="store the result and render nothing")
    add("--profile", action="store_true", help="run one cell on klamm under py-spy")
    add("--render", nargs="?", const="", help="render a stored result, the newest by default")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as why:
        sys.exit(str(why))
