"""`klamm kafka-log-dirs`: the flags, output and exit codes of Kafka's tool of that name."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from klamm.cli.asking import bare, run
from klamm.cli.facts import live_brokers
from klamm.cli.kafka.options import HELP, VERSION, Options, ToolOption, begin
from klamm.cli.kafka.plans import exception
from klamm.cli.output import say
from klamm.client import settings as client_settings
from klamm.client.aio.admin import Admin
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.protocol.messages.describe_log_dirs import DescribeLogDirsResult

OPTIONS: Final = (
    ToolOption("bootstrap-server", "The server(s) to use for bootstrapping", "REQUIRED: whom to."),
    ToolOption("broker-list", "Broker list", "The brokers to ask, by commas; all by default."),
    ToolOption("command-config", "Admin client property file", "Properties for the client."),
    ToolOption("describe", "", "Describe the log directories of these brokers."),
    HELP,
    ToolOption("topic-list", "Topic list", "The topics to tell of, by commas; all by default."),
    VERSION,
)
_ABOUT: Final = "This tool helps to query log directory usage on the specified brokers."


def parse(args: Sequence[str]) -> Options:
    """The options of a command line that makes sense."""
    options = begin("kafka-log-dirs", _ABOUT, OPTIONS, args)
    options.require("bootstrap-server", "describe")
    return options


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options = parse(args)
    try:
        brokers = {_number(text) for text in _parts(options.one("broker-list"))}
        topics = frozenset(_parts(options.one("topic-list")))
        settings = client_settings.read(options.one("command-config"))
        where = options.one("bootstrap-server") or ""
        run(where, lambda admin: _describe(admin, brokers, topics), settings)
    except (KlammError, ValueError, OSError) as error:
        options.fail(bare(error))


def _parts(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f'For input string: "{text}"') from None


async def _describe(admin: Admin, wanted: Collection[int], topics: Collection[str]) -> None:
    live = await live_brokers(admin)
    if strange := sorted(set(wanted) - live):
        raise ValueError(
            f"ERROR: The given brokers do not exist from --broker-list: {_list(strange)}. "
            f"Current existent brokers: {_list(sorted(live))}"
        )
    asked = sorted(wanted or live)
    say("Querying brokers for log directories information")
    found = await admin.log_dirs(asked)
    say(f"Received log directory information from brokers {_list(asked)}")
    say(as_json(found, topics))


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def as_json(found: Mapping[int, Sequence[DescribeLogDirsResult]], topics: Collection[str]) -> str:
    """The directories in one line, without blanks, as Kafka's tool writes them."""
    brokers = [
        {"broker": broker, "logDirs": [_directory(one, topics) for one in directories]}
        for broker, directories in sorted(found.items())
    ]
    return json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":"))


def _directory(found: DescribeLogDirsResult, topics: Collection[str]) -> dict[str, object]:
    partitions = [
        {
            "partition": str(TopicPartition(topic.name, replica.partition_index)),
            "size": replica.partition_size,
            "offsetLag": replica.offset_lag,
            "isFuture": replica.is_future_key,
        }
        for topic in found.topics
        if not topics or topic.name in topics
        for replica in topic.partitions
    ]
    error = exception(found.error_code) if found.error_code else None
    return {"partitions": partitions, "error": error, "logDir": found.log_dir}
