"""The programs under `examples/`, as a user runs them.

On this machine, killed, and on a Spark cluster.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from klamm.model.names import TopicPartition
from klamm.pipelines.cluster import Lookup

Make = Callable[..., str]
Fill = Callable[..., None]
Read = Callable[..., DataFrame]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}


def _start(*args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *args],
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def test_counts_are_exact_after_a_kill(
    read: Read, topic: Make, fill: Fill, lookup: Lookup, bootstrap: str, tmp_path: Path
) -> None:
    source, target = topic(2), topic(1)
    script = str(EXAMPLES / "count_by_key.py")
    args = (script, bootstrap, source, target, str(tmp_path / "checkpoint"))
    fill(source, [(i % 2, b"k%d" % (i % 5), b"v") for i in range(1000)])
    first = _start(*args)
    # It is killed while it works: as soon as some counts are out, with more records waiting.
    deadline = time.monotonic() + 200
    end = TopicPartition(target, 0)
    while lookup.latest([end])[end] == 0 and time.monotonic() < deadline:
        assert first.poll() is None
        time.sleep(0.2)
    fill(source, [(i % 2, b"k%d" % (i % 5), b"v") for i in range(1000)])
    time.sleep(0.3)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(30)
    fill(source, [(i % 2, b"k%d" % (i % 5), b"v") for i in range(500)])
    again = _start(*args, "once")
    assert again.wait(200) == 0
    newest = read(target).selectExpr(
        "string(key) AS key", "max_by(string(value), offset) OVER (PARTITION BY key) AS n"
    )
    assert {r.key: r.n for r in newest.collect()} == {f"k{i}": "500" for i in range(5)}


ORDERS = [
    (0, None, json.dumps({"customer": "ada", "amount": 2.5}).encode()),
    (1, None, json.dumps({"customer": "bob", "amount": 1}).encode()),
    (1, None, json.dumps({"customer": "ada", "amount": 4}).encode()),
    (0, None, b"not an order"),
]


def _revenue(spark: SparkSession, path: Path) -> dict[str, tuple[float, int]]:
    rows = spark.read.parquet(str(path)).collect()
    return {r.customer: (r.revenue, r.orders) for r in rows}


@pytest.fixture(scope="module")
def standalone() -> Iterator[str]:
    """A Spark master and a worker, as processes of their own."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = _environment() | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    # The master says its address only where Spark's own log settings hold.
    environment.pop("SPARK_CONF_DIR", None)
    processes: list[subprocess.Popen[str]] = []

    def launch(role: str, *more: str) -> subprocess.Popen[str]:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *more]
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0"],
            env=environment,
            stdout=subprocess.PIPE if role.startswith("master") else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
        )
        processes.append(process)
        return process

    try:
        address = _address(launch("master.Master", "--port", "0"))
        launch("worker.Worker", address, "--cores", "2", "--memory", "1g")
        yield address
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()


def _address(master: subprocess.Popen[str]) -> str:
    assert master.stdout is not None
    for line in master.stdout:
        if found := re.search(r"Starting Spark master at (spark://\S+)", line):
            return found[1]
    raise AssertionError("the Spark master did not start")


@pytest.mark.parametrize("where", ["local[2]", "spark://"])
def test_revenue_report(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    topic: Make,
    fill: Fill,
    bootstrap: str,
    tmp_path: Path,
    where: str,
) -> None:
    master = request.getfixturevalue("standalone") if where == "spark://" else where
    name = topic(2)
    fill(name, ORDERS)
    script = str(EXAMPLES / "revenue_report.py")
    ran = subprocess.run(
        [sys.executable, script, bootstrap, name, str(tmp_path / "revenue"), master],
        env=_environment() | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout == "1 records are no orders\n"
    assert _revenue(spark, tmp_path / "revenue") == {"ada": (6.5, 2), "bob": (1.0, 1)}
