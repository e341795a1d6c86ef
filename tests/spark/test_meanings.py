"""What the options and columns of Spark's own connector mean, held to without a query around them.

Planning, streams and tasks are called as Spark would call them; `test_connector` puts both sources
side by side where the connector's jars are at hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable

from klamm.client.blocking.lookup import Lookup
from klamm.client.metadata import View
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.source.datasource import KlammReader, KlammStreamReader
from klamm.pipelines.source.fetcher import read_range
from klamm.pipelines.source.options import ReadOptions, parse_read, parse_write
from klamm.pipelines.source.planning import plan_batch
from klamm.pipelines.source.ranges import DataLost, Offsets, StreamOffsets
from klamm.pipelines.source.sink import write_frames
from klamm.pipelines.source.stream import Stream

from .conftest import numbered

Make = Callable[..., str]
Fill = Callable[..., None]
Asked = Callable[..., ReadOptions]


@pytest.fixture
def asked(bootstrap: str) -> Asked:
    """The options of a read."""

    def parse(topic: str | None = None, *, streaming: bool = False, **more: str) -> ReadOptions:
        base = {"kafka.bootstrap.servers": bootstrap}
        chosen = {} if topic is None else {"subscribe": topic}
        return parse_read(base | chosen | more, streaming=streaming)

    return parse


def _planned(options: ReadOptions) -> list[tuple[int, int, int]]:
    return [(r.partition, r.start, r.stop) for split in plan_batch(options) for r in split]


def _size(stream: Stream, start: StreamOffsets, end: StreamOffsets) -> int:
    return sum(r.size for split in stream.plan(start, end) for r in split)


def test_an_end_past_the_log_is_a_loss_at_once(asked: Asked, topic: Make, fill: Fill) -> None:
    """The connector waits for such records until its poll times out."""
    name = topic(1)
    fill(name, numbered(10, 1))
    far = {"endingOffsets": json.dumps({name: {"0": 99}})}
    with pytest.raises(DataLost, match="ends at 10, before the offset 99 it was to be read to"):
        plan_batch(asked(name, **far))
    assert _planned(asked(name, **far, failOnDataLoss="false")) == [(0, 0, 10)]


def test_an_end_before_the_start_is_a_mistake(asked: Asked, topic: Make, fill: Fill) -> None:
    name = topic(1)
    fill(name, [(0, b"k", b"v", 1000 * i) for i in range(1, 11)])
    start, end = (json.dumps({name: {"0": offset}}) for offset in (5, 2))
    wrong = (
        {"startingOffsets": start, "endingOffsets": end},
        {"startingTimestamp": "6000", "endingTimestamp": "3000"},
    )
    for options in wrong:
        with pytest.raises(UsageError, match="from offset 5 to 2, which lies before it"):
            plan_batch(asked(name, **options, failOnDataLoss="false"))


def test_a_pattern_leaves_the_clusters_own_topics_out(
    asked: Asked, topic: Make, fill: Fill, lookup: Lookup
) -> None:
    """And matches anywhere in a name, as the connector's does."""
    name = topic(1)
    fill(name, numbered(1, 1))
    lookup.committed(f"g-{name}")  # there is a topic for commits now
    internal = {t.name for t in lookup.view(None).topics.values() if t.is_internal}
    assert internal

    def read(pattern: str) -> set[str]:
        splits = plan_batch(asked(subscribePattern=pattern, endingTimestamp="99999999999999"))
        return {r.topic for split in splits for r in split}

    everything = read(" .* ")
    assert name in everything
    assert not everything & internal
    assert read(name[3:-3]) == {name}
    assert read(f"^{name[1:]}") == set()


