"""`klamm kafka-leader-election`: the flags, output and exit codes of Kafka's tool of that name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from klamm.cli.asking import bare, run
from klamm.cli.kafka import plans
from klamm.cli.kafka.options import HELP, VERSION, Options, ToolOption, begin
from klamm.cli.output import say
from klamm.client import settings as client_settings
from klamm.client.aio.admin import PREFERRED_ELECTION, UNCLEAN_ELECTION, Admin
from klamm.client.errors import DeadlineExceeded, code_of
from klamm.model.errors import ErrorCode, KlammError, RequestRefused
from klamm.model.names import TopicPartition
from klamm.protocol.messages.elect_leaders import PartitionResult

OPTIONS: Final = (
    ToolOption("admin.config", "config file", "Properties for the admin client."),
    ToolOption("all-topic-partitions", "", "Elect for every partition that is eligible."),
    ToolOption("bootstrap-server", "host:port", "REQUIRED: the brokers to connect to."),
    ToolOption("election-type", "election type", "REQUIRED: preferred or unclean."),
    HELP,
    ToolOption("partition", "partition id", "The partition; required with --topic."),
    ToolOption(
        "path-to-json-file",
        "Path to JSON file",
        'Several partitions: {"partitions": [{"topic": "foo", "partition": 1}]}',
    ),
    ToolOption("topic", "topic name", "The topic of one partition."),
    VERSION,
)
_ABOUT: Final = "This tool attempts to elect a new leader for a set of topic partitions."
_KINDS: Final = {"preferred": PREFERRED_ELECTION, "unclean": UNCLEAN_ELECTION}
_SCOPES: Final = ("topic", "all-topic-partitions", "path-to-json-file")


def parse(args: Sequence[str]) -> Options:
    """The options of a command line that makes sense."""
    options = begin("kafka-leader-election", _ABOUT, OPTIONS, args)
    kind = options.one("election-type")
    if kind is not None and kind.lower() not in _KINDS:
        options.fail(f"Cannot parse argument '{kind}' of option election-type")
    options.integer("partition")
    needed = ("bootstrap-server", "election-type")
    if missing := [name for name in needed if name not in options]:
        options.fail(f"Missing required option(s): {', '.join(missing)}")
    if len(options.given(_SCOPES)) != 1:
        named = ", ".join(_SCOPES)
        options.fail(f"One and only one of the following options is required: {named}")
    if "topic" in options and "partition" not in options:
        options.fail("Missing required option(s): partition")
    if "partition" in options and "topic" not in options:
        options.fail("Option partition is only allowed if topic is used")
    return options


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options = parse(args)
    kind = (options.one("election-type") or "").lower()
    try:
        wanted = _wanted(options)
        settings = client_settings.read(options.one("admin.config"))
        run(
            options.one("bootstrap-server") or "",
            lambda admin: _elect(admin, kind, wanted),
            settings,
        )
    except (KlammError, ValueError, OSError) as error:
        options.fail(bare(error))


def _wanted(options: Options) -> list[TopicPartition] | None:
    """The partitions to elect for, None for all."""
    topic = options.one("topic")
    if topic is not None:
        return [TopicPartition(topic, options.integer("partition") or 0)]
    if "path-to-json-file" in options:
        return partitions_of(plans.read(options.one("path-to-json-file")))
    return None


def partitions_of(text: str) -> list[TopicPartition]:
    """The partitions of a file."""
    document = plans.document(text)
    if "partitions" not in document:
        raise ValueError('Replica election data is missing "partitions" field')
    found = [plans.partition(entry) for entry in plans.entries(document, "partitions")]
    if twice := plans.repeated(found):
        named = ", ".join(map(str, twice))
        raise ValueError(f"Replica election data contains duplicate partitions: [{named}]")
    return found


async def _elect(admin: Admin, kind: str, wanted: Sequence[TopicPartition] | None) -> None:
    try:
        results = await admin.elect_leaders(_KINDS[kind], wanted)
    except DeadlineExceeded:
        say("Timeout waiting for election results")
        raise ValueError("Timeout waiting for election results") from None
    except RequestRefused as refusal:
        if refusal.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        say("Not authorized to perform leader election")
        raise ValueError("Not authorized to perform leader election") from None
    lines, failed = report(kind.upper(), sorted(results.items()))
    say(*lines)
    if failed:
        raise ValueError(f"{failed} replica(s) could not be elected")


def report(
    kind: str, results: Iterable[tuple[TopicPartition, PartitionResult]]
) -> tuple[list[str], int]:
    """The lines to print, and the number of partitions without a new leader."""
    elected: list[str] = []
    idle: list[str] = []
    failed: list[str] = []
    for tp, result in results:
        code = code_of(result.error_code)
        if code is ErrorCode.NONE:
            elected.append(str(tp))
        elif code is ErrorCode.ELECTION_NOT_NEEDED:
            idle.append(str(tp))
        else:
            why = f"{plans.exception(code)}: {result.error_message or code.name}"
            failed.append(f"Error completing leader election ({kind}) for partition: {tp}: {why}")
    lines = []
    if elected:
        named = ", ".join(elected)
        lines.append(f"Successfully completed leader election ({kind}) for partitions {named}")
    if idle:
        lines.append(f"Valid replica already elected for partitions {', '.join(idle)}")
    return lines + failed, len(failed)
