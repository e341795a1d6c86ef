"""Reads and writes of users, killed at each step and run again: nothing is lost, counts are exact.

A stream from klamm to klamm dies at its steps in turn (see `dying_source`), every time in the ruins
of all the deaths before, and is then run to its end. A death when the log of offsets is written and
nothing else is in `test_examples`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from klamm.client.blocking.lookup import Lookup
from klamm.model.names import TopicPartition
from klamm.pipelines.source.options import parse_read
from klamm.pipelines.source.ranges import StreamOffsets
from klamm.pipelines.source.stream import Stream

from . import dying, dying_jobs, dying_source
from .conftest import numbered

Make = Callable[..., str]
Fill = Callable[..., None]
Read = Callable[..., DataFrame]
KEYS = 10


@pytest.fixture(scope="module", autouse=True)
def _known(spark: SparkSession) -> None:
    dying_source.introduce(spark)


class Query:
    """Collects by key and writes what is collected, some records a micro-batch."""

    def __init__(self, spark: SparkSession, bootstrap: str, place: Path, *topics: str) -> None:
        self._spark, self._bootstrap, self._place = spark, bootstrap, place
        self.source, self.target = topics

    def run(self, deadly: str = "") -> None:
        """To the end of what is there, or to the death of a process."""
        servers = {"kafka.bootstrap.servers": self._bootstrap}
        given = {
            "subscribe": self.source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "40",
            "kafka.group.id": f"g-{self.source}",
            "commitOffsets": "true",
        }
        frame = self._spark.readStream.format("klamm").options(**servers, **given).load()
        values = "concat_ws(' ', sort_array(collect_list(string(value)))) AS value"
        running = (
            frame.groupBy("key")
            .agg(F.expr(values))
            .coalesce(1)
            .writeStream.outputMode("complete")
            .format("dying")
            .options(**servers, topic=self.target, deadly=deadly)
            .option("kafka.batch.size", "100")
            .option("checkpointLocation", str(self._place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        if not deadly:
            assert running.awaitTermination(200)
            return
        with pytest.raises(PySparkException):
            running.awaitTermination(200)

    def position(self) -> int:
        """Where the last micro-batch that counts as done has ended."""
        logged = self._place / "checkpoint"
        done = [int(p.name) for p in (logged / "commits").glob("*") if p.name.isdigit()]
        if not done:
            return 0
        lines = (logged / "offsets" / str(max(done))).read_text().splitlines()
        return sum(json.loads(lines[-1])["topics"][self.source].values())


def _collected(count: int) -> dict[str, str]:
    """What is to be found of each key when so many records have been read."""
    of_key = {f"k{k}": [f"v{i}" for i in range(count) if i % KEYS == k] for k in range(KEYS)}
    return {key: " ".join(sorted(values)) for key, values in of_key.items()}


def test_stream(
    spark: SparkSession,
    bootstrap: str,
    topic: Make,
    fill: Fill,
    read: Read,
    lookup: Lookup,
    tmp_path: Path,
) -> None:
    """Results arrive at least once; in each of them every record counts once."""
    query = Query(spark, bootstrap, tmp_path, topic(1), topic(1))
    fill(query.source, [(0, b"k%d" % (i % KEYS), b"v%d" % i) for i in range(80)])
    source, target = (TopicPartition(name, 0) for name in (query.source, query.target))
    written = [0]
    for step in ("send batch 2", "write the log of commits"):
        query.run(deadly=step)
        written.append(lookup.latest([target])[target])
        # What is half done does not count, neither for Spark nor for the group.
        assert query.position() == 0, step
        assert lookup.committed(f"g-{query.source}")[source].offset == 0
    assert 0 < written[1] < KEYS
    assert written[2] == written[1] + KEYS
    query.run()
    assert (query.position(), lookup.latest([target])[target]) == (80, written[1] + 3 * KEYS)
    assert lookup.committed(f"g-{query.source}")[source].offset == 40
    rows = read(query.target).selectExpr("string(key) AS key", "string(value) AS value")
    found = Counter((r.key, r.value) for r in rows.collect())
    halfway, whole = _collected(40), _collected(80)
    assert set(found) == set(halfway.items()) | set(whole.items())
    assert all(found[item] == 1 for item in whole.items())


@pytest.mark.parametrize("memory", ["initialOffsetsPath", "kafka.group.id"])
def test_first_offsets(
    bootstrap: str, topic: Make, fill: Fill, tmp_path: Path, memory: str
) -> None:
    """Kept before anything is read: they are there, or nothing was read."""
    name = topic(1)
    fill(name, numbered(10, 1))
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": name}
    if memory == "initialOffsetsPath":
        given[memory] = str(tmp_path / "first.json")
    else:
        given |= {memory: f"g-{name}", "commitOffsets": "true"}
    options = parse_read(given, streaming=True)
    job = (dying_jobs.first_offsets, tmp_path / "notes", options)
    kind = "os.rename #1" if memory == "initialOffsetsPath" else "OFFSET_COMMIT #1"
    dying.run(*job, deadly=kind)
    assert not (tmp_path / "first.json").exists()
    fill(name, numbered(10, 1))
    (step,) = dying.run(*job)
    assert step.startswith(kind.split(" ")[0])
    fill(name, numbered(10, 1))
    assert list(Stream(options).first().offsets.values()) == [20]


def test_commits_to_the_group(
    bootstrap: str, topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    name = topic(1)
    fill(name, numbered(10, 1))
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": name, "commitOffsets": "true"}
    options = parse_read(given | {"kafka.group.id": f"g-{name}"}, streaming=True)
    end = StreamOffsets({TopicPartition(name, 0): 7})
    job = (dying_jobs.commit, tmp_path / "notes", options, end)
    dying.run(*job, deadly="OFFSET_COMMIT #1")
    assert lookup.committed(f"g-{name}") == {}
    dying.run(*job)
    assert lookup.committed(f"g-{name}")[TopicPartition(name, 0)].offset == 7


def test_batch_write(
    spark: SparkSession, bootstrap: str, topic: Make, read: Read, lookup: Lookup
) -> None:
    """At least once: what was written before the death stays, and the next run writes it again."""
    name = topic(1)
    rows = spark.range(0, 40, 1, 1).selectExpr("string(id) AS value")

    def write(deadly: str) -> None:
        writer = rows.write.format("dying").mode("append").option("topic", name)
        writer = writer.option("kafka.batch.size", "150").option("deadly", deadly)
        writer.option("kafka.bootstrap.servers", bootstrap).save()

    with pytest.raises(Py4JJavaError, match="Python worker exited unexpectedly"):
        write("send batch 2")
    end = TopicPartition(name, 0)
    some = lookup.latest([end])[end]
    assert 0 < some < 40
    write("")
    found = Counter(bytes(r.value) for r in read(name).select("value").collect())
    assert set(found) == {b"%d" % i for i in range(40)}
    assert sum(found.values()) == some + 40
