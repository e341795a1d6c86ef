"""Streaming reads and writes: first offsets, limits, restarts, lost data, commits."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from klamm.client.blocking.lookup import Lookup
from klamm.model.errors import ErrorCode, KlammError
from klamm.model.names import TopicPartition
from klamm.pipelines.source.datasource import KlammStreamReader
from klamm.pipelines.source.options import parse_read
from klamm.pipelines.source.ranges import DataLost, StreamOffsets
from klamm.pipelines.source.stream import Stream
from klamm.spark import KlammProgressListener, read_stream

from .conftest import numbered

Make = Callable[..., str]
Fill = Callable[..., None]
Read = Callable[..., DataFrame]
Open = Callable[..., Stream]


@pytest.fixture
def open_stream(bootstrap: str) -> Open:
    """A stream's decisions, without a Spark around them."""

    def build(topic: str, **options: str) -> Stream:
        base = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        return Stream(parse_read(base | options, streaming=True))

    return build


def _offsets(found: StreamOffsets) -> list[int]:
    return [found.offsets[tp] for tp in sorted(found.offsets)]


def _planned(stream: Stream, start: StreamOffsets, end: StreamOffsets) -> int:
    return sum(r.size for split in stream.plan(start, end) for r in split)


def test_first_offsets_are_computed_once(open_stream: Open, topic: Make, fill: Fill) -> None:
    """T3: Spark asks twice and uses the second answer; a busy topic must not move it."""
    name = topic(1)
    fill(name, numbered(10, 1))
    stream = open_stream(name)
    first = stream.first()
    fill(name, numbered(50, 1))
    assert stream.first() == first
    assert _planned(stream, first, stream.latest(first, None)) == 50


def test_first_offsets_survive_a_failed_first_micro_batch(
    open_stream: Open, topic: Make, fill: Fill, tmp_path: Path
) -> None:
    """T4: Spark does not keep the start of micro-batch 0."""
    name = topic(1)
    fill(name, numbered(10, 1))
    options = {"initialOffsetsPath": str(tmp_path / "first.json")}
    first = open_stream(name, **options).first()
    fill(name, numbered(50, 1))
    again = open_stream(name, **options)
    assert again.first() == first
    assert _planned(again, again.first(), again.latest(again.first(), None)) == 50


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"t": 3}', '{"ids": 1, "topics": 2, "v": 1}', "\0"]
)
def test_what_are_no_first_offsets_is_said(open_stream: Open, tmp_path: Path, text: str) -> None:
    path = tmp_path / "first.json"
    path.write_text(text)
    with pytest.raises(KlammError, match=rf"^{path} does not hold the first offsets .* Remove it"):
        open_stream("t", initialOffsetsPath=str(path)).first()


def test_first_offsets_can_live_in_the_group(
    open_stream: Open, topic: Make, fill: Fill, lookup: Lookup
) -> None:
    name = topic(1)
    fill(name, numbered(10, 1))
    options = {"kafka.group.id": f"g-{name}", "commitOffsets": "true"}
    first = open_stream(name, **options).first()
    fill(name, numbered(5, 1))
    assert open_stream(name, **options).first() == first
    assert lookup.committed(f"g-{name}")[TopicPartition(name, 0)].metadata == "initial"


