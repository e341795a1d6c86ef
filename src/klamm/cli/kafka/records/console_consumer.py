"""`klamm kafka-console-consumer`: the flags, output and exit codes of Kafka's tool of that name.

It reads partitions and joins no group: `--group` starts where the group stands and commits where it
ends, and is refused while the group has members. Formatters in Java are refused.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.cli.asking import bare, run
from klamm.cli.facts import describe_settings, list_topics
from klamm.cli.groups import offsets as group_offsets
from klamm.cli.kafka.groups import resets as group_resets
from klamm.cli.kafka.options import HELP, VERSION, Options, ToolOption, begin
from klamm.cli.kafka.records.record_writer import RecordWriter
from klamm.cli.output import say
from klamm.client import properties
from klamm.client import settings as client_settings
from klamm.client.aio.admin import Admin
from klamm.client.aio.consumer import Consumed, Consumer
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST
from klamm.protocol.fetch import READ_COMMITTED, READ_UNCOMMITTED

OPTIONS: Final = (
    ToolOption("bootstrap-server", "server to connect to", "REQUIRED: the brokers to connect to."),
    ToolOption("consumer-property", "consumer_prop", "A property of the client, as k=v."),
    ToolOption("consumer.config", "config file", "Properties for the client."),
    ToolOption("enable-systest-events", "", "Not supported."),
    ToolOption("formatter", "class", "Not supported but for Kafka's default."),
    ToolOption("formatter-config", "config file", "The properties of --property in a file."),
    ToolOption("from-beginning", "", "Begin with the first record, unless the group has a place."),
    ToolOption("group", "consumer group id", "Begin where this group stands, and commit."),
    HELP,
    ToolOption("include", "Java regex (String)", "A regular expression for topics."),
    ToolOption("isolation-level", "String", "read_committed or read_uncommitted."),
    ToolOption("key-deserializer", "deserializer for key", "Of texts, bytes or numbers."),
    ToolOption("max-messages", "num_messages", "End after so many records."),
    ToolOption("offset", "consume offset", "A number, earliest or latest, with --partition."),
    ToolOption("partition", "partition", "Only this partition."),
    ToolOption("property", "prop", "print.key, print.offset, key.separator, ... as k=v."),
    ToolOption("skip-message-on-error", "", "Go on after a record that cannot be printed."),
    ToolOption("timeout-ms", "timeout_ms", "End when no record came for so long."),
    ToolOption("topic", "topic", "The topic to read."),
    ToolOption("value-deserializer", "deserializer for values", "Of texts, bytes or numbers."),
    VERSION,
    ToolOption("whitelist", "Java regex (String)", "The older name of --include."),
)
_ABOUT: Final = "This tool helps to read data from Kafka topics and outputs it to standard output."
_FORMATTERS: Final = (
    "kafka.tools.DefaultMessageFormatter",
    "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
)
_LEVELS: Final = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
_PLACES: Final = {"earliest": EARLIEST, "latest": LATEST}
_OURS: Final = frozenset({"group.id", "auto.offset.reset", "isolation.level", "enable.auto.commit"})
_POLL_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The records that are asked for."""

    topics: str
    is_pattern: bool
    partition: int | None
    start: int
    group: str | None
    commits: bool
    level: int
    count: int | None
    timeout_s: float | None
    skips_errors: bool


def parse(args: Sequence[str]) -> Options:
    """The options of a command line that makes sense."""
    options = begin("kafka-console-consumer", _ABOUT, OPTIONS, args)
    for name in ("partition", "max-messages"):
        options.integer(name)
    options.long("timeout-ms")
    pattern = options.given(("include", "whitelist"))
    if ("topic" in options) == bool(pattern):
        options.usage("Exactly one of --include/--topic is required. ")
    if "partition" in options:
        if "topic" not in options:
            options.usage("The topic is required when partition is specified.")
        if "from-beginning" in options and "offset" in options:
            options.usage("Options from-beginning and offset cannot be specified together.")
    elif "offset" in options:
        options.usage("The partition is required when offset is specified.")
    options.require("bootstrap-server")
    formatter = options.one("formatter")
    if formatter is not None and formatter not in _FORMATTERS:
        options.fail(f"klamm runs no Java, so it cannot print with {formatter}")
    if "enable-systest-events" in options:
        options.fail("--enable-systest-events is not supported")
    return options


def reading_of(options: Options, texts: Mapping[str, str]) -> Reading:
    """The records that flags ask for, or else properties."""
    group = _group(options, texts)
    level = options.one("isolation-level") or texts.get("isolation.level", "read_uncommitted")
    if level not in _LEVELS:
        raise ValueError(f"Invalid value {level} for configuration isolation.level")
    count, timeout_ms = options.integer("max-messages"), options.long("timeout-ms")
    return Reading(
        topics=options.one("topic") or options.one("include") or options.one("whitelist") or "",
        is_pattern="topic" not in options,
        partition=options.integer("partition"),
        start=_start(options, texts),
        group=group,
        commits=group is not None and texts.get("enable.auto.commit", "true").lower() != "false",
        level=_LEVELS[level],
        count=None if count is None or count == -1 else max(0, count),
        timeout_s=None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000,
        skips_errors="skip-message-on-error" in options,
    )


def _group(options: Options, texts: Mapping[str, str]) -> str | None:
    named = [*options.all("group")[:1], *([texts["group.id"]] if "group.id" in texts else [])]
    if len(set(named)) > 1:
        options.usage(
            "The group ids provided in different places (directly using '--group', via "
            "'--consumer-property', or via '--consumer.config') do not match. Detected group ids: "
            + ", ".join(f"'{name}'" for name in named)
        )
    if named and "partition" in options:
        options.usage("Options group and partition cannot be specified together.")
    return named[0] if named else None


