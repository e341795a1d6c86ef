"""`df.write.format("klamm")`: columns, partitioning, codecs, refusals, and other clients' eyes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from klamm.pipelines.session.session import register

Make = Callable[..., str]
Read = Callable[..., DataFrame]
Save = Callable[..., None]


@pytest.fixture
def save(bootstrap: str) -> Save:
    def write(frame: DataFrame, topic: str | None = None, **options: str) -> None:
        writer = frame.write.format("klamm").mode("append").options(**options)
        if topic is not None:
            writer = writer.option("topic", topic)
        writer.option("kafka.bootstrap.servers", bootstrap).save()

    return write


def _consumed(bootstrap: str, topic: str, partitions: int, count: int) -> list[Any]:
    """The records as librdkafka sees them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "x", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        found: list[Any] = []
        while len(found) < count:
            got = consumer.consume(count - len(found), timeout=20)
            assert got, f"only {len(found)} of {count} records arrived"
            assert not [m.error() for m in got if m.error()]
            found += got
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_other_clients_read_every_codec(
    spark: SparkSession, save: Save, topic: Make, bootstrap: str, codec: str
) -> None:
    """The LZ4 rule among them: linked blocks would be refused by other readers."""
    name = topic(3)
    frame = spark.range(2000).selectExpr("string(id) AS key", "repeat(string(id), 40) AS value")
    save(frame, name, **{"kafka.compression.type": codec})
    found = _consumed(bootstrap, name, 3, 2000)
    assert {m.key(): m.value() for m in found} == {b"%d" % i: (b"%d" % i) * 40 for i in range(2000)}


def test_keys_go_where_other_producers_put_them(
    spark: SparkSession, save: Save, read: Read, topic: Make, bootstrap: str
) -> None:
    from confluent_kafka import Producer

    mine, theirs = topic(5), topic(5)
    save(spark.range(200).selectExpr("string(id) AS key", "'v' AS value"), mine)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for i in range(200):
        producer.produce(theirs, b"v", b"%d" % i)
    assert producer.flush(30) == 0
    assertDataFrameEqual(
        read(mine).select("key", "partition"), read(theirs).select("key", "partition")
    )


def test_all_columns_are_written(spark: SparkSession, save: Save, read: Read, topic: Make) -> None:
    one, two = topic(4), topic(4)
    rows = [
        (b"k", b"v", one, 3, 1_600_000_000_123, [("a", b"1"), ("a", None)]),
        (None, b"", two, 2, 5, []),
        (b"n", None, two, None, 6, None),
    ]
    schema = (
        "key binary, value binary, topic string, partition int, timestamp bigint, "
        "headers array<struct<key: string, value: binary>>"
    )
    save(spark.createDataFrame(rows, schema))
    found = read(f"{one},{two}", includeHeaders="true").selectExpr(
        "key", "value", "topic", "partition", "unix_millis(timestamp) AS ms", "headers"
    )
    by_topic = {(r.topic, r.ms): r for r in found.collect()}
    first = by_topic[one, 1_600_000_000_123]
    assert (bytes(first.key), bytes(first.value), first.partition) == (b"k", b"v", 3)
    assert [(h.key, h.value) for h in first.headers] == [("a", b"1"), ("a", None)]
    second, third = by_topic[two, 5], by_topic[two, 6]
    assert (second.key, bytes(second.value), second.partition, second.headers) == (
        None,
        b"",
        2,
        None,
    )
    assert (bytes(third.key), third.value) == (b"n", None)


def test_timestamps_of_a_read_are_kept_by_a_write(
    spark: SparkSession, save: Save, read: Read, topic: Make
) -> None:
    name, copy = topic(1), topic(1)
    frame = spark.range(10).select(
        F.lit("v").alias("value"), F.timestamp_millis(F.col("id") * 1001 - 1).alias("timestamp")
    )
    save(frame, name)
    save(read(name).select("key", "value", "timestamp"), copy)
    assertDataFrameEqual(read(copy).drop("topic"), read(name).drop("topic"))
    assert read(copy).selectExpr("unix_millis(min(timestamp)) AS t").collect()[0].t == -1


def test_what_was_read_can_be_written_as_it_is(
    spark: SparkSession, save: Save, read: Read, topic: Make
) -> None:
    """What a write cannot set, such as the offset, is passed over."""
    name, copy = topic(2), topic(2)
    kinds = (
        "key string, value string, partition int, headers array<struct<key:string,value:binary>>"
    )
    rows = [("k", "v", 1, [("h", b"1")]), (None, "w", 0, None), ("l", "x", 1, None)]
    save(spark.createDataFrame(rows, kinds), name)
    save(read(name, includeHeaders="true", includeBatchInfo="true"), copy)
    official = [read(t, includeHeaders="true").drop("topic") for t in (copy, name)]
    assertDataFrameEqual(*official)


def test_order_within_a_partition_is_kept(
    spark: SparkSession, save: Save, read: Read, topic: Make
) -> None:
    name = topic(1)
    frame = spark.range(0, 50_000, 1, 1).selectExpr("string(id) AS value")
    save(frame, name, **{"kafka.batch.size": "20k"})
    found = read(name).selectExpr("offset", "int(string(value)) AS n")
    assert found.count() == 50_000
    assert found.filter("offset <> n").count() == 0


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("'v' AS value", {}, "set the option topic"),
        ("'k' AS key", {"topic": "t"}, "needs a column value"),
        ("1 AS value", {"topic": "t"}, "column value must be binary or string"),
        ("'v' AS value, 1 AS colour", {"topic": "t"}, "column colour cannot be written"),
        ("'v' AS value", {"topic": "no-such-topic"}, "there is no topic no-such-topic"),
    ],
)
def test_mistakes_are_one_clear_sentence(
    spark: SparkSession, save: Save, columns: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(PySparkException, match=says):
        save(spark.range(1).selectExpr(*columns.split(", ")), **options)


def test_overwriting_a_topic_is_refused(spark: SparkSession, topic: Make, bootstrap: str) -> None:
    writer = spark.range(1).selectExpr("'v' AS value").write.format("klamm").mode("overwrite")
    with pytest.raises(PySparkException, match="a topic cannot be overwritten"):
        writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic()).save()


def test_partition_that_does_not_exist_is_refused(
    spark: SparkSession, save: Save, topic: Make
) -> None:
    frame = spark.range(1).selectExpr("'v' AS value", "int(7) AS partition")
    with pytest.raises(PySparkException, match=r"partition 7 of .*, which has 2"):
        save(frame, topic(2))


def test_speculation_is_refused(spark: SparkSession, save: Save, read: Read, topic: Make) -> None:
    """T10: of two copies of a task, both would write."""
    name = topic(1)
    other = spark.newSession()
    register(other)
    # What is usually set before Spark starts.
    other.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    other.conf.set("spark.speculation", "true")
    with pytest.raises(PySparkException, match=r"set spark\.speculation=false"):
        save(other.range(3).selectExpr("string(id) AS value"), name)
    assert read(name).count() == 0
