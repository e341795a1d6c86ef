"""What a measurement is, and a cluster to take it on."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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


Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Case:
    """Several numbers that belong together, and what some of them should be."""

    name: str
    what: str
    run: Callable[[], Figures]
    goals: Mapping[str, float] = field(default_factory=dict)  # at least
    limits: Mapping[str, float] = field(default_factory=dict)  # at most

    def is_met(self, figures: Figures) -> bool:
        return all(figures[name] >= goal for name, goal in self.goals.items()) and all(
            figures[name] <= limit for name, limit in self.limits.items()
        )


def machine() -> dict[str, object]:
    """Where the numbers come from, and what else went on there."""
    return {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "compiler": platform.python_compiler(),
        "system": platform.system(),
        "load_1_5_15_min": [round(load, 2) for load in os.getloadavg()],
        "data_on": _file_system(tempfile.gettempdir()),
    }


def _file_system(path: str) -> str:
    """The kind of file system a path is on."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(point, kind) for point, kind in mounts if Path(path).is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]))[1]


@dataclass(frozen=True, slots=True)
class Running:
    """A `klamm up` that is ready."""

    bootstrap: str
    pid: int
    data: Path
    ready_s: float  # from the start of the process to its ready line
    ready_cpu_s: float


_MB = 1_000_000
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> tuple[float, float]:
    """The processor time a process has used so far: its own, and the system's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / _TICKS, int(fields[12]) / _TICKS


def family(pid: int) -> list[int]:
    """A process and all that come of it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for each in found:  # grows while we walk it
        found += parents.get(each, [])
    return found


def resident_mb(pid: int) -> float:
    """The memory a process has in use."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


@dataclass(slots=True)
class Meter:
    """Wall time of a stretch of work, and the processor time of the brokers and of this process."""

    pid: int
    wall: float = 0.0
    user: float = 0.0
    system: float = 0.0
    own_cpu: float = 0.0

    def __enter__(self) -> Meter:
        self.user, self.system = cpu_s(self.pid)
        self.own_cpu, self.wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self.wall
        self.own_cpu = time.process_time() - self.own_cpu
        user, system = cpu_s(self.pid)
        self.user, self.system = user - self.user, system - self.system

    @property
    def cpu(self) -> float:
        """The brokers' processor time."""
        return self.user + self.system

    def rates(self, size: int) -> Figures:
        """What moving so many bytes came to."""
        return {
            "mb_per_s": size / self.wall / _MB,
            "mb_per_broker_cpu_s": size / max(self.cpu, 1 / _TICKS) / _MB,
            "mb_per_client_cpu_s": size / self.own_cpu / _MB,
            "broker_cores": self.cpu / self.wall,
            "client_cores": self.own_cpu / self.wall,
        }


@contextmanager
def cluster(*args: str, brokers: int = 3) -> Iterator[Running]:
    """A cluster of its own process on free ports and temporary data."""
    with TemporaryDirectory(prefix="klamm-bench-") as data:
        command = [sys.executable, "-m", "klamm.cli", "up", "--port", "0", "--data", data]
        # As installed: with its bytecode on the disk, whatever this shell is set to.
        env = {name: text for name, text in os.environ.items() if name != _NO_BYTECODE}
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--brokers", str(brokers), *args],
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            ready_s = time.perf_counter() - started
            if not line.startswith("ready bootstrap="):
                raise SystemExit("the cluster did not start")
            ready_cpu_s = sum(cpu_s(process.pid))
            bootstrap = line.removeprefix("ready bootstrap=").split()[0]
            yield Running(bootstrap, process.pid, Path(data), ready_s, ready_cpu_s)
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
