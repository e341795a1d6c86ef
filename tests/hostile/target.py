"""The cluster under attack: `klamm up` as a process, with a healthy user beside it.

`KLAMM_HOSTILE_SRC` names another source tree to attack, so that two versions can be compared with
the same attacks: only the cluster's own process uses it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hostile import bombs
from hostile.healthy import User
from hostile.raw import Address, ask, controller_of, create, describe, leader_of
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import list_offsets, produce

TOPIC: Final = "healthy"
PARTITIONS: Final = 6
SETTLE_S: Final = 90.0
READY_S: Final = 60.0
_MB: Final = 1 << 20
_PROGRAM: Final = """
import sys
{before}
from klamm.cli.__main__ import main
sys.exit(main())
"""
# Lines that repeat are counted and not written; who looks for faults wants to see every one.
_EVERY_LINE: Final = """
try:
    from klamm.repeats import Repeats
    Repeats.filter = lambda self, record: True
except ImportError:
    pass
"""
# A disk that is busy with other things: each new directory takes its time.
_BUSY_DISK: Final = """
import os, time
_mkdir = os.mkdir
os.mkdir = lambda *a, **kw: (time.sleep({ms} / 1000), _mkdir(*a, **kw))[1]
"""


@dataclass
class Sample:
    """One round trip of the healthy user."""

    began: float
    took_s: float
    partition: int
    offset: int
    value: str
    faults: list[str]

    @property
    def ended(self) -> float:
        return self.began + self.took_s


@dataclass
class Seen:
    """What an attack did to everybody else."""

    seconds: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    memory_mb: float = 0.0
    errors: list[str] = field(default_factory=list)  # of the cluster's log
    alive: bool = True
    answered: bool = True  # the healthy user got through again

    def at(self, share: float) -> float:
        took = sorted(s.took_s for s in self.samples) or [float("inf")]
        return took[min(int(len(took) * share), len(took) - 1)]

    @property
    def max_s(self) -> float:
        return self.at(1.0)

    def summary(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 3),
            "round_trips": len(self.samples),
            "p50_ms": round(self.at(0.5) * 1000, 1) if self.samples else None,
            "p99_ms": round(self.at(0.99) * 1000, 1) if self.samples else None,
            "max_ms": round(self.max_s * 1000, 1) if self.samples else None,
            "memory_mb": round(self.memory_mb, 1),
            "alive": self.alive,
            "answered": self.answered,
            "errors_logged": len(self.errors),
        }


class Target:
    """One running cluster and its healthy user."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        descriptors: int | None = None,
        every_line: bool = True,
        mkdir_ms: int = 0,
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.precious = directory / "precious-7"
        self.log = directory / "log.jsonl"
        self.brokers = brokers
        self.bootstrap = ""
        self.is_dirty = False  # an attack came through: nobody should attack this one again
        self._settings = dict(settings or {})
        self._descriptors = descriptors
        self._before = _EVERY_LINE * every_line
        self._before += _BUSY_DISK.format(ms=mkdir_ms) * (mkdir_ms > 0)
        self._user: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._log_at = 0
        self.samples: list[Sample] = []
        self.process: subprocess.Popen[str]

    # Life

    def start(self, *, user: bool = True) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.precious.mkdir(exist_ok=True)
        (self.precious / "letter").write_text("precious")
        self._launch()
        if user:
            self.warm_up()
            self.start_user()

    def _launch(self) -> None:
        program = _PROGRAM.format(before=self._before)
        command = [sys.executable, "-c", program, "up", "--port", "0"]
        command += ["--brokers", str(self.brokers), "--data", str(self.data)]
        command += ["--log-format", "json"]
        for name, value in self._settings.items():
            command += ["-X", f"{name}={value}"]
        if self._descriptors is not None:
            limit = f'ulimit -n {self._descriptors}; exec "$@"'
            command = ["sh", "-c", limit, "sh", *command]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment()
            )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], READY_S)
        assert ready, f"klamm up was not ready in {READY_S:g} s"
        line = self.process.stdout.readline()
        assert line.startswith("ready bootstrap="), (line, self.log.read_text()[-2000:])
        self.bootstrap = line.split()[1].removeprefix("bootstrap=")

    def start_user(self) -> None:
        """Begin the healthy user's round trips and wait for the first ones."""
        if TOPIC not in {t.name for t in describe(self.address()).topics}:
            assert create(self.address(), TOPIC, PARTITIONS, min(3, self.brokers)) == 0
        script = Path(__file__).with_name("healthy.py")
        self._user = subprocess.Popen(
            [sys.executable, str(script), self.bootstrap, TOPIC], stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read_user, args=(self._user,), daemon=True)
        self._reader.start()
        self.wait(lambda: len(self.samples) > 2 * PARTITIONS, "the healthy user starts", 60)

    def warm_up(self) -> None:
        """Have the cluster load what it loads once, so that no attack is charged for it."""
        address = self.address()
        create(address, "warm", configs={"cleanup.policy": "compact"})
        at = leader_of(address, "warm")
        batch = bombs.counted_records(5000, keyed=True)
        data = produce.TopicProduceData("warm", [produce.PartitionProduceData(0, batch)])
        asked = list_offsets.ListOffsetsPartition(0, timestamp=bombs.BASE_TIME + 500)
        for _ in range(5):
            request = produce.Request(acks=1, timeout_ms=5000, topic_data=[data])
            ask(at, ApiKey.PRODUCE, 9, request)
            topics = [list_offsets.ListOffsetsTopic("warm", [asked])]
            ask(at, ApiKey.LIST_OFFSETS, 4, list_offsets.Request(-1, 0, topics))
        deadline, last = time.monotonic() + 20, 0.0
        while time.monotonic() < deadline and abs(self.memory_mb() - last) > 1:
            last = self.memory_mb()
            time.sleep(0.4)

    def stop_user(self) -> None:
        if self._user is not None:
            self._user.kill()
            self._user.wait()
            assert self._reader is not None
            self._reader.join()
            assert self._user.stdout is not None
            self._user.stdout.close()
            self._user = None

    def stop(self, *, patience_s: float = 30) -> int:
        """A controlled end; the exit code."""
        self.stop_user()
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return -9

    def restart(self, **kw: Any) -> int:
        """Stop in a controlled way and start on the same data; the exit code of the stop."""
        code = self.stop(**kw)
        self._close_pipes()
        self._launch()
        return code

    def kill(self) -> None:
        self.stop_user()
        self.process.kill()
        self.process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read_user(self, user: subprocess.Popen[str]) -> None:
        assert user.stdout is not None
        for line in user.stdout:
            with suppress(ValueError):
                self.samples.append(Sample(**json.loads(line)))

    # Facts

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def address(self, broker: int = 0) -> Address:
        return Address.parse(self.bootstrap.split(",")[broker])

    @property
    def addresses(self) -> list[Address]:
        return [Address.parse(text) for text in self.bootstrap.split(",")]

    def controller(self) -> Address:
        return controller_of(self.address())

    def leaders(self) -> dict[int, int]:
        """Who leads the healthy user's partitions, as broker 0 tells."""
        told = describe(self.address(), TOPIC)
        return {p.partition_index: p.leader_id for p in told.topics[0].partitions}

    def new_errors(self) -> list[str]:
        """Lines of the log since the last call that tell of a fault in the cluster."""
        with self.log.open("rb") as log:
            log.seek(self._log_at)
            text = log.read()
            self._log_at = log.tell()
        return [line for line in text.decode(errors="replace").splitlines() if _is_fault(line)]

    def memory_mb(self) -> float:
        """What the process and its children take, pages that they share counted once."""
        return sum(_pss(pid) for pid in _family(self.process.pid)) / _MB

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def precious_is_whole(self) -> bool:
        letter = self.precious / "letter"
        return letter.is_file() and letter.read_text() == "precious"

    def foreign_files(self) -> list[str]:
        """What stands beside the data directory and is not ours."""
        known = {self.data.name, self.precious.name, self.log.name}
        return sorted(p.name for p in self.directory.iterdir() if p.name not in known)

    def lost_records(self) -> list[Sample]:
        """Acknowledged records of the healthy user that cannot be read (any more)."""
        with closing(User(self.bootstrap, TOPIC)) as user:
            return self._unreadable(user)

    def _unreadable(self, user: User) -> list[Sample]:
        lost = []
        for partition in range(PARTITIONS):
            wanted = {s.offset: s for s in self.samples if s.partition == partition}
            at = min(wanted, default=0)
            while wanted and at <= max(wanted):
                found = user.read(partition, at, max_bytes=8 << 20)
                for record in found:
                    sample = wanted.get(record.offset)
                    if sample is not None and record.value == sample.value.encode():
                        del wanted[record.offset]
                if not found:
                    break
                at = found[-1].offset + 1
            lost += wanted.values()
        return lost

    def wait(self, is_true: Any, what: str, patience_s: float = 30) -> None:
        """Wait until something is so; nobody tells, so it is asked often."""
        deadline = time.monotonic() + patience_s
        while not is_true():
            assert time.monotonic() < deadline, f"waited {patience_s:g} s: {what}"
            assert self.is_alive, f"the cluster died, waiting: {what}"
            time.sleep(0.02)

    @contextmanager
    def watched(self, *, settle_s: float = SETTLE_S) -> Iterator[Seen]:
        """Watch everybody else while the body attacks, until the healthy user is through again."""
        seen = Seen()
        self.new_errors()
        began = time.monotonic()
        with _MemoryWatch(self) as memory:
            try:
                yield seen
            finally:
                ended = time.monotonic()
                seen.seconds = ended - began
                seen.answered = self._answers_again(ended, settle_s)
        seen.samples = [s for s in list(self.samples) if s.ended > began]
        seen.memory_mb = memory.growth_mb
        seen.errors = self.new_errors()
        seen.alive = self.is_alive
        self.is_dirty = self.is_dirty or bool(seen.errors) or not (seen.alive and seen.answered)

    def _answers_again(self, since: float, patience_s: float) -> bool:
        """Whether each partition of the healthy user had a round trip since."""
        if self._user is None:
            return True
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and self.is_alive:
            later = {s.partition for s in self.samples[-50:] if s.began > since}
            if len(later) == PARTITIONS:
                return True
            time.sleep(0.02)
        return False


