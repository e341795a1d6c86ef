"""What a measurement is, and a cluster to take it on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory


@dataclass(frozen=True, slots=True)
class Measure:
    """One number, and what it should be where somebody said so."""

    name: str
    what: str
    unit: str
    run: Callable[[], float]
    goal: float | None = None
    less_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Running:
    """A `klamm up` that is ready."""

    bootstrap: str
    pid: int
    data: Path
    ready_s: float  # from the start of the process to its ready line


@contextmanager
def cluster(*args: str, brokers: int = 3) -> Iterator[Running]:
    """A cluster of its own process on free ports and temporary data."""
    with TemporaryDirectory(prefix="klamm-bench-") as data:
        command = [sys.executable, "-m", "klamm.cli", "up", "--port", "0", "--data", data]
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--brokers", str(brokers), *args], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            ready_s = time.perf_counter() - started
            if not line.startswith("ready bootstrap="):
                raise SystemExit("the cluster did not start")
            yield Running(line.strip().split("=", 1)[1], process.pid, Path(data), ready_s)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def until(holds: Callable[[], bool], timeout_s: float = 120.0) -> None:
    """Look again until it holds."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit("it did not come to hold in time")
        time.sleep(0.002)