def test_an_assigned_partition_must_be_there_at_first_and_may_be_lost_later(
    asked: Asked, topic: Make, fill: Fill, lookup: Lookup
) -> None:
    name = topic(2)
    fill(name, numbered(4, 2))
    both, far = (json.dumps({name: partitions}) for partitions in ([0, 1], [0, 7]))
    for begin in (plan_batch, lambda options: Stream(options).first()):
        with pytest.raises(UsageError, match=f"there is no partition {name}-7"):
            begin(asked(assign=far, streaming=begin is not plan_batch))
    strict, lenient = (
        Stream(asked(assign=both, streaming=True, failOnDataLoss=fails))
        for fails in ("true", "false")
    )
    first = strict.first()
    lookup.delete(name)
    while name in lookup.view([name]).topics:
        pass
    with pytest.raises(DataLost, match=f"{name}-0 is gone; {name}-1 is gone"):
        strict.latest(first, None)
    assert lenient.latest(first, None).offsets == {}
    with pytest.raises(DataLost, match=f"{name}-0 is gone; {name}-1 is gone"):
        strict.plan(first, first)


def test_a_new_partition_that_has_lost_its_start_is_a_loss(
    asked: Asked, topic: Make, fill: Fill, bootstrap: str
) -> None:
    name = topic(1)
    strict, lenient = (
        Stream(asked(name, streaming=True, failOnDataLoss=fails)) for fails in ("true", "false")
    )
    first = strict.first()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(name, 2)])[name].result(30)
    fill(name, [(1, b"k", b"v")] * 5)
    (gone,) = admin.delete_records([Place(name, 1, 2)]).values()
    gone.result(30)
    end = strict.latest(first, None)
    with pytest.raises(DataLost, match=f"{name}-1 begins at 2: offsets 0 to 1 are gone"):
        strict.plan(first, end)
    assert _size(lenient, first, end) == 3


def test_a_position_past_the_end_goes_on_at_the_end_where_a_loss_is_accepted(
    asked: Asked, topic: Make, fill: Fill
) -> None:
    """It must not stay where it is until the log has grown that far, and miss all of that."""
    name = topic(1)
    fill(name, numbered(10, 1))
    stream = Stream(asked(name, streaming=True, failOnDataLoss="false"))
    ahead = StreamOffsets({TopicPartition(name, 0): 500})
    end = stream.latest(ahead, None)
    assert end.offsets == {TopicPartition(name, 0): 10}
    assert _size(stream, ahead, end) == 0
    fill(name, numbered(5, 1))
    assert _size(stream, end, stream.latest(end, None)) == 5


def test_a_topic_created_again_is_read_also_where_it_ends_like_the_old_one(
    asked: Asked, topic: Make, fill: Fill, lookup: Lookup
) -> None:
    name = topic(1)
    fill(name, numbered(4, 1))
    options = asked(name, streaming=True, onTopicRecreated="restart")
    old = Stream(options).first()
    lookup.delete(name)
    lookup.create(name, 1, configs={})
    fill(name, numbered(4, 1))
    stream = Stream(options)
    assert _size(stream, old, stream.latest(old, None)) == 4


class _Growing(Stream):
    """A stream under which records arrive between two look-ups of the ends."""

    grow: Callable[[], None] | None = None

    def _ends(self, view: View) -> dict[TopicPartition, int]:
        found = super()._ends(view)
        if self.grow is not None:
            self.grow()
            self.grow = None
        return found


def test_ends_before_the_position_are_asked_for_again(
    asked: Asked, topic: Make, fill: Fill
) -> None:
    """A leader that was elected just now may not know yet how much is committed."""
    name = topic(1)
    fill(name, numbered(10, 1))
    here: Offsets = {TopicPartition(name, 0): 12}
    stream = _Growing(asked(name, streaming=True))
    stream.grow = lambda: fill(name, numbered(5, 1))
    assert stream.latest(StreamOffsets(here), None).offsets == {TopicPartition(name, 0): 15}
    hasty = _Growing(asked(name, streaming=True, **{"fetchOffset.numRetries": "0"}))
    hasty.grow = lambda: fill(name, numbered(5, 1))
    with pytest.raises(DataLost, match="ends at 15, before the position 17"):
        hasty.latest(StreamOffsets({TopicPartition(name, 0): 17}), None)