def _start(options: Options, texts: Mapping[str, str]) -> int:
    text = options.one("offset")
    if text is not None:
        if text.lower() in _PLACES:
            return _PLACES[text.lower()]
        if not re.fullmatch(r"[0-9]{1,18}", text):
            options.usage(
                f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', "
                "'latest', or a non-negative long."
            )
        return int(text)
    reset = texts.get("auto.offset.reset")
    if reset is not None and reset not in _PLACES:
        raise ValueError(f"Invalid value {reset} for configuration auto.offset.reset")
    if "from-beginning" in options and reset not in (None, "earliest"):
        options.fail(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )
    return EARLIEST if "from-beginning" in options else _PLACES[reset or "latest"]


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options = parse(args)
    counter = [0]
    try:
        texts = _file(options, "consumer.config") | options.pairs("consumer-property")
        reading = reading_of(options, texts)
        writer = RecordWriter(_formatting(options))
        rest = {name: text for name, text in texts.items() if name not in _OURS}
        settings = client_settings.of_properties({"client.id": "console-consumer"} | rest)
        where = options.one("bootstrap-server") or ""
        run(where, lambda admin: _consume(admin, reading, writer, counter), settings)
    except (KlammError, ValueError, OSError) as error:
        _report(counter[0])
        options.fail(bare(error))
    except KeyboardInterrupt:
        _report(counter[0])
        raise
    _report(counter[0])


def _report(count: int) -> None:
    say(f"Processed a total of {count} messages", to=sys.stderr)


def _file(options: Options, name: str) -> dict[str, str]:
    path = options.one(name)
    return {} if path is None else properties.read(Path(path))


def _formatting(options: Options) -> dict[str, str]:
    found = _file(options, "formatter-config")
    for kind in ("key", "value"):
        if (name := options.one(f"{kind}-deserializer")) is not None:
            found[f"{kind}.deserializer"] = name
    return found | options.pairs("property")


async def _consume(
    admin: Admin, reading: Reading, writer: RecordWriter, counter: list[int]
) -> None:
    begin_at = await _beginning(admin, reading)
    if writer.has_timestamps:
        writer.late_topics = await _late_topics(admin, sorted({tp.topic for tp in begin_at}))
    consumer = Consumer(
        admin.client, begin_at, isolation_level=reading.level, reset_to=_reset(reading)
    )
    async with consumer:
        try:
            async with contextlib.aclosing(_records(consumer, reading)) as records:
                async for record in records:
                    counter[0] += 1
                    _print(record, writer, reading)
        finally:
            sys.stdout.buffer.flush()
            if reading.group is not None and reading.commits:
                await group_offsets.commit(admin, reading.group, dict(consumer.positions))


def _reset(reading: Reading) -> int:
    return reading.start if reading.start < 0 else LATEST


async def _beginning(admin: Admin, reading: Reading) -> dict[TopicPartition, int]:
    """The partitions to read and where to begin with each."""
    found = dict.fromkeys(await _partitions(admin, reading), reading.start)
    if reading.group is None:
        return found
    view = await group_resets.view_of(admin, reading.group)
    if view.members:
        raise ValueError(
            f"group '{reading.group}' has members, and this tool joins no group: stop them, or "
            "choose another group"
        )
    standing = await group_resets.committed(admin, reading.group)
    return {tp: standing.get(tp, start) for tp, start in found.items()}


async def _partitions(admin: Admin, reading: Reading) -> list[TopicPartition]:
    try:
        wanted = re.compile(reading.topics if reading.is_pattern else re.escape(reading.topics))
    except re.error:
        raise ValueError(f"{reading.topics} is an invalid regex") from None
    found = [
        TopicPartition(topic.name, partition.index)
        for topic in await list_topics(admin)
        if wanted.fullmatch(topic.name) and not (reading.is_pattern and topic.is_internal)
        for partition in topic.partitions
        if reading.partition in (None, partition.index)
    ]
    if not found:
        what = "" if reading.partition is None else f"-{reading.partition}"
        raise ValueError(f"there is no topic or partition '{reading.topics}{what}'")
    return found


async def _late_topics(admin: Admin, topics: Sequence[str]) -> set[str]:
    found = await describe_settings(admin, ConfigResourceType.TOPIC, topics)
    kind = ("message.timestamp.type", "LogAppendTime")
    return {t for t, settings in found.items() if kind in [(s.name, s.value) for s in settings]}


async def _records(consumer: Consumer, reading: Reading) -> AsyncGenerator[Consumed, None]:
    """Records until there were enough of them, or none came for too long."""
    left = reading.count
    while left is None or left > 0:
        batch = await _next(consumer, reading.timeout_s, left)
        if not batch:
            say("Error processing message, terminating consumer process: timed out", to=sys.stderr)
            return
        for record in batch:
            yield record
        sys.stdout.buffer.flush()
        left = None if left is None else left - len(batch)


async def _next(consumer: Consumer, timeout_s: float | None, left: int | None) -> list[Consumed]:
    end = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        patience_s = _POLL_S if end is None else max(0.001, min(_POLL_S, end - time.monotonic()))
        batch = await consumer.poll(timeout_s=patience_s, records_max=left or 10_000)
        if batch or (end is not None and time.monotonic() >= end):
            return batch


def _print(record: Consumed, writer: RecordWriter, reading: Reading) -> None:
    try:
        sys.stdout.buffer.write(writer(record))
    except ValueError as fault:
        if not reading.skips_errors:
            raise
        say(f"Error processing message, skipping this message: {fault}", to=sys.stderr)
