"""Runs jobs as child processes: one queue, two at a time, below one directory.

A child outlives every viewer, but not the console: one that ends takes its children with it, and
the next one finds in their state files what became of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from klamm.console.jobs.job import CANCELLED, FAILED, LOST, RUNNING, Job, revived
from klamm.console.problems import Problem
from klamm.model.errors import UsageError

log = logging.getLogger(__name__)

RUNNING_MAX: Final = 2
WAITING_MAX: Final = 10
KEPT_MAX: Final = 100
LOCAL: Final = "local[*]"
_OUT_MAX: Final = 1 << 20
_LINE_MAX: Final = 1 << 16
_STATE_MAX: Final = 2 << 20
_REPORT_MAX: Final = 32 << 20
_END_S: Final = 15.0
_PACE_S: Final = 0.5
_ID: Final = re.compile(r"[0-9a-f]{12}")


class Jobs:
    """All jobs of one console over one cluster."""

    def __init__(
        self,
        directory: Path,
        reach: tuple[str, ...],
        *,
        masters: tuple[str, ...] = (),
        program: tuple[str, ...] = (sys.executable, "-m", "klamm"),
    ) -> None:
        self.directory = _made(directory)
        self._lock = _locked(self.directory)
        self.masters = (LOCAL, *masters)
        self._reach = reach  # the options by which a child finds the cluster
        self._program = program
        self._jobs: dict[str, Job] = {job.id: job for job in self._remembered()}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._turns = asyncio.Semaphore(RUNNING_MAX)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed: Callable[[], None] = lambda: None
        self._told_at = 0.0

    def on_change(self, call: Callable[[], None]) -> None:
        """Has this called whenever a job has gone on."""
        self._changed = call

    # Looking

    def all(self) -> list[Job]:
        """Every job that is remembered, the newest first."""
        return sorted(self._jobs.values(), key=lambda job: (-job.made_ms, job.id))

    def find(self, id: str) -> Job:
        """One job."""
        if id not in self._jobs:
            raise Problem(404, f"there is no job {id!r}")
        return self._jobs[id]

    def report(self, job: Job) -> bytes:
        """The page of an audit."""
        if job.report is None:
            raise Problem(404, "this job has no report")
        path = self.directory / job.report
        inside = path.resolve().is_relative_to(self.directory.resolve())
        if not inside or path.is_symlink() or not path.is_file():
            raise Problem(404, "the report is not there")
        with path.open("rb") as file:
            data = file.read(_REPORT_MAX + 1)
        if len(data) > _REPORT_MAX:
            raise Problem(413, f"the report is larger than {_REPORT_MAX} bytes: {path}")
        return data

    def fault(self, topic: str | None) -> str | None:
        """Why no job about this topic can be taken now."""
        waiting = [job for job in self._jobs.values() if not job.is_over]
        if len(waiting) >= RUNNING_MAX + WAITING_MAX:
            return f"{len(waiting)} jobs wait already; wait until one has ended, or cancel one"
        for job in waiting:
            if topic is not None and job.topic == topic:
                return f"another job is about {topic}: {job.title}, which is {job.state}"
        return None

    # Doing

    def new_id(self) -> str:
        """An id for a job to come."""
        return secrets.token_hex(6)

    def start(self, job: Job) -> None:
        """Puts a job at the end of the queue."""
        if (fault := self.fault(job.topic)) is not None:
            raise Problem(422, fault)
        job.made_ms = _now_ms()
        self._jobs[job.id] = job
        self._keep(job)
        self._forget()
        self._tasks[job.id] = asyncio.create_task(self._live(job), name=f"job {job.id}")
        self._changed()

    async def cancel(self, id: str) -> None:
        """Ends a job: its command is asked to end, and ended if it does not."""
        job = self.find(id)
        if job.is_over:
            raise Problem(422, f"{job.title} has ended: {job.state}")
        job.state = CANCELLED
        process = self._processes.get(id)
        if process is None:  # it had not begun
            self._tasks[id].cancel()
            job.ended_ms = _now_ms()
            self._keep(job)
        else:
            _signal(process, signal.SIGTERM)
        self._changed()

    async def close(self) -> None:
        """Ends every child; what they were doing is remembered as lost."""
        for id, task in self._tasks.items():
            if id not in self._processes:
                task.cancel()  # a turn that becomes free must not begin another
        for id, process in self._processes.items():
            self._jobs[id].state = LOST
            _signal(process, signal.SIGTERM)
        if self._processes:
            ends = [asyncio.create_task(p.wait()) for p in self._processes.values()]
            await asyncio.wait(ends, timeout=_END_S)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await asyncio.sleep(0)  # the pipes are closed in the loop's next turn
        self._lock.close()

    async def _live(self, job: Job) -> None:
        try:
            async with self._turns:
                await self._run(job)
        except asyncio.CancelledError:
            raise
        except Exception as fault:  # one job that cannot be run must not end the others
            log.exception("a job cannot be run", extra={"job": job.id})
            job.said.append(str(fault) or type(fault).__name__)
            job.state, job.ended_ms = FAILED, _now_ms()
        finally:
            self._tasks.pop(job.id, None)
        self._keep(job)
        self._changed()

    async def _run(self, job: Job) -> None:
        job.state, job.began_ms = RUNNING, _now_ms()
        self._keep(job)
        self._changed()
        process = await asyncio.create_subprocess_exec(
            *self._program,
            *_before_names(job.words, () if job.offline else self._reach),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.directory,
            env=os.environ | {"KLAMM_PROGRESS": "json", "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            limit=_LINE_MAX,
        )
        self._processes[job.id] = process
        assert process.stdout is not None, "they were asked for"
        assert process.stderr is not None, "they were asked for"
        try:
            async with asyncio.TaskGroup() as tasks:
                heard = tasks.create_task(self._hear(process.stderr, job))
                out = tasks.create_task(_read(process.stdout))
                code = await self._ended(process, job)
                # What a command leaves behind, such as a Java, may hold its pipes.
                _signal(process, signal.SIGKILL)
                await asyncio.wait([heard, out], timeout=_END_S)
                heard.cancel()
            told = out.result() if out.done() and not out.cancelled() else b""
            job.end(code, told.decode("utf-8", "replace"), _now_ms())
        except asyncio.CancelledError:
            _signal(process, signal.SIGKILL)
            raise
        finally:
            del self._processes[job.id]
            # What holds the pipes may live on; asyncio has no other word for letting go of them.
            process._transport.close()  # type: ignore[attr-defined]

    async def _ended(self, process: asyncio.subprocess.Process, job: Job) -> int:
        """The exit code; one that does not heed its end is given no more than some seconds."""
        end = asyncio.create_task(process.wait())
        left_s = _END_S
        while not end.done():
            await asyncio.wait([end], timeout=1.0)
            if job.state == CANCELLED:
                left_s -= 1.0
                if left_s <= 0:
                    _signal(process, signal.SIGKILL)
        return end.result()

    async def _hear(self, stream: asyncio.StreamReader, job: Job) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the limit: the buffer was emptied
                continue
            if not line:
                return
            job.hear(line.decode("utf-8", "replace"), _now_ms())
            if time.monotonic() - self._told_at > _PACE_S:
                self._told_at = time.monotonic()
                self._changed()

    # State files

    def _state(self, id: str) -> Path:
        return self.directory / "state" / f"{id}.json"

    def _keep(self, job: Job) -> None:
        path = self._state(job.id)
        new = path.with_suffix(".new")
        try:
            new.write_text(json.dumps(job.kept()), encoding="utf-8")
            new.replace(path)
        except OSError as fault:
            log.warning("the state of a job cannot be kept: %s", fault)

    def _remembered(self) -> list[Job]:
        found = []
        for path in self.directory.joinpath("state").iterdir():
            if path.suffix != ".json" or not _ID.fullmatch(path.stem) or path.is_symlink():
                continue
            try:
                if path.stat().st_size > _STATE_MAX:
                    continue
                job = revived(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                log.warning("a job's state cannot be read", extra={"file": str(path)})
                continue
            if job.id == path.stem:
                found.append(job)
        return sorted(found, key=lambda job: job.made_ms)[-KEPT_MAX:]

    def _forget(self) -> None:
        over = [job for job in self.all() if job.is_over]
        for job in over[KEPT_MAX:]:
            del self._jobs[job.id]
            with contextlib.suppress(OSError):
                self._state(job.id).unlink()


def _before_names(words: tuple[str, ...], reach: tuple[str, ...]) -> tuple[str, ...]:
    """The address of the cluster before the names, which stand behind `--`."""
    at = words.index("--") if "--" in words else len(words)
    return (*words[:at], *reach, *words[at:])


def _made(directory: Path) -> Path:
    try:
        for each in (directory, directory / "state"):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise UsageError(f"--jobs-dir: {fault}") from fault
    return directory.absolute()


def _locked(directory: Path) -> IO[str]:
    """Two consoles over one directory would take each other's jobs for lost."""
    file = (directory / "lock").open("w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise UsageError(f"--jobs-dir: another console uses {directory}") from None
    return file


async def _read(stream: asyncio.StreamReader) -> bytes:
    """All that a command prints, up to a bound; the rest is read and let go."""
    found = bytearray()
    while block := await stream.read(1 << 16):
        if len(found) < _OUT_MAX:
            found += block
    return bytes(found[:_OUT_MAX])


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """To the command and to whatever it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