def test_latest_without_a_memory_is_warned_about(
    open_stream: Open, topic: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        open_stream(topic(1)).first()
    assert "initialOffsetsPath" in caplog.text


def test_start_past_the_end_is_data_loss(open_stream: Open, topic: Make, fill: Fill) -> None:
    name = topic(1)
    fill(name, numbered(110, 1))
    ahead = StreamOffsets({TopicPartition(name, 0): 500})
    with pytest.raises(DataLost, match="ends at 110, before the position 500"):
        open_stream(name).latest(ahead, None)
    with pytest.raises(DataLost, match="ends at 110, before the position 500"):
        open_stream(name).plan(ahead, StreamOffsets({TopicPartition(name, 0): 110}))


def test_nothing_new_is_the_start_itself(bootstrap: str, topic: Make, fill: Fill) -> None:
    """T5: offsets are compared as text, and a different one would be an empty micro-batch."""
    name = topic(3)
    fill(name, numbered(9, 3))
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": name}
    reader = KlammStreamReader(parse_read(options, streaming=True), ("value",))
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    assert reader.latestOffset(start, limit) is start
    fill(name, numbered(3, 3))
    end = reader.latestOffset(start, limit)
    assert json.dumps(end) == json.dumps(json.loads(json.dumps(end, sort_keys=True)))
    assert reader.reportLatestOffset() == end


def test_limit_is_shared_out(open_stream: Open, topic: Make, fill: Fill) -> None:
    name = topic(2)
    fill(name, [(0, None, b"x")] * 90 + [(1, None, b"x")] * 10)
    stream = open_stream(name, startingOffsets="earliest")
    assert _offsets(stream.latest(stream.first(), 20)) == [18, 2]


def test_too_few_records_wait(open_stream: Open, topic: Make, fill: Fill) -> None:
    name = topic(1)
    fill(name, numbered(5, 1))
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "10"}
    stream, hasty = (open_stream(name, maxTriggerDelay=d, **options) for d in ("1h", "0s"))
    first = stream.latest(stream.first(), None)
    assert hasty.latest(hasty.first(), None) == first
    fill(name, numbered(5, 1))
    assert stream.latest(first, None) == first
    assert _offsets(hasty.latest(first, None)) == [10]
    fill(name, numbered(5, 1))
    assert _offsets(stream.latest(first, None)) == [15]


def test_new_partitions_are_read_from_their_start(
    open_stream: Open, topic: Make, fill: Fill, bootstrap: str
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    name = topic(1)
    fill(name, numbered(4, 1))
    stream = open_stream(name)
    first = stream.first()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(name, 2)])[name].result(30)
    fill(name, [(1, b"k", b"v")] * 3)
    end = stream.latest(first, None)
    assert _offsets(end) == [4, 3]
    assert _planned(stream, first, end) == 3


def _again(lookup: Lookup, name: str, partitions: int) -> None:
    """Deletes a topic and creates it anew, when the old one is gone."""
    from klamm.client.errors import Answered

    lookup.delete(name)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            lookup.create(name, partitions, configs={})
        except Answered as fault:
            if fault.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        else:
            return
    raise AssertionError(f"{name} was not deleted")


def test_recreated_topic_is_known_by_its_id(
    open_stream: Open, topic: Make, fill: Fill, lookup: Lookup
) -> None:
    name = topic(1)
    fill(name, numbered(4, 1))
    old = open_stream(name).first()
    _again(lookup, name, 1)
    fill(name, numbered(9, 1))
    with pytest.raises(DataLost, match="deleted and created again"):
        open_stream(name).latest(old, None)
    stream = open_stream(name, onTopicRecreated="restart")
    end = stream.latest(old, None)
    assert _planned(stream, old, end) == 9
    ignoring = open_stream(name, onTopicRecreated="ignore")
    assert _planned(ignoring, old, ignoring.latest(old, None)) == 5


def test_recreated_topic_may_have_fewer_partitions(
    open_stream: Open, topic: Make, fill: Fill, lookup: Lookup
) -> None:
    name = topic(3)
    fill(name, numbered(9, 3))
    old = open_stream(name).first()
    _again(lookup, name, 1)
    fill(name, numbered(4, 1))
    stream = open_stream(name, onTopicRecreated="restart")
    end = stream.latest(old, None)
    assert _offsets(end) == [4]
    assert _planned(stream, old, end) == 4


def test_run_to_what_is_available_ends_there(
    open_stream: Open, topic: Make, fill: Fill, lookup: Lookup
) -> None:
    name = topic(1)
    fill(name, numbered(5, 1))
    stream = open_stream(name, startingOffsets="earliest")
    stream.fix_target()
    fill(name, numbered(5, 1))
    end = stream.latest(stream.first(), None)
    assert _offsets(end) == [5]
    assert stream.latest(end, None) == end
    lookup.delete(name)
    while name in lookup.view([name]).topics:
        pass
    with pytest.raises(DataLost, match="is gone"):
        stream.latest(end, None)


def test_deleted_topic_is_data_loss(
    open_stream: Open, topic: Make, fill: Fill, lookup: Lookup
) -> None:
    name = topic(1)
    fill(name, numbered(4, 1))
    stream = open_stream(name, startingOffsets="earliest")
    first = stream.first()
    lookup.delete(name)
    while name in lookup.view([name]).topics:
        pass
    with pytest.raises(DataLost, match=f"{name}-0 is gone"):
        stream.latest(first, None)


