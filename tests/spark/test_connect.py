"""The same example over Spark Connect: the client has no Java, the server knows the source."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from .test_examples import EXAMPLES, ORDERS, ROOT, _is_right

Make = Callable[..., str]
Fill = Callable[..., None]


@pytest.fixture
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


def test_revenue_report_over_spark_connect(
    spark: SparkSession, connect: str, topic: Make, fill: Fill, bootstrap: str, tmp_path: Path
) -> None:
    name = topic(2)
    fill(name, ORDERS)
    target = tmp_path / "x"
    path = os.pathsep.join([str(ROOT / "src"), *sys.path[1:]])
    hidden = {"PYTHONPATH": path, "JAVA_HOME": "/nowhere", "SPARK_HOME": "/nowhere"}
    script = str(EXAMPLES / "revenue_report.py")
    ran = subprocess.run(
        [sys.executable, script, bootstrap, name, str(target), connect],
        env=os.environ | hidden,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    _is_right(spark, ran.stdout, target)
