"""`klamm up` as a process of its own, for tests that start, signal and kill it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

READY_WITHIN = 60.0


class Up:
    """One running `klamm up`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.bootstrap = ""
        self.more: dict[str, str] = {}  # what else the ready line names

    def wait_ready(self) -> None:
        """Read until the ready line; stdout has nothing else."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready bootstrap="), (line, self._stderr())
        self.bootstrap, *more = line.strip().removeprefix("ready bootstrap=").split(" ")
        self.more = dict(part.split("=", 1) for part in more)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, and its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)

    def crash(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(timeout=10)

    def _stderr(self) -> str:
        self.process.kill()
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def up(*args: str, launcher: Sequence[str] = ()) -> Iterator[Up]:
    """Start `klamm up` with these arguments; whatever happens, it is gone afterwards."""
    more = ["--processes"] if os.environ.get("KLAMM_TEST_PROCESSES") else []
    command = [*launcher, sys.executable, "-m", "klamm.cli", "up", *more, *args]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        running = Up(process)
        try:
            running.wait_ready()
            yield running
        finally:
            process.kill()


def refused(*args: str, env: dict[str, str] | None = None) -> str:
    """Run a `klamm up` that must not start: the one sentence it says, with exit code 2."""
    done = subprocess.run(
        [sys.executable, "-m", "klamm.cli", "up", *args],
        capture_output=True,
        text=True,
        timeout=READY_WITHIN,
        check=False,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (sentence,) = done.stderr.splitlines()
    return sentence


def data_args(directory: Path, brokers: int = 3) -> tuple[str, ...]:
    """The arguments for a cluster on free ports that keeps its data here."""
    return ("--port", "0", "--brokers", str(brokers), "--data", str(directory))
