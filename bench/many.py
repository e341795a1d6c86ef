"""Very many partitions on three brokers in one process, RF 1: made, at rest, and back again.

    python bench/many.py                        # 1,000, 20,000 and 100,000
    python bench/many.py 1000 5000 --minutes 2  # others; no size begins after so long
    python bench/many.py 20000 --before ../other-tree/src   # that tree and this one in turns

A neighbour writes one record at a time while they are made. Each size has a cluster of its own,
which is then ended by SIGTERM and by kill -9 and started again. Writes `results/many-<time>.json`.
On a busy machine processor time and memory say something, wall times do not.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from creations import Neighbour
from measure import Figures, machine
from peers.clients import witnesses
from peers.systems import Klamm

RESULTS = Path(__file__).parent / "results"
SIZES = (1_000, 20_000, 100_000)
_WIDTH = 1_000  # partitions of a topic
_LIMIT_S = 180.0
_IDLE_S = 10.0
now = time.perf_counter


def _led(system: Klamm, wanted: int) -> float:
    """Until every broker shows a leader for so many partitions; the moment of it."""
    end = now() + _LIMIT_S
    for witness in witnesses(system).values():
        while True:
            topics = witness.ask().topics
            found = (p for name, p in topics.items() if name.startswith("many-"))
            if sum(lead >= 0 for partitions in found for lead, _ in partitions.values()) >= wanted:
                break
            if now() > end:
                raise TimeoutError("not every partition is led")
            time.sleep(0.1)
        witness.close()
    return now()


def _make(system: Klamm, count: int) -> Figures:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("neighbour", 1, 1)])["neighbour"].result(60)
    time.sleep(1)
    memory, cpu = system.memory_mb(), system.cpu_s()
    with Neighbour(system.bootstrap) as neighbour:
        begun = now()
        width = min(_WIDTH, count)
        wanted = [NewTopic(f"many-{at}", width, 1) for at in range(count // width)]
        for made in admin.create_topics(
            wanted, operation_timeout=_LIMIT_S, request_timeout=_LIMIT_S
        ).values():
            made.result(_LIMIT_S)
        answered = now()
        led = _led(system, count)
    waited = sorted(neighbour.waited_s)
    figures = {
        "answered_s": answered - begun,
        "led_s": led - begun,
        "made_cpu_us_each": 1e6 * (system.cpu_s() - cpu) / count,
        "neighbour_p99_ms": 1000 * waited[int(len(waited) * 0.99)],
        "neighbour_worst_ms": 1000 * waited[-1],
    }
    time.sleep(5)  # what is brought to the disk behind is not rest
    before, at = system.cpu_s(), now()
    time.sleep(_IDLE_S)
    figures["idle_cpu_percent"] = 100 * (system.cpu_s() - before) / (now() - at)
    figures["memory_kb_each"] = 1024 * (system.memory_mb() - memory) / count
    return figures


def _back(system: Klamm, how: int, count: int) -> Figures:
    """Ended in this way, until it serves and until all are led."""
    (process,) = system.processes
    os.kill(process.pid, how)
    begun = now()
    process.wait(_LIMIT_S)
    ended = now()
    system.processes.clear()
    system.start()
    serving = now()
    return {
        "stop_s": ended - begun,
        "serving_s": serving - ended,
        "led_s": _led(system, count) - ended,
        "cpu_us_each": 1e6 * system.cpu_s() / count,
    }


class Before(Klamm):
    """Another source tree."""

    name = "before"


def measured(count: int, data: Path, kind: type[Klamm]) -> Figures:
    system = kind(data)
    try:
        system.prepare()
        system.start()
        figures = _make(system, count)
        for name, how in (("stopped", signal.SIGTERM), ("killed", signal.SIGKILL)):
            found = _back(system, how, count)
            figures |= {f"{name}.{key}": value for key, value in found.items()}
        return figures
    finally:
        system.stop()


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--before", type=Path, help="the source directory of another tree")
    options = parser.parse_args()
    end = now() + 60 * options.minutes
    result: dict[str, object] = {"at": time.strftime("%Y-%m-%d %H:%M"), "machine": machine()}
    path = RESULTS / f"many-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kinds: list[type[Klamm]] = [Klamm]
    if options.before is not None:
        Before.source = options.before.absolute()
        kinds.insert(0, Before)
    for count, kind in [(count, kind) for count in options.sizes for kind in kinds]:
        if now() > end:
            print(f"{count}: no time is left")
            break
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory(prefix="klamm-many-") as data:
            figures = {"load_before": load, **measured(count, Path(data), kind)}
        key = str(count) if kind is Klamm else f"{count} {kind.name}"
        result[key] = {name: float(f"{value:.4g}") for name, value in figures.items()}
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(key, json.dumps(result[key]), flush=True)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
