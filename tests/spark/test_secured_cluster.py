"""Spark's source and sink, and a job of our own, before a secured cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from klamm import Cluster, Security
from klamm.cli.__main__ import main


def test_records_go_in_and_out_with_a_users_own_rights(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Cluster(1, security=Security(users=["alice"])) as cluster:
        cluster.create_topic("orders", 1, 1)
        cluster.allow("alice", "produce", "topic:orders")
        cluster.allow("alice", "consume", "topic:orders")
        given = cluster.client_config("alice", "java")
        options = {f"kafka.{name}": text for name, text in given.items()}
        frame = spark.createDataFrame([(b"k", b"a coat")], "key binary, value binary")
        frame.write.format("klamm").options(**options).option("topic", "orders").mode(
            "append"
        ).save()
        read = spark.read.format("klamm").options(**options).option("subscribe", "orders").load()
        assert [bytes(row.value) for row in read.collect()] == [b"a coat"]
        config = str(cluster.clients / "admin.properties")
        args = ["archive", "orders", "--to", str(tmp_path / "archive"), "-X", config]
        assert main(args) == 0, capfd.readouterr().err
