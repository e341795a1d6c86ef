"""The official connector and ours on the same topics.

Needs its jars: `make interop-extra` fetches them, KLAMM_CONNECTOR_JARS=DIR names them.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
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
        written[form] = topic(4)
        writer = rows.write.format(form).mode("append").option("topic", written[form])
        writer.option("kafka.bootstrap.servers", bootstrap).save()
    columns = ("key", "value", "partition")
    ours, theirs = (read(written[form]).select(*columns) for form in ("klamm", "kafka"))
    assertDataFrameEqual(ours, theirs)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    assertDataFrameEqual(reader.option("subscribe", written["klamm"]).load().select(*columns), ours)
