"""`klamm kafka-get-offsets`: the flags, output and exit codes of Kafka's tool of that name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from klamm.cli.asking import bare, run
from klamm.cli.facts import list_topics
from klamm.cli.kafka.options import HELP, VERSION, Options, ToolOption, begin
from klamm.cli.kafka.plans import exception
from klamm.cli.output import say
from klamm.client import settings as client_settings
from klamm.client.aio.admin import Admin
from klamm.client.errors import code_of
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST, MAX_TIMESTAMP

OPTIONS: Final = (
    ToolOption("bootstrap-server", "HOST1:PORT1,...", "REQUIRED: the brokers to connect to."),
    ToolOption("broker-list", "HOST1:PORT1,...", "The older name of --bootstrap-server."),
    ToolOption("command-config", "config file", "Properties for the admin client."),
    ToolOption("exclude-internal-topics", "", "Leave internal topics out."),
    HELP,
    ToolOption("partitions", "partition ids", "Only these partitions, by commas."),
    ToolOption(
        "time",
        "<timestamp> / -1 or latest / -2 or earliest / -3 or max-timestamp",
        "The moment whose offsets are wanted; latest by default.",
    ),
    ToolOption("topic", "topic", "A regular expression for the topics; all by default."),
    ToolOption(
        "topic-partitions",
        "topic1:1,topic2:0-3,topic3",
        "Patterns of topics, each with a partition or a range of them whose end is left out.",
    ),
    VERSION,
)
_ABOUT: Final = "An interactive shell for getting topic-partition offsets."
_TIMES: Final = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}
_TIERED: Final = {"earliest-local": -4, "latest-tiered": -5}
_PATTERN: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_PORT: Final = re.compile(r".*?\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+")

Filter = Callable[[TopicPartition], bool]


def parse(args: Sequence[str]) -> Options:
    """The options of a command line that makes sense."""
    options = begin("kafka-get-offsets", _ABOUT, OPTIONS, args)
    if not options.given(("bootstrap-server", "broker-list")):
        options.fail("Error occurred: Missing required option(s) [bootstrap-server]")
    if not all(map(_PORT.fullmatch, _servers(options).split(","))):
        options.usage("Please provide valid host:port like host1:9091,host2:9092\n")
    return options


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options = parse(args)
    try:
        if "topic-partitions" in options and options.given(("topic", "partitions")):
            raise ValueError("--topic-partitions cannot be used with --topic or --partitions")
        moment, chosen = moment_of(options.one("time") or "latest"), filter_of(options)
        settings = client_settings.read(options.one("command-config"))
        run(_servers(options), lambda admin: _print(admin, options, moment, chosen), settings)
    except (KlammError, ValueError, OSError) as error:
        options.fail(f"Error occurred: {bare(error)}")


def _servers(options: Options) -> str:
    return options.one("bootstrap-server") or options.one("broker-list") or ""


def moment_of(text: str) -> int:
    """The timestamp that a time stands for."""
    if text in _TIMES:
        return _TIMES[text]
    if text in _TIERED:
        return _TIERED[text]
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not -(1 << 63) <= int(text) < 1 << 63:
        raise ValueError(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / "
            "-3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered, or a specified "
            "long format timestamp"
        )
    return int(text)


def filter_of(options: Options) -> Filter:
    """The partitions that a command line chooses."""
    patterns = options.one("topic-partitions")
    if patterns is not None:
        rules = [_rule(part) for part in patterns.split(",")]
        return lambda tp: any(rule(tp) for rule in rules)
    named = _expression(options.one("topic") or ".*")
    numbers = _numbers(options.one("partitions"))
    return lambda tp: bool(named.fullmatch(tp.topic)) and (not numbers or tp.partition in numbers)


def _numbers(text: str | None) -> set[int]:
    if not text:
        return set()
    try:
        return {int(part) for part in text.rstrip(",").split(",")}
    except ValueError:
        raise ValueError(
            "--partitions expects a comma separated list of numeric partition ids, but received: "
            f"{text}"
        ) from None


def _rule(text: str) -> Filter:
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise ValueError(f"Invalid rule specification: {text}")
    named, one, low, high = found.groups()
    topic = _expression(named or ".*")
    numbers = range(int(one), int(one) + 1) if one else range(int(low or 0), int(high or 1 << 31))
    return lambda tp: bool(topic.fullmatch(tp.topic)) and tp.partition in numbers


def _expression(text: str) -> re.Pattern[str]:
    plain = re.sub(r"\s", "", text.strip().replace(",", "|")).strip("\"'")
    try:
        return re.compile(plain)
    except re.error:
        raise ValueError(f"{plain} is an invalid regex") from None


async def _print(admin: Admin, options: Options, moment: int, chosen: Filter) -> None:
    hidden = "exclude-internal-topics" in options
    wanted = [
        tp
        for topic in await list_topics(admin)
        if not (hidden and topic.is_internal)
        for partition in topic.partitions
        if chosen(tp := TopicPartition(topic.name, partition.index))
    ]
    if not wanted:
        raise ValueError("Could not match any topic-partitions with the specified filters")
    found = await admin.list_offsets(dict.fromkeys(wanted, moment))
    # Kafka sorts by the text, in which 10 comes before 2.
    for tp in sorted(wanted, key=str):
        answer = found[tp]
        if answer.error_code:
            code = answer.error_code
            said = f"{exception(code)}: {code_of(code).name}"
            options.warn(f"Skip getting offsets for topic-partition {tp} due to error: {said}")
        elif answer.offset >= 0:
            say(f"{tp.topic}:{tp.partition}:{answer.offset}")