class _MemoryWatch:
    """The highest memory of a target while the body runs."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.before = 0.0
        self.highest = 0.0

    @property
    def growth_mb(self) -> float:
        return max(self.highest - self.before, 0.0)

    def __enter__(self) -> _MemoryWatch:
        pid = self._target.process.pid
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the high-water mark starts anew
        self.before = self._target.memory_mb()
        self._resident = _status_mb(pid, "VmRSS:")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        peak = _status_mb(self._target.process.pid, "VmHWM:") - self._resident
        self.highest = max(self.highest, self.before + peak)

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            self.highest = max(self.highest, self._target.memory_mb())


def environment() -> dict[str, str]:
    """The environment of the cluster's process."""
    source = os.environ.get("KLAMM_HOSTILE_SRC")
    return {**os.environ, "PYTHONPATH": source} if source else dict(os.environ)


def command(*args: str, patience_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a `klamm` command of the version under attack."""
    return subprocess.run(
        [sys.executable, "-m", "klamm.cli", *args],
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
        env=environment(),
    )


@contextmanager
def target(directory: Path, *, user: bool = True, **kw: Any) -> Iterator[Target]:
    """A cluster that is gone afterwards, whatever happens."""
    running = Target(directory, **kw)
    try:
        running.start(user=user)
        yield running
    finally:
        if hasattr(running, "process"):
            running.kill()


def _is_fault(line: str) -> bool:
    try:
        entry = json.loads(line)
    except ValueError:
        return bool(line.strip())  # a traceback that went past the log
    return entry.get("level") in ("ERROR", "CRITICAL") or "exception" in entry


def _family(pid: int) -> Sequence[int]:
    found = [pid]
    for parent in found:
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _pss(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _status_mb(pid: int, name: str) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
    return 0.0
