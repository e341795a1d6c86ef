"""The drop-ins for the console producer and consumer: refusals, lines in and lines out."""

from __future__ import annotations

import pytest

from klamm.cli.kafka.records import console_consumer, console_producer
from klamm.cli.kafka.records.line_reader import LineReader
from klamm.cli.kafka.records.record_writer import RecordWriter
from klamm.client.aio.consumer import Consumed
from klamm.model.offsets import EARLIEST, LATEST

B = ["--bootstrap-server", "h:1"]
T = [*B, "--topic", "t"]
BOTH = {"parse.key": "true", "parse.headers": "TRUE "}
NUMBER = "org.apache.kafka.common.serialization.LongDeserializer"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (B, "Exactly one of --include/--topic is required"),
        ([*T, "--include", "x"], "Exactly one of --include/--topic is required"),
        (["--topic", "t"], 'Missing required argument "[bootstrap-server]"'),
        ([*B, "--include", "t", "--partition", "0"], "The topic is required when partition"),
        ([*T, "--offset", "3"], "The partition is required when offset is specified."),
        ([*T, "--partition", "0", "--offset", "1", "--from-beginning"], "cannot be specified tog"),
        ([*T, "--partition", "x"], "Cannot parse argument 'x' of option partition"),
        ([*T, "--formatter", "a.B"], "klamm runs no Java"),
        ([*T, "--enable-systest-events"], "not supported"),
        ([*T, "--group", "a", "--consumer-property", "group.id=b"], "do not match"),
        ([*T, "--group", "a", "--partition", "0"], "Options group and partition cannot be"),
        ([*T, "--partition", "0", "--offset", "-3"], "The provided offset value '-3' is incorrect"),
        (
            [*T, "--from-beginning", "--consumer-property", "auto.offset.reset=latest"],
            "Can't simultaneously specify --from-beginning",
        ),
    ],
)
def test_a_consumer_that_makes_no_sense_exits_1(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        _reading(args)
    streams = capsys.readouterr()
    assert (exit_.value.code, streams.out) == (1, "")
    assert said in streams.err


def _reading(args: list[str]) -> console_consumer.Reading:
    options = console_consumer.parse(args)
    return console_consumer.reading_of(options, options.pairs("consumer-property"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "This tool helps to read data from standard input"),
        (["--topic", "t"], "Missing required option(s) [bootstrap-server]"),
        (B, 'Missing required argument "[topic]"'),
        ([*T, "--line-reader", "a.B"], "klamm runs no Java"),
        ([*T, "--timeout", "x"], "Cannot parse argument 'x' of option timeout"),
    ],
)
def test_a_producer_that_makes_no_sense_exits_1(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        console_producer.parse(args)
    streams = capsys.readouterr()
    assert (exit_.value.code, streams.out) == (1, "")
    assert said in streams.err


def test_where_reading_begins() -> None:
    def start(*words: str, **texts: str) -> int:
        return console_consumer.reading_of(console_consumer.parse([*T, *words]), texts).start

    assert start() == LATEST
    assert start("--from-beginning") == EARLIEST
    assert start("--partition", "0", "--offset", "Earliest") == EARLIEST
    assert start("--partition", "0", "--offset", "7") == 7
    assert start(**{"auto.offset.reset": "earliest"}) == EARLIEST
    with pytest.raises(ValueError, match="Invalid value soon"):
        start(**{"auto.offset.reset": "soon"})


def test_flags_beat_properties_of_a_producer() -> None:
    texts = {"acks": "1", "compression.type": "lz4", "linger.ms": "5", "batch.size": "7"}
    plain = console_producer.writing_of(console_producer.parse(T), texts)
    assert (plain.acks, plain.compression, plain.linger_s, plain.batch_size) == (1, "lz4", 0.005, 7)
    flags = ["--compression-codec", "--sync", "--request-required-acks", "all", "--timeout", "9"]
    told = console_producer.writing_of(console_producer.parse([*T, *flags]), texts)
    assert (told.acks, told.compression, told.linger_s, told.sync) == (-1, "gzip", 0.009, True)
    for wrong in ({"acks": "2"}, {"compression.type": "zip"}, {"linger.ms": "-1"}):
        with pytest.raises(ValueError, match="Invalid value"):
            console_producer.writing_of(console_producer.parse(T), wrong)


def test_lines_are_taken_apart() -> None:
    assert LineReader({})("a\tb") == (None, b"a\tb", ())
    assert LineReader({"parse.key": "true"})("k\ta\tb") == (b"k", b"a\tb", ())
    read = LineReader(BOTH | {"null.marker": "-"})
    assert read("h:1,i:-\tk\tv") == (b"k", b"v", (("h", b"1"), ("i", None)))
    assert read("-\t-\t-") == (None, None, ())
    lax = LineReader(BOTH | {"ignore.error": "true"})
    assert lax("plain") == (None, b"plain", ())
    assert lax("h\tk\tv").headers == (("h", None),)


@pytest.mark.parametrize(
    ("properties", "line", "said"),
    [
        ({"parse.key": "true"}, "x", "No key separator found on line number 1: 'x'"),
        (BOTH, "x", "No headers delimiter found on line number 1: 'x'"),
        (BOTH, "h\tk\tv", "No header key separator found in pair 'h' on line number 1"),
        (BOTH | {"null.marker": "-"}, "-:1\tk\tv", "Header keys should not be equal to the null"),
        ({"headers.separator": "\t"}, "", "headers.delimiter and headers.separator may not"),
        ({"null.marker": ":"}, "", "null.marker and headers.key.separator may not be equal"),
        ({"headers.separator": "["}, "", "headers.separator is an invalid regex"),
        ({"parse.kye": "true"}, "", "there is no property 'parse.kye'"),
        ({"key.separator": ""}, "", "key.separator may not be empty"),
    ],
)
def test_lines_that_cannot_be(properties: dict[str, str], line: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LineReader(properties)(line)


RECORD = Consumed("t", 3, 7, 5, None, b"\0\0\0\0\0\0\0\2", (("h", b"1"), ("i", None)))


def test_records_are_printed_as_properties_ask() -> None:
    every = ("timestamp", "partition", "offset", "headers", "key")
    wanted = {f"print.{name}": "true" for name in every}
    more = {"key.separator": "|", "null.literal": "N", "value.deserializer": NUMBER}
    writer = RecordWriter(wanted | more)
    assert writer.has_timestamps
    assert writer(RECORD) == b"CreateTime:5|Partition:3|Offset:7|h:1,i:N|N|2\n"
    writer.late_topics = {"t"}
    assert writer(RECORD).startswith(b"LogAppendTime:5|")
    bare = RecordWriter({"print.value": "false", "print.headers": "true", "line.separator": ";"})
    assert bare(RECORD._replace(headers=())) == b"NO_HEADERS;"


def test_formatters_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="klamm runs no Java"):
        RecordWriter({"key.deserializer": "a.B"})
    with pytest.raises(ValueError, match=r"there is no property 'print\.kye'"):
        RecordWriter({"print.kye": "true"})
    with pytest.raises(ValueError, match="is not 8"):
        RecordWriter({"value.deserializer": NUMBER})(RECORD._replace(value=b"x"))
