"""Text options of the data source, read into frozen values.

Names, defaults and precedence are those of Spark's own Kafka connector, so that moving is changing
the format's name; what klamm adds has names of its own. A refusal says what to write instead. Keys
arrive in lower case from Spark and are looked up that way; values keep their case.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from klamm.client.addresses import parse_bootstrap
from klamm.client.security import security_of
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition, name_fault
from klamm.model.offsets import EARLIEST, LATEST
from klamm.pipelines.source.option_text import Given

log = logging.getLogger(__name__)

_BOTH: Final = frozenset({"includeHeaders"})
_READ: Final = _BOTH | {
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
    "maxBytesPerPartition",
    "frameRows",
    "frameBytes",
    "includeBatchInfo",
    "records",
    "onTopicRecreated",
    "commitOffsets",
    "initialOffsetsPath",
    "onInvalidRecord",
}
_WRITE: Final = _BOTH | {"topic", "delivery", "partitioner", "jobId", "markerTopic"}
_STREAM: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")

CODECS: Final[Mapping[str, int]] = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
PARTITIONERS: Final = ("murmur2", "murmur2_random", "crc32", "round-robin")
# Kafka's brokers allow no more by default (transaction.max.timeout.ms).
_TRANSACTION_TIMEOUT_MS: Final = 15 * 60_000
_JOB_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A beginning or an end: offsets for some partitions, a time, or one word for all."""

    word: int = LATEST
    offsets: Mapping[TopicPartition, int] | None = None
    times: Mapping[TopicPartition, int] | None = None
    time_ms: int | None = None
    late_is_latest: bool = False  # no record is that young: take the end instead of failing
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether it is one word for all, and no place that was named."""
        return self.offsets is None and self.times is None and self.time_ms is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Everything a batch or streaming read was asked for."""

    connection: ConnectionOptions
    streaming: bool
    assign: tuple[TopicPartition, ...] | None = None
    subscribe: tuple[str, ...] | None = None
    pattern: str | None = None
    starting: Position
    ending: Position
    fail_on_data_loss: bool = True
    offsets_max: int | None = None
    offsets_min: int | None = None
    trigger_delay_ms_max: int = 15 * 60_000
    splits_min: int | None = None
    split_records_max: int | None = None
    split_bytes_max: int | None = None
    include_headers: bool = False
    include_batch_info: bool = False
    records: str = "data"
    frame_rows: int = 16_384
    frame_bytes: int = 8 << 20
    read_committed: bool = False
    fetch_bytes: int = 8 << 20
    fetch_wait_ms: int = 500
    rack: str = ""
    poll_timeout_ms: int = 120_000
    retries: int = 3
    retry_interval_ms: int = 10
    metadata_ttl_ms: int = -1
    on_topic_recreated: str = "fail"
    commit_offsets: bool = False
    group: str | None = None
    initial_offsets_path: str | None = None
    skip_invalid: bool = False

    @classmethod
    def of_range(cls, connection: ConnectionOptions) -> Self:
        """For a job that knows the ranges it reads, and waits for brokers as long as it may."""
        return cls(
            connection=connection,
            streaming=False,
            starting=Position(),
            ending=Position(),
            read_committed=True,
            poll_timeout_ms=connection.patience_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Everything a batch or streaming write was asked for."""

    connection: ConnectionOptions
    topic: str | None = None
    partitioner: str = "murmur2"
    acks: int = -1
    codec: int = 0
    batch_bytes: int = 512 << 10
    delivery_timeout_ms: int = 120_000
    once: Once | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """The options of delivery=exactly-once."""

    job: str | None  # the name of a batch write; a stream has the id of its query
    marker_topic: str
    transaction_timeout_ms: int = _TRANSACTION_TIMEOUT_MS


def parse_read(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """The options of `spark.read` or `spark.readStream`."""
    given = Given(options, _READ)
    group = given.text("kafka.group.id")
    if given.flag("commitOffsets", False) and group is None:
        raise UsageError("commitOffsets=true needs the group to commit to: set kafka.group.id")
    if not streaming and given.flag("commitOffsets", False):
        raise UsageError("commitOffsets is for streams: a batch read has no offsets to go on from")
    least, most = (given.maybe_number(name) for name in _STREAM[1::-1])
    if least is not None and most is not None and least > most:
        raise UsageError(
            f"minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})"
        )
    if not streaming:
        for name in _STREAM:
            if given.text(name) is not None:
                log.warning("the option %s has no effect on a batch read", name)
    isolation = given.choice(
        "kafka.isolation.level", ("read_uncommitted", "read_committed"), "read_uncommitted"
    )
    fetch_bytes = given.size("kafka.max.partition.fetch.bytes", None)
    fetch_bytes = fetch_bytes or given.size("kafka.fetch.max.bytes", 8 << 20)
    assert fetch_bytes is not None
    frame_bytes = given.size("frameBytes", 8 << 20)
    assert frame_bytes is not None
    return ReadOptions(
        connection=_connection(given),
        streaming=streaming,
        **_chosen(given),
        starting=_starting(given, streaming=streaming),
        ending=_ending(given, streaming=streaming),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        offsets_max=most,
        offsets_min=least,
        trigger_delay_ms_max=given.time("maxTriggerDelay", 15 * 60_000),
        splits_min=given.maybe_number("minPartitions"),
        split_records_max=given.maybe_number("maxRecordsPerPartition"),
        split_bytes_max=given.size("maxBytesPerPartition", None),
        include_headers=given.flag("includeHeaders", False),
        include_batch_info=given.flag("includeBatchInfo", False),
        records=given.choice("records", ("data", "data+control", "batches"), "data"),
        frame_rows=given.number("frameRows", 16_384),
        frame_bytes=min(frame_bytes, 64 << 20),
        read_committed=isolation == "read_committed",
        fetch_bytes=fetch_bytes,
        fetch_wait_ms=given.number("kafka.fetch.max.wait.ms", 500, least=0),
        rack=given.text("kafka.client.rack") or "",
        poll_timeout_ms=given.number("kafkaConsumer.pollTimeoutMs", 120_000),
        retries=given.number("fetchOffset.numRetries", 3, least=0),
        retry_interval_ms=given.number("fetchOffset.retryIntervalMs", 10, least=0),
        metadata_ttl_ms=given.number("partition.metadata.cache.ttl.ms", -1, least=-1),
        on_topic_recreated=given.choice("onTopicRecreated", ("fail", "restart", "ignore"), "fail"),
        commit_offsets=given.flag("commitOffsets", False),
        group=group,
        initial_offsets_path=given.text("initialOffsetsPath"),
        skip_invalid=given.choice("onInvalidRecord", ("fail", "skip"), "fail") == "skip",
    )


def parse_write(options: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
    """The options of `df.write` or `df.writeStream`."""
    given = Given(options, _WRITE)
    given.flag("includeHeaders", False)  # a column headers is written with or without it
    topic = _topic_name(given, "topic")
    acks = given.choice("kafka.acks", ("all", "-1", "0", "1"), "all")
    if acks == "0":
        raise UsageError("kafka.acks=0 would lose records unnoticed: use 1 or all")
    batch_bytes = given.size("kafka.batch.size", 512 << 10)
    request_max = given.size("kafka.max.request.size", 1 << 20)
    assert batch_bytes is not None
    assert request_max is not None
    once = _once(given, topic, streaming=streaming)
    if once is not None and acks == "1":
        raise UsageError("delivery=exactly-once needs every in-sync replica: use kafka.acks=all")
    return WriteOptions(
        connection=_connection(given),
        topic=topic,
        partitioner=given.choice("partitioner", PARTITIONERS, "murmur2"),
        acks=1 if acks == "1" else -1,
        codec=CODECS[given.choice("kafka.compression.type", tuple(CODECS), "none")],
        batch_bytes=min(batch_bytes, request_max),
        delivery_timeout_ms=given.number("kafka.delivery.timeout.ms", 120_000),
        once=once,
    )


def _topic_name(given: Given, option: str) -> str | None:
    name = given.trimmed(option)
    if name is not None and (fault := name_fault(name)):
        raise UsageError(f"option {option}: {fault}")
    return name


def _once(given: Given, topic: str | None, *, streaming: bool) -> Once | None:
    """The options of delivery=exactly-once; they are refused without it."""
    job, markers = given.trimmed("jobId"), _topic_name(given, "markerTopic")
    timeout_ms = given.number("kafka.transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)
    if given.choice("delivery", ("at-least-once", "exactly-once"), "at-least-once") != (
        "exactly-once"
    ):
        for name in ("jobId", "markerTopic"):
            if given.text(name) is not None:
                raise UsageError(f"{name} has a meaning with delivery=exactly-once only: set both")
        if given.text("kafka.transaction.timeout.ms") is not None:
            log.warning("kafka.transaction.timeout.ms has no effect without delivery=exactly-once")
        return None
    if streaming and job is not None:
        raise UsageError("jobId is for batch writes: a stream is known by the id of its query")
    if not streaming and job is None:
        raise UsageError(
            "delivery=exactly-once needs the option jobId, a name for this very write: "
            "when it is run again under that name, what it has written is not written twice"
        )
    if job is not None and not _JOB_ID.fullmatch(job):
        raise UsageError("option jobId: write up to 200 letters, digits, dots, dashes, underscores")
    if markers is None and topic is None:
        raise UsageError(
            "delivery=exactly-once with topics from a column needs the option markerTopic: "
            "the name of any one topic that will stay, at which offsets are kept as markers"
        )
    return Once(
        job=job,
        marker_topic=markers or topic or "",
        transaction_timeout_ms=min(timeout_ms, (1 << 31) - 1),
    )


def _connection(given: Given) -> ConnectionOptions:
    servers = given.text("kafka.bootstrap.servers")
    if servers is None:
        raise UsageError("set the option kafka.bootstrap.servers to host:port of a broker")
    return ConnectionOptions(
        bootstrap=parse_bootstrap(servers),
        client_id=given.text("kafka.client.id") or "klamm-spark",
        request_timeout_ms=given.number("kafka.request.timeout.ms", 30_000),
        security=security_of(lambda name: given.text(f"kafka.{name}")),
    )


def _chosen(given: Given) -> dict[str, Any]:
    names = [n for n in ("assign", "subscribe", "subscribePattern") if given.text(n) is not None]
    if len(names) != 1:
        raise UsageError(
            "choose topics with exactly one of assign, subscribe and subscribePattern"
            + (f", not with {' and '.join(names)}" if names else "")
        )
    value = given.trimmed(names[0]) or ""
    if names[0] == "assign":
        return {"assign": tuple(sorted(_partition_lists(value)))}
    if names[0] == "subscribe":
        topics = tuple(sorted({t.strip() for t in value.split(",") if t.strip()}))
        if not topics:
            raise UsageError("option subscribe names no topic")
        return {"subscribe": topics}
    if not value:
        raise UsageError("option subscribePattern is empty")
    try:
        re.compile(value)
    except re.error as fault:
        raise UsageError(f"option subscribePattern: {value!r} is no pattern: {fault}") from None
    return {"pattern": value}


def _partition_lists(text: str) -> list[TopicPartition]:
    found = _json("assign", text)
    if not all(isinstance(v, list) and all(type(p) is int for p in v) for v in found.values()):
        raise UsageError('option assign: write lists of partitions such as {"orders":[0,1]}')
    return [TopicPartition(topic, p) for topic, ps in found.items() for p in ps]


def _json(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found:
        raise UsageError(f'option {name}: {text!r} is no JSON such as {{"orders":{{"0":23}}}}')
    return found


def partition_numbers(name: str, text: str) -> tuple[dict[TopicPartition, int], dict[str, str]]:
    """Numbers a partition, from Spark's JSON or klamm's own with topic ids in it."""
    found = _json(name, text)
    ids: dict[str, str] = {}
    if set(found) == {"ids", "topics", "v"} and found["v"] == 1:
        ids, found = found["ids"], found["topics"]
        if not isinstance(ids, dict) or not isinstance(found, dict):
            raise UsageError(f"option {name}: ids and topics are JSON objects")
    numbers = {}
    for topic, partitions in found.items():
        if not isinstance(partitions, dict):
            raise UsageError(f'option {name}: write {{"{topic}":{{"0":23}}}}')
        for partition, number in partitions.items():
            if not str(partition).isdigit() or type(number) is not int:
                raise UsageError(
                    f"option {name}: {partition!r}: {number!r} is not partition: number"
                )
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers, ids


def _starting(given: Given, *, streaming: bool) -> Position:
    strategy = given.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    lenient = strategy == "latest"
    time = given.maybe_number("startingTimestamp", least=0)
    if time is not None:
        return Position(time_ms=time, late_is_latest=lenient)
    if (text := given.text("startingOffsetsByTimestamp")) is not None:
        times, _ = partition_numbers("startingOffsetsByTimestamp", text)
        return Position(times=times, late_is_latest=lenient)
    text = given.trimmed("startingOffsets")
    if text is None:
        return Position(word=LATEST if streaming else EARLIEST)
    if text.lower() == "earliest":
        return Position(word=EARLIEST)
    if text.lower() == "latest":
        if not streaming:
            raise UsageError("startingOffsets=latest makes no sense for a batch: nothing is later")
        return Position(word=LATEST)
    offsets, ids = partition_numbers("startingOffsets", text)
    if not streaming and LATEST in offsets.values():
        raise UsageError("startingOffsets: -1 (latest) makes no sense for a batch")
    if any(offset < EARLIEST for offset in offsets.values()):
        raise UsageError("startingOffsets: an offset is at least 0, or -2 earliest, or -1 latest")
    return Position(offsets=offsets, ids=ids)


def _ending(given: Given, *, streaming: bool) -> Position:
    names = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    for name in names:
        if streaming and given.text(name) is not None:
            raise UsageError(
                f"{name} is for batch reads: a stream ends by its trigger or by stop()"
            )
    time = given.maybe_number("endingTimestamp", least=0)
    if time is not None:
        return Position(time_ms=time, late_is_latest=True)
    if (text := given.text("endingOffsetsByTimestamp")) is not None:
        times, _ = partition_numbers("endingOffsetsByTimestamp", text)
        return Position(times=times, late_is_latest=True)
    text = given.trimmed("endingOffsets")
    if text is None or text.lower() == "latest":
        return Position(word=LATEST)
    if text.lower() == "earliest":
        raise UsageError("endingOffsets=earliest makes no sense: nothing is earlier")
    offsets, ids = partition_numbers("endingOffsets", text)
    if any(offset < LATEST for offset in offsets.values()):
        raise UsageError("endingOffsets: -2 (earliest) makes no sense as an end")
    return Position(offsets=offsets, ids=ids)
