"""The processes of a Spark program, by what they are, and how to end them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path


def _parents() -> dict[int, int]:
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(path.name)] = int(after_name[1])
    return found


def below(ancestor: int) -> list[int]:
    """Every process that this one started, or one of those; children come after their parents."""
    parents = _parents()
    found, fresh = [], [ancestor]
    while fresh:
        fresh = [pid for pid, parent in parents.items() if parent in fresh]
        found += fresh
    return found


def command(pid: int) -> str:
    """Its command line; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def jvm(program: subprocess.Popen[bytes]) -> list[int]:
    """The driver's Java."""
    return [pid for pid in below(program.pid) if "deploy.SparkSubmit" in command(pid)]


def executors(ancestor: int) -> list[int]:
    """Java processes that run tasks, among those that this one started."""
    return [pid for pid in below(ancestor) if "CoarseGrainedExecutorBackend" in command(pid)]


def workers(program: subprocess.Popen[bytes]) -> list[int]:
    """Python processes that run a task, or wait for one: children of Spark's daemons."""
    parents = _parents()
    daemons = {pid for pid in below(program.pid) if "pyspark.daemon" in command(pid)}
    return [pid for pid in below(program.pid) if parents.get(pid) in daemons]


def kill(*pids: int) -> None:
    """kill -9."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
