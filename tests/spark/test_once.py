"""`delivery=exactly-once`: deaths, replays, zombies, other plans end in one copy or in a refusal.

What tasks and the driver do is run here without Spark, where every order of events can be made; the
deaths of Spark's processes are those of `dying_source`. Twenty kills in one run are in tests/fire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from klamm.client.blocking.lookup import Lookup
from klamm.client.blocking.transactions import Transactions
from klamm.client.errors import Answered
from klamm.client.requests import Committed
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.source import sink_once
from klamm.pipelines.source.offered import STREAMS_HAVE_LIMITS
from klamm.pipelines.source.options import WriteOptions, parse_write
from klamm.pipelines.source.sink_once import Prepared, Turn, prepare

from . import dying_source

Make = Callable[..., str]
Fill = Callable[..., None]
Read = Callable[..., DataFrame]


class Query:
    """A query of two tasks without Spark: values `t<task>-<row>` of each micro-batch."""

    def __init__(self, bootstrap: str, topic: str, **more: str) -> None:
        given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "delivery": "exactly-once"}
        self.options: WriteOptions = parse_write(given | more, streaming="jobId" not in more)
        self.name = f"q-{topic}"

    def task(self, batch: int, task: int, rows: int = 3) -> Prepared:
        values = [f"b{batch}-t{task}-{row}" for row in range(rows)]
        frame = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string())})
        return prepare(self.options, [frame], Turn(self.name, batch, task))[1]

    def commit(self, *prepared: Prepared) -> None:
        sink_once.commit(self.options, prepared)

    def run(self, batch: int, *rows: int) -> None:
        self.commit(*(self.task(batch, task, count) for task, count in enumerate(rows)))


@pytest.fixture
def query(bootstrap: str, topic: Make) -> Query:
    return Query(bootstrap, topic(2))


@pytest.fixture
def seen(read: Read, query: Query) -> Callable[[], Counter[str]]:
    """What committed readers find."""

    def values() -> Counter[str]:
        frame = read(query.options.topic, **{"kafka.isolation.level": "read_committed"})
        return Counter(bytes(row.value).decode() for row in frame.select("value").collect())

    return values


Seen = Callable[[], Counter[str]]


def _rows(batch: int, *counts: int) -> Counter[str]:
    return Counter(f"b{batch}-t{t}-{r}" for t, count in enumerate(counts) for r in range(count))


def test_replay_of_what_is_committed_writes_nothing(query: Query, seen: Seen) -> None:
    query.run(0, 3, 2)
    again = [query.task(0, 0, 3), query.task(0, 1, 2)]
    assert [p.holder for p in again] == [None, None]
    query.commit(*again)
    query.run(1, 3, 0, 2)  # the next may have another plan
    assert seen() == _rows(0, 3, 2) + _rows(1, 3, 0, 2)


def test_zombie_is_fenced(query: Query, seen: Seen) -> None:
    """An attempt that was given up for lost comes back to write, and to be committed."""
    zombie = query.task(0, 0)
    late = query.task(0, 0)
    assert zombie.holder is not None
    assert late.holder is not None
    with pytest.raises(Answered, match=r"PRODUCER_(FENCED|EPOCH)"):
        Transactions(query.options.connection).add(
            zombie.holder, [TopicPartition(query.options.topic or "", 1)]
        )
    with pytest.raises(KlammError, match="was taken over by another attempt"):
        query.commit(zombie)
    query.commit(late)
    assert seen() == _rows(0, 3)


def test_driver_that_dies_between_two_tasks(
    query: Query, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    end = Transactions.end

    def once(self: Transactions, holder: Any, *, commit: bool) -> None:
        if ended:
            raise KeyboardInterrupt
        ended.append(holder.transactional_id)
        end(self, holder, commit=commit)

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "end", once)
        with pytest.raises(KeyboardInterrupt):
            query.run(0, 3, 2)
    assert ended == [f"klamm-sink-{query.name}-0"]
    query.run(0, 3, 2)
    assert seen() == _rows(0, 3, 2)


def test_other_plan_is_refused(query: Query, seen: Seen) -> None:
    """Before anything of it is committed: tasks, or rows in them."""
    first, second = query.task(0, 0), query.task(0, 1)
    query.commit(first, second)
    with pytest.raises(KlammError, match="3 tasks in place of 2: nothing of it is committed"):
        query.run(0, 3, 3, 3)
    with pytest.raises(KlammError, match="other rows in its tasks"):
        query.run(0, 2, 3)
    assert seen() == _rows(0, 3, 3)


def test_checkpoint_that_was_put_back_is_refused(query: Query) -> None:
    for batch in range(3):
        query.run(batch, 1)
    with pytest.raises(KlammError, match="has written micro-batch 2 already"):
        query.run(1, 1)


def test_expired_marker_is_told(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    query.run(0, 1, 1)
    assert not caplog.records
    query.name += "-other"  # a query that nobody remembers
    query.run(7, 1, 1)
    (said,) = caplog.records
    assert "has no marker, though this is micro-batch 7" in said.getMessage()


def test_foreign_marker_is_refused(query: Query, lookup: Lookup) -> None:
    place = TopicPartition(query.options.topic or "", 0)
    lookup.commit(f"klamm-sink-{query.name}-0", {place: Committed(1, metadata="mine")})
    with pytest.raises(KlammError, match="is no marker of klamm"):
        query.run(0, 1)


def test_too_long_a_transaction_is_refused_in_words(bootstrap: str, topic: Make) -> None:
    query = Query(bootstrap, topic(1), **{"kafka.transaction.timeout.ms": "2000000000"})
    with pytest.raises(UsageError, match=r"set kafka\.transaction\.timeout\.ms to"):
        query.run(0, 1)


@pytest.fixture(scope="module")
def _known(spark: SparkSession) -> None:
    dying_source.introduce(spark)


@pytest.mark.usefixtures("_known")
def test_stream_that_dies_at_each_step(
    spark: SparkSession,
    bootstrap: str,
    query: Query,
    topic: Make,
    fill: Fill,
    seen: Seen,
    tmp_path: Path,
) -> None:
    source = topic(2)
    fill(source, [(i % 2, None, b"%d" % i) for i in range(60)])

    def run(deadly: str, splits: str = "2") -> None:
        servers = {"kafka.bootstrap.servers": bootstrap}
        frame = spark.readStream.format("klamm").options(**servers, subscribe=source)
        frame = frame.option("startingOffsets", "earliest").option("minPartitions", splits)
        if STREAMS_HAVE_LIMITS:
            frame = frame.option("maxOffsetsPerTrigger", "30")
        running = (
            frame.load()
            .select("value")
            .writeStream.format("dying")
            .options(**servers, topic=str(query.options.topic), deadly=deadly)
            .options(**{"delivery": "exactly-once", "kafka.batch.size": "100"})
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert running.awaitTermination(200)

    for step in ("send batch 2", "commit 2", "write the log of commits"):
        with pytest.raises(PySparkException):
            run(step)
        if step == "commit 2":
            with pytest.raises(PySparkException, match="tasks in place of"):
                run("", splits="6")
    run("")
    assert seen() == Counter(str(i) for i in range(60))


@pytest.mark.usefixtures("_known")
def test_batch_under_one_job_id(
    spark: SparkSession, bootstrap: str, query: Query, seen: Seen
) -> None:
    rows = spark.range(0, 40, 1, 2).selectExpr("string(id) AS value")

    def write(deadly: str, job: str = "nightly") -> None:
        writer = rows.write.format("dying").mode("append").option("deadly", deadly)
        writer = writer.option("topic", str(query.options.topic)).option("jobId", job)
        writer = writer.option("delivery", "exactly-once")
        writer.option("kafka.bootstrap.servers", bootstrap).save()

    with pytest.raises(Exception, match=r"exited unexpectedly|EOF|crashed"):
        write("commit 2")
    write("")
    write("")
    assert seen() == Counter(str(i) for i in range(40))
    write("", job="another")
    assert seen() == Counter({str(i): 2 for i in range(40)})
