"""`klamm kafka-console-producer`: the flags and exit codes of Kafka's tool of that name.

Left out: readers in Java (`--line-reader`), which are refused. Flags and properties that tune the
buffers of Java's producer have no effect here; that is said on standard error.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.cli.asking import bare, run
from klamm.cli.kafka.options import HELP, VERSION, Options, ToolOption, begin
from klamm.cli.kafka.records.line_reader import LineReader
from klamm.cli.options import Compression
from klamm.cli.output import counted, say
from klamm.client import properties
from klamm.client import settings as client_settings
from klamm.client.aio.admin import Admin
from klamm.client.aio.producer import Delivered, Producer
from klamm.client.settings import ClientSettings
from klamm.model.errors import KlammError

OPTIONS: Final = (
    ToolOption("batch-size", "size", "The largest batch in bytes."),
    ToolOption("bootstrap-server", "server to connect to", "REQUIRED: the brokers to connect to."),
    ToolOption("broker-list", "broker-list", "The older name of --bootstrap-server."),
    ToolOption(
        "compression-codec", "compression-codec", "none, gzip, snappy, lz4, zstd; gzip alone.", True
    ),
    HELP,
    ToolOption("line-reader", "reader_class", "Not supported but for Kafka's own of lines."),
    ToolOption("max-block-ms", "max block on send", "No effect here."),
    ToolOption("max-memory-bytes", "total memory in bytes", "No effect here."),
    ToolOption("max-partition-memory-bytes", "memory in bytes per partition", "As --batch-size."),
    ToolOption("message-send-max-retries", "Integer", "No effect here."),
    ToolOption("metadata-expiry-ms", "metadata expiration interval", "No effect here."),
    ToolOption("producer-property", "producer_prop", "A property of the client, as k=v."),
    ToolOption("producer.config", "config file", "Properties for the client."),
    ToolOption("property", "prop", "parse.key, key.separator, parse.headers, null.marker, ..."),
    ToolOption("reader-config", "config file", "The same in a file."),
    ToolOption("request-required-acks", "request required acks", "all, -1, 1 or 0."),
    ToolOption("request-timeout-ms", "request timeout ms", "How long a request may take."),
    ToolOption("retry-backoff-ms", "Long", "No effect here."),
    ToolOption("socket-buffer-size", "size", "No effect here."),
    ToolOption("sync", "", "Wait for each record before the next is sent."),
    ToolOption("timeout", "timeout_ms", "How long a record waits for others."),
    ToolOption("topic", "topic", "REQUIRED: the topic to write to."),
    VERSION,
)
_ABOUT: Final = "This tool helps to read data from standard input and publish it to Kafka."
_IDLE: Final = (
    *("max-block-ms", "max-memory-bytes", "message-send-max-retries", "metadata-expiry-ms"),
    *("retry-backoff-ms", "socket-buffer-size"),
)
_NUMBERS: Final = (*_IDLE, "batch-size", "max-partition-memory-bytes", "timeout")
_READERS: Final = (
    "kafka.tools.ConsoleProducer$LineMessageReader",
    "org.apache.kafka.tools.LineMessageReader",
)
_ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}
_OURS: Final = frozenset({"acks", "linger.ms", "batch.size", "compression.type"})


@dataclass(frozen=True, slots=True)
class Writing:
    """The way in which records are to be sent."""

    topic: str
    acks: int
    compression: Compression
    batch_size: int
    linger_s: float
    sync: bool


def parse(args: Sequence[str]) -> Options:
    """The options of a command line that makes sense."""
    options = begin("kafka-console-producer", _ABOUT, OPTIONS, args)
    if not options.given(("bootstrap-server", "broker-list")):
        options.usage("Missing required option(s) [bootstrap-server]")
    options.require("topic")
    for name in (*_NUMBERS, "request-timeout-ms"):
        options.long(name)
    reader = options.one("line-reader")
    if reader is not None and reader not in _READERS:
        options.fail(f"klamm runs no Java, so it cannot read lines with {reader}")
    return options


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options = parse(args)
    if idle := options.given(_IDLE):
        options.warn(f"no effect here: {', '.join(f'--{name}' for name in idle)}")
    try:
        texts = _file(options, "producer.config") | options.pairs("producer-property")
        writing = writing_of(options, texts)
        reader = LineReader(_file(options, "reader-config") | options.pairs("property"))
        where = options.one("bootstrap-server") or options.one("broker-list") or ""
        settings = _settings(options, texts)
        failed = run(where, lambda admin: _write(admin, writing, reader), settings)
    except (KlammError, ValueError, OSError) as error:
        options.fail(bare(error))
    if failed:
        # As in Kafka this is no failure of the tool, unless each record is waited for.
        options.warn(f"{counted(failed, 'record')} not written; --sync stops at the first of them")


def _file(options: Options, name: str) -> dict[str, str]:
    path = options.one(name)
    return {} if path is None else properties.read(Path(path))


def _settings(options: Options, texts: Mapping[str, str]) -> ClientSettings:
    known = {name: text for name, text in texts.items() if name not in _OURS}
    if (patience := options.one("request-timeout-ms")) is not None:
        known["request.timeout.ms"] = patience
    return client_settings.of_properties({"client.id": "console-producer"} | known)


def writing_of(options: Options, texts: Mapping[str, str]) -> Writing:
    """The way that flags ask for, or else properties."""
    acks = options.one("request-required-acks") or texts.get("acks", "-1")
    if acks not in _ACKS:
        raise ValueError(f"Invalid value {acks} for configuration acks: it is all, -1, 1 or 0")
    codec = texts.get("compression.type", "none")
    if "compression-codec" in options:
        codec = options.one("compression-codec") or "gzip"
    if codec not in [*Compression]:
        raise ValueError(
            f"Invalid value {codec} for configuration compression.type: String must be one of: "
            f"{', '.join(Compression)}"
        )
    size = options.one("max-partition-memory-bytes") or options.one("batch-size")
    return Writing(
        topic=options.one("topic") or "",
        acks=_ACKS[acks],
        compression=Compression(codec),
        batch_size=max(1, _number(size or texts.get("batch.size", "16384"), "batch.size")),
        linger_s=_number(options.one("timeout") or texts.get("linger.ms", "0"), "linger.ms") / 1000,
        sync="sync" in options,
    )


def _number(text: str, name: str) -> int:
    if not text.isdecimal() or len(text) > 10:
        raise ValueError(f"Invalid value {text} for configuration {name}: Not a number")
    return int(text)


async def _write(admin: Admin, writing: Writing, reader: LineReader) -> int:
    """Sends what comes in; the number of records that were lost, each told of on its own."""
    lost = 0

    def settle(future: asyncio.Future[Delivered]) -> None:
        nonlocal lost
        fault = None if future.cancelled() else future.exception()
        if fault is not None:
            lost += 1
            say(f"Error when sending message to topic {writing.topic}: {fault}", to=sys.stderr)

    async with Producer(
        admin.client,
        acks=writing.acks,
        codec=writing.compression.codec,
        batch_size=writing.batch_size,
        linger_s=writing.linger_s,
    ) as producer:
        async for line in _lines():
            record = reader(line)
            future = await producer.send(
                writing.topic, record.value, key=record.key, headers=record.headers
            )
            if writing.sync:
                await future
            else:
                future.add_done_callback(settle)
        try:
            await producer.flush()
        except KlammError:
            if not lost:
                raise
    return lost


async def _lines() -> AsyncIterator[str]:
    """Lines without their ends. A thread waits for them, so that records go out meanwhile."""
    while line := await asyncio.to_thread(_read_line):
        text = line.decode("utf-8", "replace")
        yield text.removesuffix("\n").removesuffix("\r")


def _read_line() -> bytes:
    if sys.stdin.isatty():
        sys.stdout.write(">")
        sys.stdout.flush()
    return sys.stdin.buffer.readline()
