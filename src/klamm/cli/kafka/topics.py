"""`klamm kafka-topics`: the flags, refusals, output and exit codes of Kafka's tool of that name.

Scripts written for kafka-topics.sh run unchanged: followed to the letter is what a script could
notice, down to tabs and exit codes. Different on purpose: a failure is told on stderr, where Kafka
uses stdout, and there are no stack traces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from klamm.cli.asking import bare, run
from klamm.cli.facts import TopicFacts, describe_topics, list_topics, live_brokers
from klamm.cli.kafka import reports as kafka_reports
from klamm.cli.kafka.options import Options, ToolOption
from klamm.cli.output import say
from klamm.cli.topics import changes as topic_changes
from klamm.client import settings as client_settings
from klamm.client.aio.admin import Admin
from klamm.model.errors import ErrorCode, KlammError, RequestRefused
from klamm.model.names import ZERO_ID, id_text
from klamm.version import __version__

OPTIONS: Final = (
    ToolOption("alter", "", "Alter the number of partitions and replica assignment of a topic."),
    ToolOption("at-min-isr-partitions", "", "Describe: only those with just the minimum in sync."),
    ToolOption("bootstrap-server", "server to connect to", "REQUIRED: the brokers to connect to."),
    ToolOption("command-config", "file", "Properties for the admin client."),
    ToolOption("config", "name=value", "A topic setting, with --create. Repeatable."),
    ToolOption("create", "", "Create a new topic."),
    ToolOption("delete", "", "Delete a topic."),
    ToolOption("delete-config", "name", "No longer supported; see kafka-configs."),
    ToolOption("describe", "", "List details for the given topics."),
    ToolOption("exclude-internal", "", "Leave internal topics out when listing or describing."),
    ToolOption("help", "", "Print usage information."),
    ToolOption("if-exists", "", "Alter, delete, describe: act only if the topic exists."),
    ToolOption("if-not-exists", "", "Create: act only if the topic does not exist."),
    ToolOption("list", "", "List all available topics."),
    ToolOption(
        "partition-size-limit-per-response", "count", "Partitions in one describe response."
    ),
    ToolOption("partitions", "# of partitions", "The number of partitions to create or alter to."),
    ToolOption("replica-assignment", "b:b,b:b,...", "Manual assignment, partitions by commas."),
    ToolOption("replication-factor", "replication factor", "Create: the copies of each partition."),
    ToolOption("topic", "topic", "A name; a regular expression for all but --create."),
    ToolOption("topic-id", "topic-id", "Describe: the topic with this id."),
    ToolOption("topics-with-overrides", "", "Describe: only topics that have overridden settings."),
    ToolOption("unavailable-partitions", "", "Describe: only partitions without a live leader."),
    ToolOption("under-min-isr-partitions", "", "Describe: only those with too few in sync."),
    ToolOption("under-replicated-partitions", "", "Describe: only under-replicated partitions."),
    ToolOption("version", "", "Display Kafka version."),
)
ACTIONS: Final = ("create", "list", "alter", "describe", "delete")
REPORTS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
ALL_ACTIONS: Final = frozenset(ACTIONS)

# Which actions an option may not stand beside, in the order in which Kafka looks.
_EXCLUDED: Final = {
    "config": ALL_ACTIONS - {"create", "alter"},
    "partitions": ("list", "describe", "delete"),
    "replication-factor": ALL_ACTIONS - {"create"},
    "replica-assignment": ("list", "describe", "delete"),
    **{
        report: (*sorted(ALL_ACTIONS - {"describe"}), "topics-with-overrides") for report in REPORTS
    },
    "topics-with-overrides": ALL_ACTIONS - {"describe"},
    "if-exists": ("list", "create"),
    "if-not-exists": ALL_ACTIONS - {"create"},
    "exclude-internal": ("create", "alter", "delete"),
}


def parse(args: Sequence[str]) -> Options:
    """The options of a command line that makes sense; anything else exits here."""
    options = Options("kafka-topics", OPTIONS)
    if not args:
        options.usage("Create, delete, describe, or change a topic.")
    options.parse(args)
    if "help" in options:
        options.usage("This tool helps to create, delete, describe, or change a topic.")
    if "version" in options:
        say(f"3.9.0 (klamm {__version__})")
        raise SystemExit(0)
    _check(options)
    return options


def _check(options: Options) -> None:
    """Kafka's checks, in its order."""
    if len(options.given(ACTIONS)) != 1:
        options.usage(
            "Command must include exactly one action: "
            "--list, --describe, --create, --alter or --delete"
        )
    if "bootstrap-server" not in options:
        options.fail("--bootstrap-server must be specified")
    (action,) = options.given(ACTIONS)
    if action == "describe" and "if-exists" in options:
        if "topic" not in options and "topic-id" not in options:
            options.usage("--topic or --topic-id is required with --describe --if-exists")
        if "topic" in options and "topic-id" in options:
            say("Only topic id will be used when both --topic and --topic-id are specified.")
    if action in ("create", "alter", "delete"):
        options.require("topic")
    if action == "alter":
        if "config" in options:
            options.usage(
                'Option "[config]" can\'t be used with option "[alter]": '
                "the settings of topics are altered with kafka-configs"
            )
        options.require("partitions")
    if "delete-config" in options:
        options.exclude("delete-config", (*sorted(ALL_ACTIONS - {"alter"}), "bootstrap-server"))
    if action == "create":
        options.exclude("replica-assignment", ("partitions", "replication-factor"))
    for option, others in _EXCLUDED.items():
        options.exclude(option, sorted(others))


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options = parse(args)
    (action,) = options.given(ACTIONS)
    try:
        settings = client_settings.read(options.one("command-config"))
        bootstrap = options.one("bootstrap-server") or ""
        run(bootstrap, lambda admin: _DO[action](admin, options), settings)
    except (KlammError, ValueError, OSError) as error:
        options.fail(f"Error while executing topic command : {bare(error)}")


