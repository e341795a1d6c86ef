"""Re-partitioning on Apache Kafka: everything but the exchange of names."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from confluent_kafka import Producer

from interop_extra.kafka import shell
from interop_extra.kafka_server import VERSION, kafka_server
from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.partitioner import partition_of
from klamm.client.requests import Committed
from klamm.client.settings import ConnectionOptions
from klamm.model.names import TopicPartition
from klamm.pipelines.repartition.repartition import Repartitioning, RepartitionReport
from klamm.pipelines.repartition.steps import TopicCluster
from klamm.pipelines.repartition.undoing import undo
from klamm.pipelines.session.lazily import SparkWhenNeeded
from unit.store.zookeeper_server import ZooKeeperServer

pytest.importorskip("pyspark")
ALONE = {"offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 3}


def _no_spark() -> None:
    raise AssertionError("so few records are copied without Spark")


def _filled(servers: str, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number, b"k%d" % (number % 17))
    assert producer.flush(60) == 0


def _run(cluster: TopicCluster, targets: int, place: Path) -> RepartitionReport:
    spark = SparkWhenNeeded(_no_spark)  # type: ignore[arg-type]
    return Repartitioning(spark, cluster, "orders", targets, place).run()  # type: ignore[arg-type]


def test_all_but_the_exchange(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    where = f"{zookeeper.connect_string}/repartition"
    with kafka_server(tmp_path / "log", where, tmp_path / "kafka.txt", ALONE) as servers:
        lookup = Lookup(ConnectionOptions(bootstrap=parse_bootstrap(servers)))
        cluster = TopicCluster(lookup, None)
        lookup.create("orders", 3, replicas=1, configs={"retention.ms": "86400000"})
        _filled(servers, "orders", 0, 500)
        lookup.commit("readers", {TopicPartition("orders", p): Committed(5) for p in range(3)})
        first = _run(cluster, 2, tmp_path)
        assert (first.is_swapped, first.records, first.violations) == (False, 500, 0)
        _filled(servers, "orders", 500, 100)
        done = _run(cluster, 2, tmp_path)  # the producers are stopped: this copies the rest
        assert (done.records, done.violations, done.faults) == (600, 0, [])
        copied = done.kept_as
        ends = lookup.latest([TopicPartition(copied, p) for p in range(2)])
        assert [ends[TopicPartition(copied, p)] for p in range(2)] == done.target_records
        assert sum(done.target_records) == 600
        assert {partition_of(b"k%d" % key, 2) for key in range(17)} == {0, 1}
        committed = lookup.committed("readers")
        assert all(committed[TopicPartition(copied, p)].offset <= 500 for p in range(2))
        for line in done.commands:
            name, *words = shlex.split(line, comments=True) or [""]
            if name:  # as they are printed, in their order
                shell(VERSION, name.removesuffix(".sh"), *words)
        assert lookup.configs(copied) == {"retention.ms": "86400000"}
        assert "orders" not in lookup.view([]).topics


def test_undo_removes_the_copy(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    where = f"{zookeeper.connect_string}/undo"
    with kafka_server(tmp_path / "log", where, tmp_path / "kafka.txt", ALONE) as servers:
        lookup = Lookup(ConnectionOptions(bootstrap=parse_bootstrap(servers)))
        cluster = TopicCluster(lookup, None)
        lookup.create("orders", 2, replicas=1, configs={})
        _filled(servers, "orders", 0, 50)
        copied = _run(cluster, 4, tmp_path).kept_as
        assert not undo(cluster, "orders", tmp_path, group_patience_s=5).was_swapped
        assert copied not in lookup.view([copied]).topics
