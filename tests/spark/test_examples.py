"""The programs under `examples/`, as a user runs them.

On this machine, killed, and on a Spark cluster.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from .conftest import BRIEF_JVM

Make = Callable[..., str]
Fill = Callable[..., None]
Read = Callable[..., DataFrame]
RunHere = Callable[..., None]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
COUNT = EXAMPLES / "count_by_key.py"


def _environment() -> dict[str, str]:
    """That of somebody who has just come in: what a session set here is set anew."""
    ours = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    return ours | {"PYTHONPATH": str(ROOT / "src")}


@pytest.fixture
def run_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs an example on the Spark that is there already."""

    def run(script: Path, *args: str) -> None:
        monkeypatch.setattr(sys, "argv", [str(script), *args])
        runpy.run_path(str(script), run_name="__main__")

    return run


def test_docs_show_the_program_that_is_tested() -> None:
    program = (EXAMPLES / "count_by_key.py").read_text().split('"""\n\n', 1)[1]
    assert f"```python\n{program}```" in (ROOT / "docs" / "reference" / "spark.md").read_text()


class Counting(NamedTuple):
    """`count_by_key.py` in a process of its own."""

    process: subprocess.Popen[bytes]
    source: str
    target: str
    checkpoint: Path


SOME = [(i % 2, b"k%d" % (i % 5), b"v") for i in range(1000)]


@pytest.fixture(scope="module", autouse=True)
def counting(
    topic: Make, fill: Fill, bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Counting]:
    """Starts first: until it counts, with a Spark of its own, there is time for the others."""
    source, target = topic(2), topic(1)
    checkpoint = tmp_path_factory.mktemp("counting") / "checkpoint"
    fill(source, SOME)
    process = subprocess.Popen(
        [sys.executable, str(COUNT), bootstrap, source, target, str(checkpoint)],
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield Counting(process, source, target, checkpoint)
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """And the Spark that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def _until(seen: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 200
    while not seen():
        assert process.poll() is None, "it has ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.02)


ORDERS = [
    (0, None, json.dumps({"customer": "ada", "amount": 2.5}).encode()),
    (1, None, json.dumps({"customer": "bob", "amount": 1}).encode()),
    (1, None, json.dumps({"customer": "ada", "amount": 4}).encode()),
    (0, None, b"not an order"),
]


def _revenue(spark: SparkSession, path: Path) -> dict[str, tuple[float, int]]:
    rows = spark.read.parquet(str(path)).collect()
    return {r.customer: (r.revenue, r.orders) for r in rows}


@pytest.fixture
def standalone(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A Spark master and a worker, as guests in the JVM that is there: it is warm."""
    import pyspark

    jvm = spark.sparkContext._jvm
    assert jvm is not None
    java = jvm.org.apache.spark
    conf = java.SparkConf().set("spark.executorEnv.SPARK_HOME", str(Path(pyspark.__file__).parent))
    cluster = java.deploy.LocalSparkCluster(1, 2, 1024, conf)
    try:
        yield cluster.start()[0]
    finally:
        cluster.stop()


def _is_right(spark: SparkSession, said: str, target: Path) -> None:
    assert said == "1 records are no orders\n"
    assert _revenue(spark, target) == {"ada": (6.5, 2), "bob": (1.0, 1)}


def test_revenue_report_on_this_machine(
    spark: SparkSession,
    topic: Make,
    fill: Fill,
    bootstrap: str,
    tmp_path: Path,
    run_here: RunHere,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark.sparkContext.master == "local[2]"
    name = topic(2)
    fill(name, ORDERS)
    capsys.readouterr()
    run_here(EXAMPLES / "revenue_report.py", bootstrap, name, str(tmp_path / "x"), "local[2]")
    _is_right(spark, capsys.readouterr().out, tmp_path / "x")


def test_revenue_report_on_a_spark_cluster(
    spark: SparkSession, standalone: str, topic: Make, fill: Fill, bootstrap: str, tmp_path: Path
) -> None:
    """The same program with `spark://`: master, worker, executor and driver are processes."""
    name = topic(2)
    fill(name, ORDERS)
    script, target = str(EXAMPLES / "revenue_report.py"), tmp_path / "x"
    ran = subprocess.run(
        [sys.executable, script, bootstrap, name, str(target), standalone],
        env=_environment() | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": _brief(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    _is_right(spark, ran.stdout, target)
    # Its tasks ran there and not in the driver, which would be an executor of that name.
    events = "".join(path.read_text() for path in (tmp_path / "events").rglob("events_*"))
    ended = [json.loads(line) for line in events.splitlines() if "SparkListenerTaskEnd" in line]
    assert {event["Task Info"]["Executor ID"] for event in ended} == {"0"}


def _brief(directory: Path) -> str:
    """Settings of Spark under which an executor's JVM is short-lived, too; and a diary."""
    (directory / "events").mkdir()
    lines = (
        f"spark.executor.extraJavaOptions {BRIEF_JVM}",
        "spark.eventLog.enabled true",
        "spark.eventLog.compress false",
        f"spark.eventLog.dir {directory / 'events'}",
    )
    (directory / "spark-defaults.conf").write_text("\n".join(lines))
    return str(directory)


def test_counts_are_exact_after_a_kill(
    read: Read, fill: Fill, bootstrap: str, counting: Counting, run_here: RunHere
) -> None:
    """A stream that aggregates and writes back is killed inside a micro-batch and started again."""
    process, source, target, checkpoint = counting
    _until(lambda: (checkpoint / "commits" / "0").exists(), process)
    fill(source, SOME)
    # The second micro-batch is planned and not done: it will have to be run again.
    _until(lambda: (checkpoint / "offsets" / "1").exists(), process)
    _kill(process)
    assert not (checkpoint / "commits" / "1").exists()
    fill(source, SOME[:500])
    run_here(COUNT, bootstrap, source, target, str(checkpoint), "once")
    newest = read(target).selectExpr(
        "string(key) AS key", "max_by(string(value), offset) OVER (PARTITION BY key) AS n"
    )
    assert {r.key: r.n for r in newest.collect()} == {f"k{i}": "500" for i in range(5)}
