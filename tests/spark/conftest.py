"""One Spark and one cluster for all tests of this folder.

The cluster is klamm's own. `KLAMM_TEST_BOOTSTRAP=host:port` runs the same tests against any other
Kafka cluster, which is how the promise to work with all of them is kept.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.settings import ConnectionOptions
from klamm.pipelines.session.session import start

# These JVMs live for seconds: no second compiler, no threads for collecting garbage, no second look
# at classes that came from a jar. It halves their CPU time, and the programs that tests start
# inherit it.
BRIEF_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
# Queries on a handful of rows: compiling code for each, and planning it again midway, costs more
# than it could ever win.
BRIEF_QUERIES = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
os.environ.setdefault("SPARK_SUBMIT_OPTS", BRIEF_JVM)
# Spark starts Python anew for many a step: what one has compiled, the next need not compile again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# `make test-spark-full`: a hundred times the records.
LARGE = 100 if os.environ.get("KLAMM_SPARK_FULL") else 1
FOREIGN = os.environ.get("KLAMM_TEST_BOOTSTRAP")
CONNECTOR = os.environ.get("KLAMM_CONNECTOR_JARS") or None  # a directory of jars


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """The cluster itself, or None when it is somebody else's."""
    if FOREIGN:
        yield None
        return
    from klamm import Cluster

    with Cluster(brokers=1, settings={"klamm.ledger.topic.enable": "true"}) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(cluster: Any) -> str:
    return FOREIGN or str(cluster.bootstrap_servers)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = dict(BRIEF_QUERIES)
    if CONNECTOR:
        settings["spark.jars"] = ",".join(str(jar) for jar in Path(CONNECTOR).glob("*.jar"))
    session = start("local[2]", settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def lookup(bootstrap: str) -> Lookup:
    return Lookup(ConnectionOptions(bootstrap=parse_bootstrap(bootstrap)))


@pytest.fixture(scope="session")
def topic(lookup: Lookup) -> Callable[..., str]:
    """Makes a topic of its own for a test."""

    def make(partitions: int = 2, **configs: str) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        lookup.create(
            name, partitions, configs={k.replace("_", "."): v for k, v in configs.items()}
        )
        return name

    return make


@pytest.fixture
def command(
    bootstrap: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Runs one command line: exit code, output, complaints."""
    from klamm.cli.__main__ import main

    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", bootstrap)

    def run(*args: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(args)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="session")
def fill(bootstrap: str) -> Callable[..., None]:
    """Writes records with another client: (partition, key, value[, timestamp[, headers]])."""

    def write(topic: str, rows: list[tuple[Any, ...]], **settings: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, **settings})
        for partition, key, value, *rest in rows:
            more: dict[str, Any] = {}
            if rest:
                more["timestamp"] = rest[0]
            if len(rest) > 1:
                more["headers"] = rest[1]
            producer.produce(topic, value, key, partition=partition, **more)
        assert producer.flush(30) == 0

    return write


@pytest.fixture
def read(spark: SparkSession, bootstrap: str) -> Callable[..., DataFrame]:
    """A batch read with these options."""

    def load(topic: str | None = None, **options: str) -> DataFrame:
        reader = spark.read.format("klamm").option("kafka.bootstrap.servers", bootstrap)
        if topic is not None:
            reader = reader.option("subscribe", topic)
        return reader.options(**options).load()

    return load


def numbered(count: int, partitions: int = 2, first: int = 0) -> list[tuple[int, bytes, bytes]]:
    """Records `k0`, `k1`... in turn over the partitions."""
    return [(i % partitions, b"k%d" % i, b"v%d" % i) for i in range(first, first + count)]
