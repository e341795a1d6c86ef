"""`klamm kafka-topics`: the flags, refusals, output and exit codes of Kafka's tool of that name.

Scripts written for kafka-topics.sh run unchanged. Followed to the letter where a script could
notice: streams, exit codes, tabs. Two deliberate gaps: no stack traces, and `--command-config` is
accepted but read for nothing, since every setting klamm's client has is an option.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm import __version__
from klamm.cli.kafka_options import Option, Options

OPTIONS: Final = (
    Option("alter", "", "Alter the number of partitions and replica assignment of a topic."),
    Option("at-min-isr-partitions", "", "Describe: only those with just the minimum in sync."),
    Option("bootstrap-server", "server to connect to", "REQUIRED: the brokers to connect to."),
    Option("command-config", "file", "Properties for the admin client."),
    Option("config", "name=value", "A topic setting, with --create. Repeatable."),
    Option("create", "", "Create a new topic."),
    Option("delete", "", "Delete a topic."),
    Option("delete-config", "name", "No longer supported; see kafka-configs."),
    Option("describe", "", "List details for the given topics."),
    Option("exclude-internal", "", "Leave internal topics out when listing or describing."),
    Option("help", "", "Print usage information."),
    Option("if-exists", "", "Alter, delete, describe: act only if the topic exists."),
    Option("if-not-exists", "", "Create: act only if the topic does not exist."),
    Option("list", "", "List all available topics."),
    Option("partition-size-limit-per-response", "count", "Partitions in one describe response."),
    Option("partitions", "# of partitions", "The number of partitions to create or alter to."),
    Option("replica-assignment", "b:b,b:b,...", "Manual assignment, partitions by commas."),
    Option("replication-factor", "replication factor", "Create: the copies of each partition."),
    Option("topic", "topic", "A name; a regular expression for all but --create."),
    Option("topic-id", "topic-id", "Describe: the topic with this id."),
    Option("topics-with-overrides", "", "Describe: only topics that have overridden settings."),
    Option("unavailable-partitions", "", "Describe: only partitions without a live leader."),
    Option("under-min-isr-partitions", "", "Describe: only those with too few in sync."),
    Option("under-replicated-partitions", "", "Describe: only under-replicated partitions."),
    Option("version", "", "Display Kafka version."),
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
        print(f"3.9.0 (klamm {__version__})")
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
            options.require("topic")
        if "topic" in options and "topic-id" in options:
            print("Only topic id will be used when both --topic and --topic-id are specified.")
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
        options.usage('Option "[delete-config]" can\'t be used with option "[bootstrap-server]"')
    if action == "create":
        options.exclude("replica-assignment", ("partitions", "replication-factor"))
    for option, others in _EXCLUDED.items():
        options.exclude(option, sorted(others))
