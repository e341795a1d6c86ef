"""A Spark session for klamm's own jobs, and for users who have none yet."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from klamm.client.addresses import parse_bootstrap
from klamm.installing import install_command
from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.session.java import use_java
from klamm.pipelines.session.lazily import SparkWhenNeeded
from klamm.pipelines.session.shared import AUTO, HERE, join, require_connect, shared_spark
from klamm.pipelines.session.versions import PYSPARK_MIN, is_too_old

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What jobs on a laptop want: no web pages, no second copy of a running task.
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.driver.memory": "1g",
}

_ADVICE: Final = f"`{install_command('spark')}`"
_CONNECT_PORT: Final = 15002
_MASTER: Final = re.compile(r"auto|local(\[.+\])?|local-cluster\[.+\]|(spark|sc|k8s)://.+|yarn")


def start(
    master: str = "local[*]", *, name: str = "klamm", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Starts Spark, or takes the running one, with the source registered.

    The master `auto` is the Spark that `klamm spark serve` runs, or else this machine.
    """
    require_pyspark()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    if master == AUTO:
        if found := shared_spark():
            spark = join(found, settings or {})
            register(spark)
            return spark
        master = HERE
    if is_connect(master):
        check_master(master)
        return _connected(master, settings or {})
    use_java()
    check_master(master)
    # Workers run the same Python; without this they take whatever `python3` is on the path.
    os.environ.setdefault("PYSPARK_PYTHON", _python(master))
    if "SPARK_HOME" not in os.environ:
        os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark_conf"))
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(name)
    shuffle = {"spark.sql.shuffle.partitions": str(_shuffle_tasks(master))}
    for key, value in {**_SETTINGS, **shuffle, **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as fault:
        if fault.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise KlammError("Spark did not start: what Java said about it stands above") from None
    register(spark)
    return spark


def require_pyspark() -> None:
    """Says what is missing of Python's part of Spark."""
    for package in ("pyspark", "pyarrow", "pandas"):
        if find_spec(package) is None:
            raise UsageError(f"this needs Spark, and {package} is not installed: {_ADVICE}")
    found = _pyspark_version()
    if is_too_old(found):
        wanted = "PySpark {}.{}".format(*PYSPARK_MIN)
        raise UsageError(f"this needs {wanted} or newer, and {found} is installed: {_ADVICE}")


def _pyspark_version() -> str:
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:  # not from a package: that of a Spark's own directory
        from pyspark import __version__

        return str(__version__)


def is_connect(master: str) -> bool:
    """Whether this is a server of Spark Connect, which needs no Java on our side."""
    return master.startswith("sc://")


def _connected(address: str, settings: Mapping[str, str]) -> SparkSession:
    """A session of Spark Connect: no Java here, and the server's settings unless others are given.

    The server's Python must have klamm installed.
    """
    from pyspark.sql import SparkSession

    require_connect()
    builder = SparkSession.builder.remote(address)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _python(master: str) -> str:
    """This Python, on this machine by way of a script that spares Spark's processes a second each.

    The script says how. It is left out where another Spark than the installed one is asked for.
    """
    script = Path(__file__).parent / "spark_bin" / "python"
    if not master.startswith("local") or "SPARK_HOME" in os.environ:
        return sys.executable
    if not os.access(script, os.X_OK):
        return sys.executable
    import pyspark

    os.environ["KLAMM_PYTHON"] = sys.executable
    os.environ["KLAMM_PYSPARK"] = str(Path(pyspark.__file__).parent)
    return str(script)


def check_master(master: str) -> None:
    """Refuses what Spark would take a minute, or a page, to refuse."""
    if not _MASTER.fullmatch(master):
        raise UsageError(f"{master!r} is no Spark master: write local[2] or spark://host:7077")
    kind, found, places = master.partition("://")
    if not found or kind == "k8s":
        return
    what, faults = "Spark master", []
    if is_connect(master):
        what, places = "Spark Connect", _connect_address(places)
    for place in parse_bootstrap(places):
        try:
            socket.create_connection(place, timeout=10).close()
        except OSError as fault:
            why = (fault.strerror or str(fault)).lower()
            faults.append(f"no {what} answers at {place[0]}:{place[1]}: {why}")
        else:
            return
    raise KlammError("; ".join(faults))


def _connect_address(place: str) -> str:
    """The address in `host:port/;use_ssl=true`, of which all but the host may be left out."""
    address = place.partition("/")[0]
    return address if re.search(r":\d+$", address) else f"{address}:{_CONNECT_PORT}"


def _shuffle_tasks(master: str) -> int:
    """As many as can run at once: more would only wait, and a stream starts them all each time."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master)
    if local is None:
        return 8
    cores = os.cpu_count() or 1
    return max(2, cores if local[1] == "*" else int(local[1] or 1))


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """Turns Spark's page-long failures into the sentence that one of our tasks ended with."""
    try:
        yield
    except Exception as fault:
        # By name: a job that is done without Spark does not pay for importing it.
        if not {"PySparkException", "Py4JJavaError"} & {c.__name__ for c in type(fault).__mro__}:
            raise
        raise KlammError(plain_fault(str(fault))) from fault


def plain_fault(text: str) -> str:
    """The sentence in a failure of Spark: that of our own error, or its first line."""
    if own := _own_sentence(text):
        return own
    if "No space left on device" in text:
        return "the disk is full: free some room and run again"
    if missing := re.search(r"^ModuleNotFoundError: No module named '(\w+)", text, re.MULTILINE):
        return (
            f"the Python that runs Spark's tasks has no {missing[1]}: install it where they run, "
            "or send klamm along as a zip (spark.submit.pyFiles)"
        )
    return _last_words(text) or text.strip().splitlines()[0]


def _last_words(text: str) -> str | None:
    """The last line of a Python traceback in a failure of Spark."""
    _, found, trace = text.rpartition("Traceback (most recent call last):\n")
    ends = re.search(r"^\w[\w.]*: .+$", trace, re.MULTILINE)
    return ends[0] if found and ends else None


def _own_sentence(text: str) -> str | None:
    own = re.findall(r"^\s*klamm\.[\w.]+: (.+)$", text, re.MULTILINE)
    return own[-1].strip() if own else None


def say_plainly() -> None:
    """For somebody at a prompt: klamm's errors are a sentence, all others what they were."""

    def hook(kind: type[BaseException], fault: BaseException, trace: TracebackType | None) -> None:
        own = str(fault) if isinstance(fault, KlammError) else _own_sentence(str(fault))
        if own is None:
            sys.__excepthook__(kind, fault, trace)
        else:
            sys.stderr.write(f"klamm: {own}\n")

    sys.excepthook = hook


def refuse_speculation(spark: SparkSession) -> None:
    """Jobs whose tasks write must not have two copies of a task running at once."""
    if isinstance(spark, SparkWhenNeeded):
        return  # asked when it starts
    if spark.conf.get("spark.speculation", "false") == "true":
        raise UsageError("set spark.speculation=false: a task must not write twice at once")


def register(spark: SparkSession) -> None:
    """Makes `format("klamm")` known, whatever other packages do to Spark's own discovery."""
    from pyspark.errors import AnalysisException

    from klamm.pipelines.source.datasource import KlammDataSource

    _use_this_python(spark)
    try:
        with _active(spark):
            spark.dataSource.register(KlammDataSource)
    except AnalysisException as fault:
        # A session made from another one may have it already.
        if fault.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _use_this_python(spark: SparkSession) -> None:
    """Has a Spark on this machine run the Python that is running, which has klamm.

    Unless it was told one, Spark takes the first `python3` on the path, and that of a virtualenv
    which is not activated is not there.
    """
    if "PYSPARK_PYTHON" in os.environ or not hasattr(spark, "_jsparkSession"):
        return
    context = spark.sparkContext
    was_told = context.getConf().contains("spark.pyspark.python")
    if not was_told and (context.master or "").startswith("local"):
        context.pythonExec = os.environ["PYSPARK_PYTHON"] = sys.executable


@contextlib.contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Makes a session the one that Spark asks whether a name is taken: not itself, by default."""
    if not hasattr(spark, "_jsparkSession"):
        yield  # a client of Spark Connect has but one
        return
    sessions = spark._get_j_spark_session_class(spark._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def read_stream(
    spark: SparkSession, bootstrap: str, topics: str, *, checkpoint: str | Path, **options: str
) -> DataFrame:
    """A stream whose first offsets are kept beside the checkpoint.

    Spark does not keep the start of the first micro-batch. With `startingOffsets=latest`, records
    that arrive before it has succeeded would be lost by a restart.
    """
    register(spark)
    first = Path(str(checkpoint).removeprefix("file:")) / "klamm-initial.json"
    return (
        spark.readStream.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topics)
        .option("initialOffsetsPath", str(first))
        .options(**options)
        .load()
    )