def _source(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("klamm").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).options(**options).load()


def test_available_now_reads_in_several_micro_batches(
    spark: SparkSession, bootstrap: str, topic: Make, fill: Fill, tmp_path: Path
) -> None:
    name = topic(2)
    fill(name, numbered(100, 2))
    seen: list[int] = []
    frame = _source(spark, bootstrap, name, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    query = (
        frame.writeStream.foreachBatch(lambda rows, _id: seen.append(rows.count()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(200)
    assert sum(seen) == 100
    assert len(seen) == 3
    progress = query.lastProgress
    assert progress is not None
    assert json.loads(progress["sources"][0]["latestOffset"])["topics"][name] == {"0": 50, "1": 50}


def _counted(
    spark: SparkSession, bootstrap: str, source: str, target: str, checkpoint: Path
) -> Any:
    """Counts by key and writes the counts back: a stream a user would write."""
    orders = read_stream(
        spark, bootstrap, source, checkpoint=checkpoint, startingOffsets="earliest"
    )
    counts = orders.groupBy("key").count()
    return (
        counts.selectExpr("key", "string(count) AS value")
        .writeStream.format("klamm")
        .outputMode("complete")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def test_restarted_stream_gives_exact_counts(
    spark: SparkSession, bootstrap: str, read: Read, topic: Make, fill: Fill, tmp_path: Path
) -> None:
    source, target = topic(2), topic(1)
    for part in range(3):
        fill(source, [(i % 2, b"k%d" % (i % 5), b"v") for i in range(100)])
        query = _counted(spark, bootstrap, source, target, tmp_path)
        assert query.awaitTermination(200), part
    newest = read(target).selectExpr(
        "string(key) AS key", "max_by(string(value), offset) OVER (PARTITION BY key) AS n"
    )
    assert {r.key: r.n for r in newest.collect()} == {f"k{i}": "60" for i in range(5)}


def test_failed_first_micro_batch_loses_nothing(
    spark: SparkSession, bootstrap: str, topic: Make, fill: Fill, tmp_path: Path
) -> None:
    """T4 in a running query: `latest`, a busy topic, and a sink that fails once."""
    name = topic(1)
    fill(name, numbered(10, 1))
    seen: list[int] = []

    def run(fails: bool) -> Any:
        def sink(rows: DataFrame, _id: int) -> None:
            if fails:
                raise RuntimeError("the sink is down")
            seen.extend(r.offset for r in rows.select("offset").collect())

        frame = read_stream(spark, bootstrap, name, checkpoint=tmp_path)
        return frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path))

    query = run(fails=True).trigger(processingTime="100 milliseconds").start()
    deadline = time.monotonic() + 200
    while not (tmp_path / "klamm-initial.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)  # the query may end meanwhile; its end is looked at below
    fill(name, numbered(20, 1))
    with pytest.raises(PySparkException, match="the sink is down"):
        query.awaitTermination(200)
    fill(name, numbered(30, 1))
    assert run(fails=False).trigger(availableNow=True).start().awaitTermination(200)
    assert sorted(seen) == list(range(10, 60))


def test_group_commits_and_lag(
    spark: SparkSession,
    bootstrap: str,
    topic: Make,
    fill: Fill,
    lookup: Lookup,
    tmp_path: Path,
) -> None:
    name = topic(1)
    fill(name, numbered(30, 1))
    group = f"g-{name}"
    listener = KlammProgressListener(bootstrap, group)
    spark.streams.addListener(listener)
    try:
        frame = _source(
            spark, bootstrap, name, startingOffsets="earliest", maxOffsetsPerTrigger="20"
        )
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(200)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(listener)
    assert lookup.committed(group)[TopicPartition(name, 0)].offset == 30
    assert listener.lag == {TopicPartition(name, 0): 0}


def test_source_commits_where_asked(
    open_stream: Open, topic: Make, fill: Fill, lookup: Lookup
) -> None:
    """T7: Spark reports a micro-batch to the source when it makes the next one."""
    name = topic(1)
    fill(name, numbered(10, 1))
    options = {"kafka.group.id": f"g-{name}", "commitOffsets": "true"}
    stream = open_stream(name, startingOffsets="earliest", **options)
    stream.commit(stream.latest(stream.first(), 4))
    assert lookup.committed(f"g-{name}")[TopicPartition(name, 0)].offset == 4
