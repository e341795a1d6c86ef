"""Processes that die at a chosen step of their work, by `kill -9` or a kinder signal.

A step is a place in klamm's code that changes something which outlives the process: a file gets its
name or goes, a broker is asked to change something, Spark has written a table. Steps are found by
watching a whole run, so that a new one is found by itself: Python tells about files (audit hooks),
and the two methods through which every request goes are watched. One place that is passed several
times, as in a loop, is one step; reached by another way it is another.

The process is a fork of a fresh server that has imported everything. It drives the Spark of the
tests, so that a death costs no JVM.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from itertools import pairwise
from multiprocessing import forkserver
from pathlib import Path
from types import FrameType
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from klamm.client.aio.connection import Connection
from klamm.client.blocking.wire import Wire
from klamm.pipelines.jobs.progress import Silent
from klamm.pipelines.tables import task
from klamm.pipelines.tables.formats import iceberg_place, parquet
from klamm.protocol.apis import ApiKey

Gateway = tuple[int, str]
Job = Callable[..., None]

CHANGING = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    }
)
_FILES = ("os.rename", "os.remove", "shutil.rmtree")
_ROOMS = frozenset({("klamm", "pipelines"), ("klamm", "cli")})
_LANDMARKS: tuple[tuple[Any, str, str], ...] = (
    (task, "write_file", "write_file"),
    (parquet, "put_if_absent", "put_if_absent"),
    (iceberg_place, "put_if_absent", "put_if_absent"),
    (DeltaTable, "create_write_transaction", "committed"),
)
_SHARED = ("writing.py", "progress.py")  # everybody passes through these

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(
    [
        "spark.dying_jobs",
        # What a command imports when it is run.
        *(f"klamm.cli.spark.{name}" for name in ("archive", "audit", "restore", "table")),
        "klamm.cli.topics.topics",
        *(f"klamm.pipelines.archive.{name}" for name in ("archiving", "restoring")),
        "klamm.pipelines.audit.report",
        "klamm.pipelines.tables.following",
        "klamm.pipelines.tables.formats.opening",
        "klamm.pipelines.session.session",
        "pandas",
    ]
)


def _start_server() -> None:
    """By itself it looks for what it shall import where a new Python looks, and is silent about
    what it does not find: then every fork would import it all."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


class Steps:
    """Writes each step of this process down, and ends it before the one it must not survive."""

    def __init__(
        self, notes: Path, deadly: str | None, number: signal.Signals = signal.SIGKILL
    ) -> None:
        self._notes = notes
        self._place = f"{notes.parent}/"  # other files are Spark's own
        self._deadly = deadly
        self._number = number
        self._seen: set[str] = set()

    def watch(self) -> None:
        """From now on."""
        sys.addaudithook(self._on_event)
        Silent.reached = lambda *_: self._on_progress()  # type: ignore[method-assign]
        post, exchange = Wire.post, Connection.exchange

        def posted(wire: Wire, key: int, *rest: Any) -> None:
            self._on_request(key)
            post(wire, key, *rest)

        async def exchanged(connection: Connection, key: int, *rest: Any, **more: Any) -> Any:
            self._on_request(key)
            return await exchange(connection, key, *rest, **more)

        for owner, name, told in _LANDMARKS:
            setattr(owner, name, self._watched(getattr(owner, name), told))
        Wire.post = posted  # type: ignore[method-assign]
        Connection.exchange = exchanged  # type: ignore[method-assign, assignment]

    def _watched(self, work: Callable[..., Any], told: str) -> Callable[..., Any]:
        """What changes something in a way that Python does not tell: a step before, one after."""

        def watched(*args: Any, **more: Any) -> Any:
            self.reached(told)
            found = work(*args, **more)
            self.reached(f"after {told}")
            return found

        return watched

    def reached(self, what: str) -> None:
        """The process is about to do this."""
        way = _way(sys._getframe(1))
        step = f"{what} at {way}"
        if not way or step in self._seen:
            return
        self._seen.add(step)
        count = sum(seen.startswith(f"{what} at ") for seen in self._seen)
        if self._deadly in (step, f"{what} #{count}"):
            os.kill(os.getpid(), self._number)
        with self._notes.open("a") as notes:
            notes.write(f"{step}\n")

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _FILES:
            return
        path = str(args[0])
        # A draft that goes is no news, and what is not there does not go.
        is_news = event == "os.rename" or not path.endswith(".draft")
        if is_news and path.startswith(self._place) and os.path.exists(path):
            self.reached(event)

    def _on_progress(self) -> None:
        # Tasks name their files themselves; an audit's tables are written by the JVM.
        if sys._getframe(2).f_code.co_filename.endswith("judging.py"):
            self.reached("a table")

    def _on_request(self, key: int) -> None:
        if key in CHANGING:
            self.reached(ApiKey(key).name)


def _way(frame: FrameType | None) -> str:
    """How the code of klamm came here."""
    places = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if _ROOMS & set(pairwise(path.parts)) and path.name not in _SHARED:
            places.append(f"{path.name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(places)


def run(
    job: Job,
    notes: Path,
    *args: Any,
    deadly: str | None = None,
    number: signal.Signals = signal.SIGKILL,
) -> list[str]:
    """Runs a job in a process of its own; its steps, or those before the one it died at.

    A deadly step is one that another run has told, or the n-th of its kind: `os.rename #2`.
    """
    notes.write_text("")
    _start_server()
    process = _server.Process(target=_begin, args=(job, notes, deadly, number, args))
    process.start()
    process.join(120)
    said = notes.with_suffix(".fault")
    if deadly is None:
        assert process.exitcode == 0, said.read_text() if said.exists() else process.exitcode
    else:
        wanted = -number if number is signal.SIGKILL else 128 + number
        assert process.exitcode == wanted, (deadly, process.exitcode)
    process.close()
    return notes.read_text().splitlines()


def _begin(
    job: Job, notes: Path, deadly: str | None, number: signal.Signals, args: tuple[Any, ...]
) -> None:
    Steps(notes, deadly, number).watch()
    try:
        job(*args)
    except BaseException:
        notes.with_suffix(".fault").write_text(traceback.format_exc())
        raise


def gateway_of(spark: SparkSession) -> Gateway:
    """How another process reaches the Spark of this one."""
    parameters = spark.sparkContext._gateway.gateway_parameters
    return parameters.port, parameters.auth_token


def session_at(gateway: Gateway) -> SparkSession:
    """The Spark of another process, driven from this one, in a session of its own."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    os.environ["PYSPARK_PYTHON"] = sys.executable  # the server may be older than that Spark
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = map(str, gateway)
    jvm = (opened := launch_gateway()).jvm
    running = jvm.org.apache.spark.SparkContext.getOrCreate()
    java = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(running)
    conf = SparkConf(_jvm=jvm, _jconf=java.getConf())
    context = SparkContext(gateway=opened, jsc=java, conf=conf)
    return SparkSession(context, jvm.SparkSession.getDefaultSession().get().newSession())
