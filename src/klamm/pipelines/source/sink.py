"""Writing frames to topics: what one task of a sink does, without Spark.

Rows of a partition keep their order. A partition's open batch lives across frames and is sent when
it is full; the task reports only after every answer has come. At least once: a task that runs again
writes its rows again, while a request that is sent again within a task is recognised by the broker.
Exactly once is the matter of `sink_once`, which runs this in a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from klamm.client.blocking.transactions import Holder
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.records.batches import (
    OpenBatch,
    Pieces,
    Records,
    by_partition,
    choose_partitions,
    headers_of,
    no_headers,
    pieces_of,
)
from klamm.pipelines.source.options import WriteOptions
from klamm.pipelines.source.producer import BatchProducer, Sent


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The report of a task: counts and offsets by partition."""

    partitions: Mapping[TopicPartition, Sent]

    @property
    def records(self) -> int:
        """All records."""
        return sum(s.records for s in self.partitions.values())


def write_frames(
    options: WriteOptions, frames: Iterable[Any], *, task: int, holder: Holder | None = None
) -> TaskReport:
    """Writes every frame and waits until all of it is acknowledged."""
    producer: BatchProducer | None = None
    boxes: dict[TopicPartition, OpenBatch] = {}
    row = 0
    try:
        for frame in frames:
            if frame.num_rows == 0:
                continue
            producer = producer or _producer(options, holder)
            parts = list(_sorted_out(options, producer, frame, task, row))
            producer.expect(tp for tp, _, _ in parts)
            for tp, records, rows in parts:
                box = boxes.get(tp)
                if box is None:
                    box = boxes[tp] = OpenBatch(options.batch_bytes)
                for full in box.fill(records, rows):
                    producer.send(tp, full)
            row += frame.num_rows
        if producer is None:
            return TaskReport({})
        for tp, box in boxes.items():
            if box.count:
                producer.send(tp, box)
        producer.flush()
        return TaskReport(producer.sent)
    finally:
        if producer is not None:
            producer.close()


def _producer(options: WriteOptions, holder: Holder | None) -> BatchProducer:
    return BatchProducer(
        connection=options.connection,
        codec=options.codec,
        acks=options.acks,
        delivery_timeout_ms=options.delivery_timeout_ms,
        holder=holder,
    )


def _sorted_out(
    options: WriteOptions, producer: BatchProducer, frame: Any, task: int, row: int
) -> Iterable[tuple[TopicPartition, Records, Any]]:
    """The rows of a frame by partition."""
    names = frame.schema.names
    records = _records(frame)
    fixed = _column(frame, "partition") if "partition" in names else None
    for topic, rows in _by_topic(options, frame):
        count = producer.partitions(topic)
        key = Pieces(records.key.at[rows], records.key.size[rows], records.key.data)
        chosen = choose_partitions(options.partitioner, key, count, first_row=row, seed=task)
        if fixed is not None:
            chosen = _with_given(chosen, fixed.take(pa.array(rows)), topic, count)
        for partition, places in by_partition(chosen):
            yield TopicPartition(topic, partition), records, rows[places]


def _with_given(chosen: Any, column: Any, topic: str, count: int) -> Any:
    """The partition column wins over the partitioner, where it is not null."""
    missing = pc.is_null(column).to_numpy(zero_copy_only=False)
    given = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    strange = given[(given < 0) | (given >= count)]
    if len(strange):
        raise UsageError(f"a row is meant for partition {strange[0]} of {topic}, which has {count}")
    return np.where(missing, chosen, given)


def _by_topic(options: WriteOptions, frame: Any) -> Iterable[tuple[str, Any]]:
    everything = np.arange(frame.num_rows)
    if options.topic is not None:
        yield options.topic, everything
        return
    if "topic" not in frame.schema.names:
        raise UsageError("set the option topic, or give the rows a column topic")
    column = _column(frame, "topic")
    if column.null_count:
        raise UsageError("a row has no topic: set the option topic, or fill the column topic")
    coded = pc.dictionary_encode(column)
    codes = coded.indices.to_numpy()
    for code, name in enumerate(coded.dictionary.to_pylist()):
        yield name, everything[codes == code]


def _column(frame: Any, name: str) -> Any:
    return frame.column(frame.schema.get_field_index(name))


def _records(frame: Any) -> Records:
    names = frame.schema.names
    rows = frame.num_rows
    headers, count = no_headers(rows)
    if "headers" in names:
        headers, count = headers_of(_column(frame, "headers"))
    return Records(
        _times(_column(frame, "timestamp") if "timestamp" in names else None, rows),
        pieces_of(_column(frame, "key") if "key" in names else pa.nulls(rows)),
        pieces_of(_column(frame, "value")),
        headers,
        count,
    )


def _times(column: Any, rows: int) -> Any:
    """Milliseconds; the current time where none is given, as the official sink stamps them."""
    now = int(time.time() * 1000)
    if column is None:
        return np.full(rows, now, np.int64)
    scale = 1
    if pa.types.is_timestamp(column.type):
        scale = 1000
        column = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())
    given = column.fill_null(now * scale).to_numpy(zero_copy_only=False).astype(np.int64)
    return given // scale  # downwards, also before 1970
