"""The official connector and ours on the same topics.

Needs its jars: `make interop-extra` fetches them, KLAMM_CONNECTOR_JARS=DIR names them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from .conftest import CONNECTOR, numbered

pytestmark = pytest.mark.skipif(CONNECTOR is None, reason="KLAMM_CONNECTOR_JARS is not set")

Make = Callable[..., str]
Fill = Callable[..., None]
Read = Callable[..., DataFrame]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_equal_frames(
    spark: SparkSession, bootstrap: str, read: Read, topic: Make, fill: Fill, codec: str
) -> None:
    name = topic(3)
    headers = [("a", b"1"), ("a", None)]
    fill(name, numbered(300, 3), **{"compression.type": codec})
    fill(name, [(0, None, b"", 5, headers), (1, b"", None, 0), (2, b"k", b"v", 1_600_000_000_999)])
    start = json.dumps({name: {"0": 7, "1": -2, "2": 100}})
    for options in ({"includeHeaders": "true"}, {"startingOffsets": start}):
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        theirs = reader.option("subscribe", name).options(**options).load()
        ours = read(name, **options)
        assert ours.schema.simpleString() == theirs.schema.simpleString()
        assertDataFrameEqual(ours, theirs)


def test_each_reads_what_the_other_wrote(
    spark: SparkSession, bootstrap: str, read: Read, topic: Make
) -> None:
    rows = spark.range(500).selectExpr("string(id) AS key", "repeat(string(id), 9) AS value")
    written = {}
    for form in ("klamm", "kafka"):
        written[form] = topic(5)  # of four, every sign of a hash makes the same
        writer = rows.write.format(form).mode("append").option("topic", written[form])
        writer.option("kafka.bootstrap.servers", bootstrap).save()
    columns = ("key", "value", "partition")
    ours, theirs = (read(written[form]).select(*columns) for form in ("klamm", "kafka"))
    assertDataFrameEqual(ours, theirs)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    assertDataFrameEqual(reader.option("subscribe", written["klamm"]).load().select(*columns), ours)


@pytest.fixture
def both(spark: SparkSession, bootstrap: str) -> Callable[..., tuple[DataFrame, DataFrame]]:
    """Theirs and ours under the same options."""

    def load(**options: str) -> tuple[DataFrame, DataFrame]:
        readers = (spark.read.format(form).options(**options) for form in ("kafka", "klamm"))
        theirs, ours = (r.option("kafka.bootstrap.servers", bootstrap).load() for r in readers)
        return theirs, ours

    return load


Both = Callable[..., tuple[DataFrame, DataFrame]]


def test_options_mean_the_same(both: Both, topic: Make, fill: Fill) -> None:
    name, other = topic(2), topic(1)
    fill(name, [(i % 2, b"k%d" % i, b"v", 1000 * i + 1000) for i in range(40)])
    fill(other, [(0, None, b"v", -1), (0, b"k", None, 500, [("h", b""), ("h", None)])])
    by_partition = json.dumps({name: {"0": 12_000, "1": 20_500}})
    offsets = json.dumps({name: {"0": -2, "1": 7}})
    chosen: list[dict[str, str]] = [
        {"subscribe": f" {name} ,{other},, ", "includeHeaders": "TRUE"},
        {"subscribePattern": f"{name}|{other}"},
        {"subscribePattern": f" {name[2:]} "},
        {"assign": json.dumps({name: [1], other: [0]})},
        {"subscribe": name, "startingOffsets": " EARLIEST ", "endingOffsets": " Latest "},
        {"subscribe": name, "startingOffsets": f" {offsets} "},
        {"subscribe": name, "endingOffsets": json.dumps({name: {"0": -1, "1": 7}})},
        {"subscribe": name, "startingTimestamp": "9500", "endingTimestamp": "30000"},
        {"subscribe": name, "endingTimestamp": "99999999"},
        {"subscribe": name, "startingOffsetsByTimestamp": by_partition},
        {"subscribe": name, "endingOffsetsByTimestamp": by_partition},
        {
            "subscribe": name,
            "startingTimestamp": " 10000 ",
            "startingOffsetsByTimestamp": by_partition,
            "startingOffsets": offsets,
        },
        {
            "subscribe": name,
            "startingTimestamp": "99999999",
            "startingOffsetsByTimestampStrategy": "LATEST",
        },
        {"subscribe": name, "minPartitions": "5"},
        {"subscribe": name, "maxRecordsPerPartition": "6"},
        {"subscribe": name, "maxOffsetsPerTrigger": "3", "groupIdPrefix": "x"},
    ]
    for options in chosen:
        theirs, ours = both(**options)
        assertDataFrameEqual(ours, theirs)
        assert ours.schema == theirs.schema, options


def test_both_refuse_the_same(both: Both, topic: Make, fill: Fill) -> None:
    name = topic(2)
    fill(name, numbered(20, 2))
    refused: list[dict[str, str]] = [
        {},
        {"subscribe": " , "},
        {"subscribe": name, "assign": json.dumps({name: [0]})},
        {"subscribePattern": " "},
        {"assign": name},
        {"subscribe": name, "startingOffsets": "latest"},
        {"subscribe": name, "startingOffsets": json.dumps({name: {"0": 0}})},
        {"subscribe": name, "startingOffsets": json.dumps({name: {"0": 0, "1": -1}})},
        {"subscribe": name, "endingOffsets": "earliest"},
        {"subscribe": name, "endingOffsets": json.dumps({name: {"0": 1, "1": -2}})},
        {"subscribe": name, "startingTimestamp": "9999999999999999"},
        {"subscribe": name, "minPartitions": "0"},
        {"subscribe": name, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
        {"subscribe": name, "kafka.auto.offset.reset": "earliest"},
        {"subscribe": name, "kafka.enable.auto.commit": "true"},
        {"subscribe": name, "kafka.interceptor.classes": "x"},
        {"subscribe": name, "kafka.key.deserializer": "x"},
        {"subscribe": name, "kafka.value.deserializer": "x"},
        {"subscribe": "there-is-no-such-topic"},
    ]
    for options in refused:
        for frame in range(2):
            with pytest.raises((PySparkException, Py4JJavaError)):
                both(**options)[frame].count()


def test_writes_mean_the_same(spark: SparkSession, bootstrap: str, read: Read, topic: Make) -> None:
    """Headers need no option, columns that a read gives are passed over, the option topic wins."""
    kinds = "key string, value string, partition int, topic string, offset bigint, headers "
    kinds += "array<struct<key: string, value: binary>>"
    rows: list[tuple[Any, ...]] = [
        ("k", "v", 2, "elsewhere", 7, [("a", b"1"), ("a", None)]),
        (None, "", 0, "elsewhere", 7, []),
        ("k", None, 1, "elsewhere", 7, None),
    ]
    found = []
    for form in ("kafka", "klamm"):
        name = topic(3)
        writer = spark.createDataFrame(rows, kinds).write.format(form).mode("append")
        writer.option("topic", f" {name} ").option("kafka.bootstrap.servers", bootstrap).save()
        found.append(read(name, includeHeaders="true").drop("topic", "timestamp"))
    assertDataFrameEqual(found[1], found[0])


@pytest.mark.parametrize(
    "columns",
    [
        ("'v' AS value", "int(-1) AS partition"),
        ("'v' AS value", "1 AS key"),
        ("1 AS value",),
        ("'k' AS key",),
        ("'v' AS value", "'0' AS partition"),
        ("'v' AS value", "array('h') AS headers"),
        ("'v' AS value", "array(struct(string(null) AS key, binary('x') AS value)) AS headers"),
    ],
)
def test_both_refuse_the_same_rows(
    spark: SparkSession, bootstrap: str, topic: Make, columns: tuple[str, ...]
) -> None:
    name = topic(1)
    for form in ("kafka", "klamm"):
        writer = spark.range(1).selectExpr(*columns).write.format(form).mode("append")
        writer = writer.option("topic", name).option("kafka.bootstrap.servers", bootstrap)
        with pytest.raises((PySparkException, Py4JJavaError)):
            writer.save()
