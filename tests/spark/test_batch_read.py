"""`spark.read.format("klamm")`: columns, offsets, limits and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from klamm.pipelines.records.columns import COLUMNS
from klamm.pipelines.source.datasource import KlammReader, schema_text
from klamm.pipelines.source.offered import VERSION

from .conftest import numbered

Make = Callable[..., str]
Fill = Callable[..., None]
Read = Callable[..., DataFrame]


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    found = frame.selectExpr("partition", "offset", "string(key)", "string(value)").collect()
    return sorted(tuple(row) for row in found)


def test_columns_have_the_official_names_and_types(read: Read, topic: Make, fill: Fill) -> None:
    name = topic(1)
    fill(name, [(0, b"k", b"v", 1_600_000_000_123, [("h", b"1"), ("h", None)]), (0, None, b"")])
    frame = read(name, includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    first, second = frame.orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value), first.topic) == (b"k", b"v", name)
    assert (first.partition, first.offset, first.timestampType) == (0, 0, 0)
    assert first.timestamp.timestamp() == pytest.approx(1_600_000_000.123)
    assert [(h.key, h.value) for h in first.headers] == [("h", b"1"), ("h", None)]
    assert (second.key, bytes(second.value), second.headers) == (None, b"", None)


@pytest.mark.usefixtures("spark")
@pytest.mark.skipif(VERSION < (4, 1), reason="PySpark 4.0 has no such question")
def test_arrow_types_are_those_spark_expects() -> None:
    """T17: Spark checks the types of the first frame, and only of that."""
    text = schema_text({"includeHeaders": "true", "includeBatchInfo": "true"})
    wanted = to_arrow_schema(StructType.fromDDL(text), timezone="UTC")
    # As text, for types are equal to Arrow whatever the items of a list are called.
    assert {f.name: str(f.type) for f in wanted} == {n: str(COLUMNS[n][0]) for n in wanted.names}


def test_everything_is_read_once(read: Read, topic: Make, fill: Fill) -> None:
    name = topic(3)
    rows = numbered(3000, 3)
    fill(name, rows, **{"compression.type": "lz4"})
    found = _rows(read(name))
    assert sorted((p, k, v) for p, _, k, v in found) == sorted(
        (p, k.decode(), v.decode()) for p, k, v in rows
    )
    assert [o for p, o, _, _ in found if p == 1] == list(range(1000))


def test_a_filtered_query_leaves_the_dataframe_as_it_was(
    read: Read, topic: Make, fill: Fill
) -> None:
    """T1: a plan made for one query must not answer another."""
    name = topic(4)
    fill(name, numbered(40, 4))
    frame = read(name)
    assert frame.filter("partition = 1").count() == 10
    assert frame.count() == 40
    assert frame.filter("partition = 1 OR offset < 5").count() == 25
    assert frame.filter("partition = 1").union(frame).count() == 50
    assert "pushFilters" not in KlammReader.__dict__


@pytest.mark.skipif(VERSION < (4, 1), reason="PySpark 4.0 plans each action anew")
def test_one_dataframe_is_one_snapshot(read: Read, topic: Make, fill: Fill) -> None:
    """T2: two actions on a DataFrame see the same records."""
    name = topic(1)
    fill(name, numbered(5, 1))
    frame = read(name)
    assert frame.count() == 5
    fill(name, numbered(5, 1))
    assert frame.count() == 5
    assert read(name).count() == 10


def test_offsets_by_json(read: Read, topic: Make, fill: Fill) -> None:
    name = topic(2)
    fill(name, numbered(20, 2))
    start = json.dumps({name: {"0": 3, "1": -2}})
    end = json.dumps({name: {"0": 5, "1": -1}})
    found = _rows(read(name, startingOffsets=start, endingOffsets=end))
    assert [(p, o) for p, o, _, _ in found] == [(0, 3), (0, 4), *((1, o) for o in range(10))]
    own = json.dumps({"ids": {}, "topics": {name: {"0": 9, "1": 9}}, "v": 1})
    assert read(name, startingOffsets=own).count() == 2


def test_offsets_by_time(read: Read, topic: Make, fill: Fill) -> None:
    name = topic(1)
    fill(name, [(0, b"k", b"%d" % i, 1_000_000 + 1000 * i) for i in range(10)])
    assert read(name, startingTimestamp="1004000").count() == 6
    both = read(name, startingTimestamp="1004000", endingTimestamp="1006000")
    assert [r.offset for r in both.orderBy("offset").collect()] == [4, 5]
    by_partition = json.dumps({name: {"0": 1_008_000}})
    assert read(name, startingOffsetsByTimestamp=by_partition).count() == 2


def test_time_without_a_record_is_an_error_unless_lenient(
    read: Read, topic: Make, fill: Fill
) -> None:
    name = topic(1)
    fill(name, [(0, b"k", b"v", 1000)])
    with pytest.raises(PySparkException, match="has no record at or after 5000"):
        read(name, startingTimestamp="5000").count()
    lenient = {"startingTimestamp": "5000", "startingOffsetsByTimestampStrategy": "latest"}
    assert read(name, **lenient).count() == 0


def test_empty_topic_is_an_empty_table(read: Read, topic: Make) -> None:
    """T15: no splits must not become one split that fails."""
    assert read(topic(2)).count() == 0


def test_topics_by_list_pattern_and_assignment(read: Read, topic: Make, fill: Fill) -> None:
    one, two = topic(2), topic(1)
    fill(one, numbered(4, 2))
    fill(two, numbered(3, 1))
    assert read(f"{one} , {two}").count() == 7
    assert read(subscribePattern=f"{one}|{two}").count() == 7
    assert read(assign=json.dumps({one: [1]})).count() == 2


def test_splits_by_number_records_and_bytes(read: Read, topic: Make, fill: Fill) -> None:
    name = topic(2)
    fill(name, numbered(2000, 2))
    assert read(name).rdd.getNumPartitions() == 2
    for option in ({"minPartitions": "6"}, {"maxRecordsPerPartition": "334"}):
        frame = read(name, **option)
        assert frame.rdd.getNumPartitions() == 6
        assert frame.count() == frame.select("partition", "offset").distinct().count() == 2000
    assert read(name, maxBytesPerPartition="5k").rdd.getNumPartitions() > 2


def test_a_narrower_schema_is_honoured(
    spark: SparkSession, bootstrap: str, topic: Make, fill: Fill
) -> None:
    name = topic(1)
    fill(name, numbered(3, 1))
    reader = spark.read.format("klamm").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.option("subscribe", name).schema("offset bigint, value binary").load()
    assert [(r.offset, bytes(r.value)) for r in frame.orderBy("offset").collect()] == [
        (0, b"v0"),
        (1, b"v1"),
        (2, b"v2"),
    ]


def test_batch_columns_and_raw_batches(read: Read, topic: Make, fill: Fill) -> None:
    name = topic(1)
    fill(name, numbered(10, 1), **{"compression.type": "zstd", "enable.idempotence": "true"})
    info = read(name, includeBatchInfo="true").orderBy("offset").collect()
    assert {r.codec for r in info} == {4}
    assert [r.sequence for r in info] == list(range(10))
    assert info[0].producerId >= 0
    raw = read(name, records="batches").collect()
    assert sum(r.recordCount for r in raw) == 10
    assert raw[-1].lastOffset == 9


def test_committed_readers_skip_what_was_rolled_back(
    read: Read, topic: Make, bootstrap: str
) -> None:
    name = topic(1)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for value, keep in ((b"yes", True), (b"no", False), (b"also", True)):
        producer.begin_transaction()
        producer.produce(name, value)
        producer.flush(30)
        (producer.commit_transaction if keep else producer.abort_transaction)(30)
    committed = read(name, **{"kafka.isolation.level": "read_committed"})
    assert sorted(bytes(r.value) for r in committed.collect()) == [b"also", b"yes"]
    assert read(name).count() == 3
    assert read(name, records="data+control").filter("isControl").count() == 3


def test_records_that_aged_out_fail_the_read_unless_allowed(
    read: Read, topic: Make, fill: Fill, bootstrap: str
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    name = topic(1)
    fill(name, numbered(10, 1))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(name, 0, 4)]).values():
        future.result(30)
    start = json.dumps({name: {"0": 1}})
    with pytest.raises(PySparkException, match="offsets 1 to 3 are gone"):
        read(name, startingOffsets=start).count()
    assert read(name, startingOffsets=start, failOnDataLoss="false").count() == 6


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscribe": "no-such-topic"}, "there is no topic no-such-topic"),
        ({"subscribe": "x", "startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({}, "exactly one of assign, subscribe and subscribePattern"),
    ],
)
def test_mistakes_are_one_clear_sentence(read: Read, options: dict[str, str], says: str) -> None:
    with pytest.raises(PySparkException, match=says):
        read(**options).count()


def test_unreachable_broker_is_named(spark: SparkSession) -> None:
    reader = spark.read.format("klamm").option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(PySparkException, match=r"no broker can be reached: 127\.0\.0\.1:1"):
        reader.option("subscribe", "t").load().count()


def test_sql_view(spark: SparkSession, bootstrap: str, topic: Make, fill: Fill) -> None:
    name = topic(1)
    fill(name, numbered(3, 1))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING klamm "
        f"OPTIONS (`kafka.bootstrap.servers` '{bootstrap}', subscribe '{name}')"
    )
    assert spark.sql("SELECT count(*) AS n FROM orders").collect()[0].n == 3