async def _create(admin: Admin, options: Options) -> None:
    name = options.one("topic") or ""
    if "." in name or "_" in name:
        say(
            "WARNING: in metric names '.' and '_' are the same, so topics whose names have them "
            "could collide. Best use one of the two, not both."
        )
    assignment = _assignment(options.one("replica-assignment"))
    partitions, copies = options.integer("partitions"), options.integer("replication-factor")
    if partitions is not None and partitions < 1:
        raise ValueError("The partitions must be greater than 0")
    if copies is not None and not 1 <= copies <= 32767:
        raise ValueError("The replication factor must be between 1 and 32767 inclusive")
    new = topic_changes.TopicWish(
        name,
        -1 if partitions is None else partitions,
        -1 if copies is None else copies,
        _configs(options.all("config")),
        assignment,
    )
    if "message.format.version" in new.configs:
        say(
            "WARNING: message.format.version is deprecated and will be removed in Kafka 4.0; "
            "brokers of 3.0 and later ignore it."
        )
    try:
        await topic_changes.create(admin, new, dry_run=False)
    except RequestRefused as refusal:
        if refusal.code is ErrorCode.TOPIC_ALREADY_EXISTS and "if-not-exists" in options:
            return
        raise
    say(f"Created topic {name}.")


async def _list(admin: Admin, options: Options) -> None:
    say(*[topic.name for topic in await _chosen(admin, options)] or [""])


async def _alter(admin: Admin, options: Options) -> None:
    chosen = _existing(await _chosen(admin, options), options)
    total = options.integer("partitions") or 0
    assignment = _assignment(options.one("replica-assignment"))
    for topic in chosen:
        # The list names all partitions; those that exist stay where they are.
        added = assignment[len(topic.partitions) :] if assignment is not None else None
        await topic_changes.add_partitions(admin, topic.name, total, added)


async def _describe(admin: Admin, options: Options) -> None:
    options.integer("partition-size-limit-per-response")  # asked for by mistake or not: a number
    if options.one("topic-id") not in (None, id_text(ZERO_ID)):
        chosen = _by_id(await list_topics(admin), options)
    else:
        chosen = _existing(await _chosen(admin, options), options)
    live = await live_brokers(admin)
    for topic in await describe_topics(admin, [topic.name for topic in chosen]):
        for line in kafka_reports.lines(topic, live, frozenset(options.given(OPTION_NAMES))):
            say(line, keep="\t")


async def _delete(admin: Admin, options: Options) -> None:
    chosen = _existing(await _chosen(admin, options), options)
    await topic_changes.delete(admin, [topic.name for topic in chosen], True, dry_run=False)


async def _chosen(admin: Admin, options: Options) -> list[TopicFacts]:
    """The topics that --topic, a regular expression for the whole name, and the flags leave."""
    text = options.one("topic")
    hidden = "exclude-internal" in options
    wanted = _expression(text) if text is not None else None
    return [
        topic
        for topic in await list_topics(admin)
        if (wanted is None or wanted.fullmatch(topic.name)) and not (hidden and topic.is_internal)
    ]


def _expression(text: str) -> re.Pattern[str]:
    bare = re.sub(r"\s", "", text.strip().replace(",", "|")).strip("\"'")
    try:
        return re.compile(bare)
    except re.error:
        raise ValueError(f"{bare} is an invalid regex") from None


def _existing(chosen: list[TopicFacts], options: Options) -> list[TopicFacts]:
    if not chosen and "topic" in options and "if-exists" not in options:
        raise ValueError(f"Topic '{options.one('topic')}' does not exist as expected")
    return chosen


def _by_id(topics: list[TopicFacts], options: Options) -> list[TopicFacts]:
    wanted = options.one("topic-id")
    found = [topic for topic in topics if id_text(topic.id) == wanted]
    if not found and "if-exists" not in options:
        raise ValueError(f"TopicId '{wanted}' does not exist as expected")
    return found


def _configs(texts: Sequence[str]) -> dict[str, str]:
    """Split on every '=': this tool knows neither empty values nor such with '=' in them."""
    found: dict[str, str] = {}
    for text in texts:
        parts = [part.strip() for part in text.split("=")]
        if len(parts) != 2 or not all(parts):
            raise ValueError(
                "Invalid topic config: all configs to be added must be in the format key=val"
            )
        found[parts[0]] = parts[1]
    return found


def _assignment(text: str | None) -> list[tuple[int, ...]] | None:
    """`b:b,b:b`; nothing at all is no assignment, and a comma at the end no partition."""
    if not text:
        return None
    parts = text.rstrip(",").split(",")
    try:
        lists = [tuple(int(broker.strip()) for broker in part.split(":")) for part in parts]
    except ValueError:
        raise ValueError(f"{text!r} is not an assignment of brokers to partitions") from None
    for replicas in lists:
        if len(set(replicas)) != len(replicas):
            twice = sorted({broker for broker in replicas if replicas.count(broker) > 1})
            raise ValueError(
                f"Partition replica lists may not contain duplicate entries: "
                f"{','.join(map(str, twice))}"
            )
        if len(replicas) != len(lists[0]):
            raise ValueError(
                f"Partition {lists.index(replicas)} has different replication factor: "
                f"{list(replicas)}"
            )
    return lists


OPTION_NAMES: Final = tuple(option.name for option in OPTIONS)
_DO: Final = {
    "create": _create,
    "list": _list,
    "alter": _alter,
    "describe": _describe,
    "delete": _delete,
}
