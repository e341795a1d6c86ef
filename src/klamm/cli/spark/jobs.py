"""Shares the session, the progress bar and the error messages of commands that run on Spark."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from klamm.cli.options import Output
from klamm.cli.parsing.declared import Option
from klamm.cli.reach import Reach, reach_of
from klamm.installing import install_command
from klamm.model.errors import UsageError
from klamm.model.text import printable
from klamm.pipelines.session.lazily import SparkWhenNeeded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from klamm.client.settings import ConnectionOptions
    from klamm.pipelines.jobs.progress import Progress as Watcher

PatienceOption = Annotated[
    float,
    Option(
        metavar="SECONDS",
        min=0,
        envvar="KLAMM_PATIENCE",
        help="how long a running job waits for a broker that does not answer",
    ),
]
GroupBytesOption = Annotated[
    int | None,
    Option(
        "--group-bytes",
        metavar="BYTES",
        min=1 << 20,
        help="the most memory one row group of a data file may need [1 GiB]",
    ),
]
DEFAULT_PATIENCE: Final = 120.0

_NAME_MIN: Final = 12
_BAR_MIN: Final = 6
_BAR_MAX: Final = 24
_LINE_EVERY_S: Final = 0.5


class Bar:
    """A bar on standard error: records, bytes, rate, time left. Nothing where nobody looks."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, force_terminal=sys.stderr.isatty())
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def begin(self, what: str, total: int) -> None:
        """A step starts, with a bar of its own."""
        what = printable(what)
        room = bar_room(self._console.width, what, total)
        name = Column(width=room.name, no_wrap=True, overflow="ellipsis")
        self._bar = Progress(
            TextColumn("   {task.description}", markup=False, table_column=name),
            *([BarColumn(bar_width=room.bar)] if room.bar else []),
            TextColumn("{task.completed:,}" + ("/{task.total:,}" if room.of_all else "")),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._bar.start()
        self._task = self._bar.add_task(what, total=total, rate="")

    def reached(self, records: int, size: int) -> None:
        """A step goes on."""
        if self._bar is None:
            return
        elapsed = self._bar.tasks[self._task].elapsed
        rate = f"{records / elapsed:,.0f}/s" if elapsed else ""
        if size:
            rate += f"  {size_text(size)}"
        self._bar.update(self._task, completed=records, rate=rate)

    def end(self) -> None:
        """A step is over."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class ProgressLines:
    """A JSON line on standard error now and then, for whoever runs a command: the console."""

    def __init__(self) -> None:
        self._what = ""
        self._total = 0
        self._told_at = 0.0

    def begin(self, what: str, total: int) -> None:
        """A step starts."""
        self._what, self._total, self._told_at = what, total, 0.0
        self.reached(0, 0)

    def reached(self, records: int, size: int) -> None:
        """A step goes on."""
        now = time.monotonic()
        if records < self._total and now - self._told_at < _LINE_EVERY_S:
            return
        self._told_at = now
        told = {"what": self._what, "done": records, "total": self._total, "bytes": size}
        sys.stderr.write(json.dumps({"klamm_progress": told}) + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """A step is over."""


class BarRoom(NamedTuple):
    """The layout of one line: widths of the name and the bar, and whether the total is shown."""

    name: int
    bar: int
    of_all: bool


def bar_room(width: int, what: str, total: int) -> BarRoom:
    """Numbers come first; a narrow terminal sees less of the bar, the total and the name."""
    indent, rate_and_size, left, gaps = 3, len("1,000,000/s  999.9 MB"), len("0:00:00"), 4
    number = len(f"{total:,}")
    room = width - indent - rate_and_size - left - gaps - number
    of_all = room - number - 1 >= min(len(what), _NAME_MIN)
    room -= number + 1 if of_all else 0
    name = max(min(len(what), room), _NAME_MIN)
    bar = min(room - name, _BAR_MAX)
    return BarRoom(indent + name, bar if bar >= _BAR_MIN else 0, of_all)


def watcher(output: Output) -> Watcher:
    """A bar for people, silence for programs, lines for those that ask for them."""
    from klamm.pipelines.jobs.progress import Silent

    if os.environ.get("KLAMM_PROGRESS") == "json":
        return ProgressLines()
    return Silent() if output is Output.JSON else Bar()


def need_spark(master: str) -> None:
    """Says what is missing: Python's part of Spark, or a Java to run it here."""
    from klamm.pipelines.session.java import use_java
    from klamm.pipelines.session.session import is_connect, require_pyspark
    from klamm.pipelines.session.shared import AUTO, shared_spark

    require_pyspark()
    if is_connect(master) or (master == AUTO and shared_spark() is not None):
        return
    use_java()


@contextlib.contextmanager
def job(master: str, name: str) -> Iterator[SparkSession]:
    """A Spark for one job, or the running one. What fails inside is said in one sentence.

    On this machine Spark starts when something is large enough for it.
    """
    need_spark(master)
    from klamm.pipelines.session.session import check_master, plainly, start

    check_master(master)
    running = _running()
    if running is None and master.startswith(("local", "auto")):
        spark = cast("SparkSession", SparkWhenNeeded(lambda: _started(master, name)))
    else:
        spark = start(master, name=name)
    with interruptible():
        try:
            with plainly():
                yield spark
        finally:
            if running is None:
                spark.stop()


def require_pyarrow() -> None:
    """Says what is missing of what work on columns needs, with or without Spark."""
    for package in ("pyarrow", "numpy"):
        if find_spec(package) is None:
            advice = install_command("spark")
            raise UsageError(f"this needs {package}, which is not installed: `{advice}`")


def _running() -> SparkSession | None:
    """The session of this process; where nothing has imported PySpark, there is none."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _started(master: str, name: str) -> SparkSession:
    from klamm.pipelines.session.session import refuse_speculation, start

    spark = start(master, name=name)
    refuse_speculation(spark)
    return spark


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM end the job without a word, and with everything put back.

    Spark's own handler asks the JVM to cancel in the middle of another question to it, which fails
    with pages of text; stopping Spark, which follows anyway, cancels just as well. Whatever else
    fails after the signal is its consequence.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []

    def hear(number: int, _frame: object) -> None:
        heard.append(number)
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it tells of each broken connection
        raise _end_of(number)

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    root = logging.getLogger()
    root.addFilter(_is_not_about_the_interruption)
    try:
        yield
    except Exception:
        if heard:
            raise _end_of(heard[0]) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if not heard:
            root.removeFilter(_is_not_about_the_interruption)


def _end_of(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _is_not_about_the_interruption(record: logging.LogRecord) -> bool:
    return "while sending command" not in record.getMessage()


def make_directory(directory: Path) -> None:
    """A place for results, before anything that takes time begins."""
    from klamm.pipelines.places.place import check_writable
    from klamm.pipelines.places.remote import is_address

    if is_address(directory):
        raise UsageError(f"{directory} is an address: name a directory of a mounted file system")
    check_writable(directory)


def look_first(reach: ConnectionOptions, topic: str | None = None) -> None:
    """Starting Spark takes seconds; who mistyped an address or a topic need not wait for it."""
    from klamm.client.blocking.lookup import Lookup
    from klamm.pipelines.source.selection import no_topic

    lookup = Lookup(reach)
    found = lookup.view([] if topic is None else [topic]).topics
    if topic is not None and topic not in found:
        raise no_topic(lookup, [topic])


def connection(reach: Reach | str, *, patience_s: float = DEFAULT_PATIENCE) -> ConnectionOptions:
    """The connection of a job to the cluster, with TLS and a password where properties say so."""
    return reach_of(reach).connection(patience_s=patience_s)


def when(time_ms: int) -> str:
    """A time for people."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def size_text(size: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


def plain(value: Any) -> Any:
    """Values that JSON can hold."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
