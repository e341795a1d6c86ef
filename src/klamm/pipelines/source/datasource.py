"""The data source `klamm`: Spark's Python data source API, and nothing of our own.

Every class here is thin. Readers and writers are pickled into other processes, so they hold options
and no sockets; sinks are built anew for each micro-batch and again to commit, so building one does
nothing. Filters are not pushed down on purpose: Spark keeps a pushed-down plan with the DataFrame
and uses it for later queries without the filter. One DataFrame is one snapshot of offsets: two
actions on it see the same records, and a new `load()` takes a new snapshot.

Spark starts a fresh Python for each step of planning: what only tasks need (Arrow, the kernels) is
imported where a task begins.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from klamm.model.errors import UsageError
from klamm.pipelines.session.workers import begin_task
from klamm.pipelines.source.offered import (
    STREAMS_GET_FRAMES,
    STREAMS_HAVE_LIMITS,
    VERSION,
    DataSourceStreamArrowWriter,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
    frames_of,
)
from klamm.pipelines.source.options import ReadOptions, WriteOptions, parse_read, parse_write
from klamm.pipelines.source.planning import plan_batch
from klamm.pipelines.source.ranges import Split, StreamOffsets
from klamm.pipelines.source.stream import Stream

if TYPE_CHECKING:
    from klamm.pipelines.source.sink import TaskReport
    from klamm.pipelines.source.sink_once import Prepared

log = logging.getLogger(__name__)

_TYPES: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
    "isControl": "boolean",
    "leaderEpoch": "int",
    "producerId": "bigint",
    "producerEpoch": "int",
    "sequence": "int",
    "isTransactional": "boolean",
    "codec": "int",
}
_OFFICIAL: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
_BATCH_INFO: Final = (
    "leaderEpoch",
    "producerId",
    "producerEpoch",
    "sequence",
    "isTransactional",
    "codec",
)
_RAW: Final = (
    "topic string, partition int, baseOffset bigint, lastOffset bigint, maxTimestampMs bigint, "
    "recordCount int, crc bigint, raw binary"
)
_WRITABLE: Final[Mapping[str, frozenset[str]]] = {
    "key": frozenset({"binary", "string"}),
    "value": frozenset({"binary", "string"}),
    "topic": frozenset({"string"}),
    "partition": frozenset({"int"}),
    "timestamp": frozenset({"timestamp", "bigint"}),
    "headers": frozenset({"array<struct<key:string,value:binary>>"}),
}


class KlammDataSource(DataSource):
    """`spark.read.format("klamm")` and its three sisters."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "klamm"

    def schema(self) -> str:
        """The columns that the options ask for."""
        return schema_text(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        return KlammReader(parse_read(self.options, streaming=False), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming read."""
        options = parse_read(self.options, streaming=True)
        _refuse_limits(options)
        return KlammStreamReader(options, columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A batch write."""
        _refuse_overwrite(overwrite)
        return KlammWriter(_checked(parse_write(self.options), schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """A streaming write. In complete mode each micro-batch appends the whole result anew."""
        options = _checked(parse_write(self.options, streaming=True), schema)
        return KlammStreamWriter(options, schema)


def schema_text(options: Mapping[str, str]) -> str:
    """The schema in Spark's words."""
    lower = {key.lower(): value.strip().lower() for key, value in options.items()}
    if lower.get("records") == "batches":
        return _RAW
    names = list(_OFFICIAL)
    if lower.get("includeheaders") == "true":
        names.append("headers")
    if lower.get("records") == "data+control":
        names.append("isControl")
    if lower.get("includebatchinfo") == "true":
        names += _BATCH_INFO
    return ", ".join(f"{name} {_TYPES[name]}" for name in names)


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema, which a user may have narrowed."""
    if "raw" in schema.names:
        return ()
    for given in schema.fields:
        wanted = _TYPES.get(given.name)
        if wanted is None:
            raise UsageError(f"there is no column {given.name}: choose from {', '.join(_TYPES)}")
        if given.dataType.simpleString() != wanted.replace(": ", ":").replace(", ", ","):
            raise UsageError(f"column {given.name} is {wanted}: cast it in a select")
    return tuple(schema.names)


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise UsageError(
            'a topic cannot be overwritten: use mode("append"), and delete its records first '
            "when the old records shall go"
        )


def _refuse_limits(options: ReadOptions) -> None:
    if STREAMS_HAVE_LIMITS or (options.offsets_max is None and options.offsets_min is None):
        return
    raise UsageError(
        "maxOffsetsPerTrigger and minOffsetsPerTrigger need PySpark 4.2 or newer, and {}.{} is "
        "installed: leave them out, and a micro-batch is all that is there".format(*VERSION)
    )


def _checked(options: WriteOptions, schema: StructType) -> WriteOptions:
    if "value" not in schema.names:
        raise UsageError("a row to be written needs a column value (text or binary)")
    if options.topic is None and "topic" not in schema.names:
        raise UsageError("set the option topic, or give the rows a column topic")
    for field in schema.fields:
        kinds = _WRITABLE.get(field.name)
        if field.name == "topic" and options.topic is not None:
            continue
        if kinds is None and field.name in _TYPES:
            continue  # what a read gives and a write cannot set, such as the offset
        if kinds is None:
            raise UsageError(
                f"column {field.name} cannot be written: choose from {', '.join(_WRITABLE)}"
            )
        if field.dataType.simpleString() not in kinds:
            raise UsageError(f"column {field.name} must be {' or '.join(sorted(kinds))}")
    return options


class SplitPartition(InputPartition):
    """Spark's unit of reading, with one of our splits in it."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


def _read(
    options: ReadOptions, columns: tuple[str, ...], partition: InputPartition | None
) -> Iterator[Any]:
    from klamm.pipelines.source.fetcher import read_range

    begin_task()
    # A query without splits is given one with nothing in it.
    split = partition.value if isinstance(partition, SplitPartition) else ()
    for piece in split:
        yield from read_range(options, piece, columns)


class KlammReader(DataSourceReader):
    """A batch read."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """The splits of this DataFrame, planned once."""
        return [SplitPartition(split) for split in plan_batch(self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The frames of one split."""
        return _read(self._options, self._columns, partition)


class KlammStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read; Spark keeps one of these alive for the whole query."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._stream_state: Stream | None = None

    @property
    def _stream(self) -> Stream:
        if self._stream_state is None:
            self._stream_state = Stream(self._options)
        return self._stream_state

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get the options only."""
        return self.__dict__ | {"_stream_state": None}

    def initialOffset(self) -> dict[str, Any]:
        """The offsets at which the query begins."""
        return self._stream.first().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of one micro-batch."""
        if self._options.offsets_max is not None:
            return ReadMaxRows(self._options.offsets_max)
        if self._options.offsets_min is not None:
            return ReadMinRows(self._options.offsets_min)
        return ReadAllAvailable()

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end of the next micro-batch. Before Spark 4.2 nobody says where it starts."""
        if start is None:
            return self._stream.now().to_json()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begin = StreamOffsets.from_json(start)
        end = self._stream.latest(begin, most, at_once=isinstance(limit, ReadAllAvailable))
        # Spark compares offsets as text: what is unchanged must be the very same.
        return start if end == begin else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The newest offsets known, for the progress report."""
        seen = self._stream.seen()
        return None if seen is None else seen.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes where this run ends."""
        self._stream.fix_target()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The splits of one micro-batch."""
        begin, finish = StreamOffsets.from_json(start), StreamOffsets.from_json(end)
        return [SplitPartition(split) for split in self._stream.plan(begin, finish)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The frames of one split."""
        return _read(self._options, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Everything up to here has been processed."""
        self._stream.commit(StreamOffsets.from_json(end))


@dataclass
class Message(WriterCommitMessage):
    """The report of one task of a sink, and what of it is to be committed."""

    written: TaskReport
    prepared: Prepared | None = None


def _write(options: WriteOptions, frames: Iterator[Any]) -> Message:
    from klamm.pipelines.source.sink import write_frames

    begin_task()
    context = TaskContext.get()
    # Tasks are told the session's settings as properties of their job.
    if context is not None and context.getLocalProperty("spark.speculation") == "true":
        raise UsageError("set spark.speculation=false: a task must not write twice at once")
    task = context.partitionId() if context is not None else 0
    if options.once is None:
        return Message(write_frames(options, frames, task=task))
    from klamm.pipelines.source.sink_once import Turn, prepare

    query, batch = options.once.job, 0
    if query is None:
        assert context is not None, "a stream runs in tasks"
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        if not query or batch < 0:
            raise UsageError("this Spark tells its tasks no micro-batch: use at-least-once")
    return Message(*prepare(options, frames, Turn(query, batch, task)))


def _summary(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(m.written.records for m in messages if isinstance(m, Message))


def _finish(
    options: WriteOptions, messages: Sequence[WriterCommitMessage | None], *, commit: bool
) -> None:
    """Ends the transactions that tasks have left open."""
    if options.once is None:
        return
    from klamm.pipelines.source import sink_once

    prepared = [m.prepared for m in messages if isinstance(m, Message) and m.prepared]
    (sink_once.commit if commit else sink_once.abort)(options, prepared)


class KlammWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Writes the rows of one task."""
        return _write(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        _finish(self._options, messages, commit=True)
        log.info("written", extra={"records": _summary(messages)})

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Some task failed: what the others wrote stays, unless it is in a transaction."""
        _finish(self._options, messages, commit=False)
        log.warning("a write failed after %d records were written", _summary(messages))


class KlammStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write. Spark builds one for every micro-batch, and one more to commit it."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Writes the rows of one task."""
        frames = iterator if STREAMS_GET_FRAMES else frames_of(iterator, self._schema)
        return _write(self._options, frames)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks of a micro-batch are done."""
        _finish(self._options, messages, commit=True)
        log.info("written", extra={"records": _summary(messages), "batch": batchId})

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Some task failed; Spark runs the micro-batch again when the query starts again."""
        _finish(self._options, messages, commit=False)
        log.warning("micro-batch %d failed after %d records", batchId, _summary(messages))
