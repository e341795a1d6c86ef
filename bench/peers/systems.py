"""What is compared: how each is started and ended, and what it costs.

Only processes that were started here are ended, and those by their number. Settings are those a
system ships with, but for the few in `COMMON`, which all have.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from maven import CACHE, Missing
from measure import family

from klamm.app import control
from peers.wire import Witness

HERE: Final = Path(__file__).parent
_HZ: Final = os.sysconf("SC_CLK_TCK")
_FILES: Final = 200_000
COMMON: Final = {
    "log.segment.delete.delay.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",  # as in the file that Kafka ships
    "auto.create.topics.enable": "false",
}
SESSION_MS: Final = "6000"


def _raise_limits() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class System:
    """A cluster. `copies_max` is what a topic of it may have; 0 where it makes no topics."""

    name: ClassVar[str]
    title: ClassVar[str]
    heap: ClassVar[str] = "-"
    brokers: ClassVar[int] = 3
    copies_max: ClassVar[int] = 3
    keeps_records: ClassVar[bool] = True
    may_be_killed: ClassVar[bool] = False  # one broker, and the others live on

    def __init__(self, data: Path) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self.addresses: dict[int, tuple[str, int]] = {}
        self.directory = data / f"{self.name}-{os.getpid()}-{time.monotonic_ns()}"
        self.directory.mkdir(parents=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses.values())

    @property
    def pids(self) -> list[int]:
        return [pid for p in self.processes if p.poll() is None for pid in family(p.pid)]

    def spawn(self, command: list[str], log: str, **options: object) -> subprocess.Popen[str]:
        with (self.directory / f"{log}.log").open("w") as out:
            process = subprocess.Popen(
                command,
                text=True,
                cwd=self.directory,
                preexec_fn=_raise_limits,
                **{"stdout": out, "stderr": subprocess.STDOUT, **options},  # type: ignore[call-overload]
            )
        self.processes.append(process)
        return process

    def prepare(self) -> None:
        """What is no part of a start."""

    def start(self) -> None:
        raise NotImplementedError

    def make_topic(self, name: str, partitions: int) -> bool:
        """Whether a topic was made in a way of the system's own."""
        return False

    def cpu_s(self) -> float:
        """The processor time of all its processes so far."""
        total = 0.0
        for pid in self.pids:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            total += (int(fields[11]) + int(fields[12])) / _HZ
        return total

    def memory_mb(self) -> float:
        """The proportional set size: what processes share is counted once."""
        total = 0
        for pid in self.pids:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        return total / 1024

    def copies_on_disk(self, prefix: str) -> int:
        """How many directories of topics with this prefix there are."""
        found = 0
        for base in (path for path in self.directory.iterdir() if path.is_dir()):
            inner = [p for p in base.iterdir() if p.is_dir() and p.name.startswith("broker")]
            for root in (base, *inner):
                with os.scandir(root) as entries:
                    found += sum(entry.name.startswith(prefix) for entry in entries)
        return found

    def controller(self) -> int:
        witness = Witness(next(iter(self.addresses.values())))
        try:
            return witness.ask().controller
        finally:
            witness.close()

    def kill(self, broker: int) -> None:
        """kill -9 of the process of one broker."""
        raise NotImplementedError

    def stop(self) -> None:
        for pid in self.pids:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        for process in self.processes:
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _read_ready(self, process: subprocess.Popen[str], log: str) -> None:
        """Wait for the line that says where the brokers are."""
        path = self.directory / f"{log}.log"
        while "ready bootstrap=" not in (text := path.read_text()):
            if process.poll() is not None:
                raise Missing(f"{self.name} ended: {text[-500:]}")
            time.sleep(0.002)
        found = text.split("ready bootstrap=")[1].split()[0].split(",")
        for at, address in enumerate(found):
            host, _, port = address.rpartition(":")
            self.addresses[at] = host, int(port)


class Klamm(System):
    name = "klamm"
    title = "klamm"
    words: ClassVar[tuple[str, ...]] = ()
    source: ClassVar[Path | None] = None  # of another tree

    def environment(self) -> Mapping[str, str]:
        """As installed: with bytecode on the disk, whatever this shell is set to."""
        env = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        if self.source is not None:
            env["PYTHONPATH"] = str(self.source)
        return env

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "klamm.cli", *words]

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        settings = COMMON | {"zookeeper.session.timeout.ms": SESSION_MS}
        flags = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
        words = ["--brokers", str(self.brokers), "--port", "0", "--data", str(self.data)]
        command = self.command("up", *words, *self.words, *flags)
        process = self.spawn(command, "klamm", env=self.environment())
        self._read_ready(process, "klamm")


class KlammApart(Klamm):
    """The same with a process a broker, which one can kill."""

    name = "klamm-processes"
    title = "klamm, a process a broker"
    words = ("--processes",)
    may_be_killed = True

    def kill(self, broker: int) -> None:
        found = asyncio.run(control.ask(self.data, "status"))["brokers"]
        os.kill(next(each["pid"] for each in found if each["id"] == broker), 9)


class KlammSingle(Klamm):
    name = "klamm-single"
    title = "klamm, one broker"
    brokers = 1
    copies_max = 1
    words = ("-X", "offsets.topic.replication.factor=1")


class Kfake(System):
    """franz-go's fake: in memory, without copies."""

    name = "kfake"
    title = "kfake"
    copies_max = 1

    def prepare(self) -> None:
        go = shutil.which("go")
        if go is None:
            raise Missing("there is no go on this machine")
        place = CACHE / "peers" / "kfake"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            half = place.with_suffix(".half")
            done = subprocess.run(
                [go, "build", "-mod=mod", "-o", str(half), "."],
                cwd=HERE / "kfake",
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise Missing(f"kfake cannot be built: {done.stderr.strip()[-200:]}")
            half.rename(place)
        self.program = place

    def start(self) -> None:
        self._read_ready(self.spawn([str(self.program)], "kfake"), "kfake")


class Mock(System):
    """librdkafka's mock: in memory, without copies, and it keeps the last few records only."""

    name = "mock"
    title = "librdkafka's mock"
    copies_max = 0
    keeps_records = False

    def start(self) -> None:
        command = [sys.executable, str(HERE / "mock_host.py")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = self.spawn(command, "mock", **pipes)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        for at, address in enumerate(line.split("bootstrap=")[1].split(",")):
            host, _, port = address.rpartition(":")
            self.addresses[at] = host, int(port)

    def make_topic(self, name: str, partitions: int) -> bool:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{name} {partitions}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline() == "made\n"

    def stop(self) -> None:
        super().stop()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