def test_only_later_micro_batches_wait_for_more_records(
    asked: Asked, topic: Make, fill: Fill
) -> None:
    name = topic(1)
    fill(name, numbered(5, 1))
    waiting = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1d"}
    options = asked(name, streaming=True, startingOffsets="earliest", **waiting)
    reader = KlammStreamReader(options, ("value",))
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert first["topics"] == {name: {"0": 5}}
    fill(name, numbered(5, 1))
    assert reader.latestOffset(first, limit) is first
    # Trigger.Once takes what there is, whatever the limits say.
    assert reader.latestOffset(first, ReadAllAvailable())["topics"] == {name: {"0": 10}}
    fill(name, numbered(5, 1))
    assert reader.latestOffset(first, limit)["topics"] == {name: {"0": 15}}


def test_tasks_hand_over_frames(asked: Asked, topic: Make, fill: Fill) -> None:
    """T12: rows one by one would be read just as well, and eight times as slowly."""
    name = topic(1)
    fill(name, numbered(10, 1))
    batch = KlammReader(asked(name), ("offset", "value"))
    streamed = asked(name, streaming=True, startingOffsets="earliest")
    stream = KlammStreamReader(streamed, ("offset", "value"))
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    (whole,), (planned,) = batch.partitions(), stream.partitions(start, end)
    for frames in (list(batch.read(whole)), list(stream.read(planned))):
        assert {type(frame) for frame in frames} == {pa.RecordBatch}
        assert sum(frame.num_rows for frame in frames) == 10


def _written(bootstrap: str, topic: str, *frames: pa.RecordBatch) -> int:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    return write_frames(parse_write(given), frames, task=0).records


def _values(options: ReadOptions, column: str = "value") -> list[Any]:
    found: list[Any] = []
    for split in plan_batch(options):
        for piece in split:
            for frame in read_range(options, piece, (column,)):
                found += frame.column(column).to_pylist()
    return found


def test_a_batch_is_filled_by_many_frames(asked: Asked, topic: Make, bootstrap: str) -> None:
    """T22: Spark's frames are smaller than a good batch."""
    name = topic(1)
    frames = [pa.RecordBatch.from_pydict({"value": [f"{n}"] * 10}) for n in range(20)]
    assert _written(bootstrap, name, *frames) == 200
    assert _values(asked(name)) == [b"%d" % n for n in range(20) for _ in range(10)]
    assert len(_values(asked(name, records="batches"), "raw")) == 1


def _frame(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_times_are_written_to_the_millisecond(asked: Asked, topic: Make, bootstrap: str) -> None:
    """Also those that a double does not hold, those before 1970, and none at all."""
    name = topic(1)
    micros = [-1, 9_007_199_254_740_993_999, 1_600_000_000_123_456, None]
    times = pa.array(micros, pa.timestamp("us", tz="UTC"))
    _written(bootstrap, name, _frame(value=["v"] * 4, timestamp=times))
    *given, stamped = _values(asked(name), "timestamp_ms")
    assert given == [-1, 9_007_199_254_740_993, 1_600_000_000_123]
    assert stamped > 1_600_000_000_123


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"partition": pa.array([-1], pa.int32())}, "a row is meant for partition -1"),
        ({"headers": [[{"key": None, "value": b"x"}]]}, "a header without a key"),
        ({"headers": [[None]]}, "a header without a key"),
    ],
)
def test_rows_that_no_record_can_be_made_of(
    topic: Make, bootstrap: str, lookup: Lookup, columns: dict[str, Any], says: str
) -> None:
    name = topic(1)
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    if "headers" in columns:
        columns = {"headers": pa.array(columns["headers"], kind)}
    with pytest.raises(UsageError, match=says):
        _written(bootstrap, name, _frame(value=["v"], **columns))
    assert lookup.latest([TopicPartition(name, 0)]) == {TopicPartition(name, 0): 0}
