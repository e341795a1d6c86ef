"""What Spark sees of the source, without a Spark: traps that are avoided by how it is built."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
)
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType

import pyspark_klamm
from klamm.model.errors import UsageError
from klamm.pipelines.session.session import plain_fault, refuse_speculation
from klamm.pipelines.source.datasource import (
    KlammDataSource,
    KlammReader,
    KlammStreamReader,
    KlammStreamWriter,
    KlammWriter,
    columns_of,
    schema_text,
)
from klamm.pipelines.source.options import parse_read

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}


def _schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def _names(text: str) -> list[str]:
    return [column.split(" ")[0] for column in text.split(", ") if not column.startswith("value: ")]


ROWS = _schema(key=BinaryType(), value=BinaryType())


def test_building_a_sink_does_nothing() -> None:
    """T9: Spark builds a sink for each micro-batch, and once more to commit it."""
    source = KlammDataSource(dict(NOWHERE))
    assert isinstance(source.streamWriter(ROWS, False), KlammStreamWriter)
    assert isinstance(source.writer(ROWS, False), KlammWriter)


def test_frames_go_both_ways() -> None:
    """T11 and T12: no rows as tuples, and no reader that collects records on the driver."""
    assert issubclass(KlammWriter, DataSourceArrowWriter)
    assert issubclass(KlammStreamWriter, DataSourceStreamArrowWriter)
    assert "simpleStreamReader" not in KlammDataSource.__dict__


def test_filters_are_not_pushed_down() -> None:
    """T1: overriding this would give wrong results."""
    assert KlammReader.pushFilters is DataSourceReader.pushFilters


def test_readers_travel_without_their_state() -> None:
    """Tasks get options and no sockets."""
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    reader = KlammStreamReader(parse_read(options, streaming=True), ("value",))
    assert reader._stream is not None
    assert pickle.loads(pickle.dumps(reader))._stream_state is None


def test_nothing_depends_on_being_stopped() -> None:
    """T8: Spark kills the reader's process without a word."""
    assert "stop" not in KlammStreamReader.__dict__


def test_spark_finds_it_by_name() -> None:
    """T18: by discovery, which another package may break, and by registration."""
    assert pyspark_klamm.DefaultSource is KlammDataSource
    assert KlammDataSource.name() == "klamm"


def test_schema_follows_the_options() -> None:
    assert _names(schema_text({})) == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    more = {"includeHeaders": "TRUE", "records": "data+control", "includeBatchInfo": "true"}
    assert _names(schema_text(more))[7:9] == ["headers", "isControl"]
    assert "raw" in _names(schema_text({"records": "batches"}))


def test_a_schema_of_ones_own_must_fit() -> None:
    assert columns_of(_schema(offset=LongType(), value=BinaryType())) == ("offset", "value")
    with pytest.raises(UsageError, match="column value is binary: cast it"):
        columns_of(_schema(value=StringType()))
    with pytest.raises(UsageError, match="there is no column colour"):
        columns_of(_schema(colour=StringType()))


class _Session:
    """As much of a session as the check looks at."""

    def __init__(self, **settings: str) -> None:
        self.conf = {name.replace("_", "."): value for name, value in settings.items()}


def test_speculation_is_refused() -> None:
    """T10: two copies of a task must not write at once."""
    refuse_speculation(_Session(spark_speculation="false"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"set spark\.speculation=false"):
        refuse_speculation(_Session(spark_speculation="true"))  # type: ignore[arg-type]


def test_compiled_loops_that_do_not_load_are_done_without() -> None:
    """T19: `spark.executor.pyspark.memory` bounds the address space, and numba needs much of it."""
    code = (
        "import resource, numpy, pyarrow, klamm.pipelines.records.frames\n"
        "from klamm.pipelines.records.kernels import kernels\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "bound = pages * resource.getpagesize() + (120 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (bound, bound))\n"
        "print(kernels().__name__)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "KLAMM_KERNELS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "klamm.pipelines.records.kernels_numpy"


NO_KLAMM = "ModuleNotFoundError: No module named 'klamm'"


def test_failures_of_spark_are_said_in_our_own_words() -> None:
    text = (
        "[STAGE_FAILED] Job aborted due to stage failure\n  File x, line 3\n"
        "klamm.pipelines.source.fetcher.DataLost: topic t was deleted while it was read"
        "\n\n\tat org.apache"
    )
    assert plain_fault(text) == "topic t was deleted while it was read"
    assert plain_fault("something else\nmore") == "something else"
    foreign = (
        "\nAn exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "x.py", line 3, in work\n    frame.filter(keep)\n'
        "pyarrow.lib.ArrowInvalid: too large\n\nJVM stacktrace:\norg.apache.spark.Oops: no\n\tat"
    )
    assert plain_fault(foreign) == "pyarrow.lib.ArrowInvalid: too large"
    bare = foreign.replace("pyarrow.lib.ArrowInvalid: too large", NO_KLAMM)
    assert plain_fault(bare).startswith("the Python that runs Spark's tasks has no klamm: install")
    full = "An error occurred\n: java.io.IOException: No space left on device\n\tat java.base"
    assert plain_fault(full) == "the disk is full: free some room and run again"


def test_planning_does_not_wait_for_arrow() -> None:
    """Spark starts a Python for every step of planning, and each would load what only tasks use."""
    code = (
        "import sys, klamm.pipelines.source.datasource\n"
        "print([m for m in ('numpy', 'pyarrow', 'numba', 'pandas') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
