"""The part of Python's data source API that came after Spark 4.0, or a stand-in for it.

| Since | What | Before it |
|---|---|---|
| 4.1 | a DataFrame is planned once | each action on it looks up the newest records again |
| 4.1 | a stream's sink gets Arrow frames | it gets rows, which are made into frames: slower |
| 4.2 | a stream is told its start and a limit | everything that is there is one micro-batch |

Everything else that klamm uses is in 4.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyspark import __version__
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from klamm.pipelines.session.versions import (
    FRAMES_FOR_STREAMS,
    LIMITS_FOR_STREAMS,
    PYSPARK_MIN,
    numbers,
)

_FRAME_ROWS: Final = 10_000
VERSION: Final = numbers(__version__) or PYSPARK_MIN
STREAMS_GET_FRAMES: Final = VERSION >= FRAMES_FOR_STREAMS
STREAMS_HAVE_LIMITS: Final = VERSION >= LIMITS_FOR_STREAMS

if TYPE_CHECKING or STREAMS_GET_FRAMES:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    DataSourceStreamArrowWriter = DataSourceStreamWriter

if TYPE_CHECKING or STREAMS_HAVE_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """A limit that no Spark asks for."""

        def __init__(self, *_limits: int) -> None:
            self.max_rows = None

    class ReadAllAvailable(ReadLimit):
        """All there is."""

    class ReadMaxRows(ReadLimit):
        """At most so many rows."""

    class ReadMinRows(ReadLimit):
        """At least so many rows."""

    class SupportsTriggerAvailableNow:
        """Spark fixes the end of a run itself: what is there when it begins."""


def frames_of(rows: Iterable[Any], schema: StructType) -> Iterator[Any]:
    """Rows made into Arrow frames, of the columns that a sink takes."""
    import pyarrow as pa

    kinds = {
        "binary": pa.binary(),
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<struct<key:string,value:binary>>": pa.list_(
            pa.struct([("key", pa.string()), ("value", pa.binary())])
        ),
    }
    named = [(at, f.name, kinds.get(f.dataType.simpleString())) for at, f in enumerate(schema)]
    wanted = [(at, name, kind) for at, name, kind in named if kind is not None]
    left = iter(rows)
    while some := list(islice(left, _FRAME_ROWS)):
        columns = [pa.array([_plain(row[at]) for row in some], kind) for at, _, kind in wanted]
        yield pa.record_batch(columns, names=[name for _, name, _ in wanted])


def _plain(value: Any) -> Any:
    """A value as Arrow takes it: headers come as rows, times as those of this machine's clock."""
    if isinstance(value, list):
        return [None if item is None else item.asDict() for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return value


__all__ = [
    "STREAMS_GET_FRAMES",
    "STREAMS_HAVE_LIMITS",
    "VERSION",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "frames_of",
]
