"""Over Spark Connect, the same example and a job: no Java on this side, klamm on the server's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from klamm.pipelines.archive.shelf import find_archive

from .conftest import numbered
from .test_examples import EXAMPLES, ORDERS, ROOT, _is_right

Make = Callable[..., str]
Fill = Callable[..., None]


@pytest.fixture(scope="module")
def connect(spark: SparkSession) -> Iterator[str]:
    """A server of Spark Connect, as a guest in the JVM that is there: it is warm."""
    pytest.importorskip("grpc", reason="Spark Connect needs `pip install klamm[connect]`")
    jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc.sc()
    assert jvm is not None
    context.conf().set("spark.connect.grpc.binding.port", "0")
    service = jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(service, "SparkConnectService$"), "MODULE$")
    service.start(context)
    try:
        yield f"sc://127.0.0.1:{service.localPort()}"
    finally:
        service.stop(jvm.scala.Option.empty(), jvm.scala.Option.empty())


def _run(*line: str, **environment: str) -> str:
    """What a program prints that must do without Java."""
    path = os.pathsep.join([str(ROOT / "src"), *sys.path[1:]])
    nowhere = dict.fromkeys(("JAVA_HOME", "SPARK_HOME", "PATH"), "/nowhere")
    hidden = nowhere | {"PYTHONPATH": path}
    ran = subprocess.run(
        [sys.executable, *line],
        env=os.environ | hidden | environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def test_revenue_report_over_spark_connect(
    spark: SparkSession, connect: str, topic: Make, fill: Fill, bootstrap: str, tmp_path: Path
) -> None:
    name, target = topic(2), tmp_path / "x"
    fill(name, ORDERS)
    said = _run(str(EXAMPLES / "revenue_report.py"), bootstrap, name, str(target), connect)
    _is_right(spark, said, target)


def test_archive_over_spark_connect(
    connect: str, topic: Make, fill: Fill, bootstrap: str, tmp_path: Path
) -> None:
    name = topic(2)
    fill(name, numbered(100, 2))
    line = ("-m", "klamm.cli", "archive", name, "--to", str(tmp_path), "--verify", "-b", bootstrap)
    said = _run(*line, KLAMM_SPARK_MASTER=connect)
    assert f"archived 100 records of {name}" in said
    assert "verified" in said
    assert find_archive(tmp_path).records == 100
