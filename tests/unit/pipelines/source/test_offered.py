"""Rows made into frames, for the streams of Spark 4.0."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from klamm.pipelines.source.offered import frames_of


def test_frames_of_rows() -> None:
    header = Row("key", "value")("h", b"1")
    headers = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
    schema = (
        StructType()
        .add("key", BinaryType())
        .add("value", StringType())
        .add("offset", LongType())
        .add("partition", IntegerType())
        .add("timestamp", TimestampType())
        .add("isControl", BooleanType())
        .add("headers", headers)
    )
    at = datetime(2026, 11, 18, 7, tzinfo=UTC)
    here = at.astimezone().replace(tzinfo=None)  # as Spark hands it to Python
    row = (bytearray(b"k"), "v", 3, 1, here, True, [header])
    nothing = (None,) * 7
    first, second = frames_of([row] * 10_000 + [nothing], schema)
    assert (first.num_rows, second.num_rows) == (10_000, 1)
    assert first.slice(0, 1).to_pylist() == [
        {
            "key": b"k",
            "value": "v",
            "offset": 3,
            "partition": 1,
            "timestamp": at,
            "headers": [{"key": "h", "value": b"1"}],
        }
    ]
    assert second.column("headers").null_count == 1
    assert first.schema == second.schema
    assert first.schema.field("timestamp").type == pa.timestamp("us", "UTC")
