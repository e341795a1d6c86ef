"""`klamm kafka-configs`: the flags, refusals, output and exit codes of Kafka's tool of that name.

Left out: `--zookeeper` and `--bootstrap-controller`, which speak to something that is not a broker,
and client metrics; each is refused with a sentence.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cli.asking import bare, run
from klamm.cli.facts import (
    BROKER_OVERRIDE,
    CLUSTER_OVERRIDE,
    SOURCES,
    TOPIC_OVERRIDE,
    Setting,
    describe_settings,
    list_topics,
    live_brokers,
)
from klamm.cli.kafka.access import credentials
from klamm.cli.kafka.access import quotas as kafka_quotas
from klamm.cli.kafka.options import Options, ToolOption
from klamm.cli.output import say
from klamm.cli.topics.changes import alter_settings
from klamm.client import properties
from klamm.client import settings as client_settings
from klamm.client.aio.admin import Admin, ConfigResource
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import KlammError, UsageError
from klamm.version import __version__

OPTIONS: Final = (
    ToolOption("add-config", "k1=v1,k2=[v1,v2]", "Settings to add or change."),
    ToolOption("add-config-file", "file", "Settings to add or change, from a properties file."),
    ToolOption("all", "", "Describe: all settings, not only those set for the entity."),
    ToolOption("alter", "", "Alter the configuration of the entity."),
    ToolOption(
        "bootstrap-controller", "controller", "Not supported: klamm has no KRaft controllers."
    ),
    ToolOption("bootstrap-server", "server to connect to", "The brokers to connect to."),
    ToolOption("broker", "broker id", "The broker's id."),
    ToolOption("broker-defaults", "", "The settings that are the default of all brokers."),
    ToolOption("broker-logger", "broker id", "The broker whose loggers to look at."),
    ToolOption("client", "client id", "The client's id."),
    ToolOption("client-defaults", "", "The settings that are the default of all clients."),
    ToolOption("command-config", "file", "Properties for the admin client."),
    ToolOption("delete-config", "k1,k2", "Settings to remove."),
    ToolOption("describe", "", "List the settings of the entity."),
    ToolOption("entity-default", "", "The default entity of the type named before."),
    ToolOption("entity-name", "name", "The name of the entity."),
    ToolOption("entity-type", "type", "topics, clients, users, brokers, ips or broker-loggers."),
    ToolOption("force", "", "Suppress console prompts."),
    ToolOption("help", "", "Print usage information."),
    ToolOption("ip", "address", "The IP address."),
    ToolOption("ip-defaults", "", "The settings that are the default of all IP addresses."),
    ToolOption("topic", "topic", "The topic's name."),
    ToolOption("user", "user", "The user's principal name."),
    ToolOption("user-defaults", "", "The settings that are the default of all users."),
    ToolOption("version", "", "Display Kafka version."),
    ToolOption("zk-tls-config-file", "file", "Only with --zookeeper."),
    ToolOption("zookeeper", "urls", "Not supported: klamm's brokers answer for their settings."),
)
TYPES: Final = (
    "topics",
    "clients",
    "users",
    "brokers",
    "ips",
    "broker-loggers",
    "client-metrics",
)
_SHORT: Final = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
}
_SHORT_DEFAULTS: Final = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
_MAY_BE_DEFAULT: Final = frozenset({"users", "clients", "brokers", "ips"})
_KEY: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


class Entity(NamedTuple):
    """One thing that has settings; the name is None for all of a type, '' for the default."""

    type: str
    name: str | None


def parse(args: Sequence[str]) -> tuple[Options, list[Entity]]:
    """The options of a command line that makes sense, and what they are about."""
    options = Options("kafka-configs", OPTIONS)
    if not args:
        options.usage("This tool helps to manipulate and describe settings.")
    options.parse(args)
    if "help" in options:
        options.usage("This tool helps to manipulate and describe settings.")
    if "version" in options:
        say(f"3.9.0 (klamm {__version__})")
        raise SystemExit(0)
    _check_actions(options)
    entities = _entities(options)
    _check_entities(options, entities)
    return options, entities


def _check_actions(options: Options) -> None:
    if len(options.given(("alter", "describe"))) != 1:
        options.usage("Command must include exactly one action: --describe, --alter")
    if options.given(("zookeeper", "bootstrap-controller", "zk-tls-config-file")):
        options.fail("klamm answers for its settings through its brokers: use --bootstrap-server")
    if "bootstrap-server" not in options:
        options.usage("One of the required --bootstrap-server arguments must be specified")
    adding = options.given(("add-config", "add-config-file"))
    if "describe" in options:
        options.exclude("describe", ("add-config", "add-config-file", "delete-config"))
    elif len(adding) == 2:
        options.fail("Only one of --add-config or --add-config-file must be specified")
    elif not adding and "delete-config" not in options:
        options.fail(
            "At least one of --add-config, --add-config-file, or --delete-config "
            "must be specified with --alter"
        )


def _entities(options: Options) -> list[Entity]:
    """The entities that the command is about, from the long form or the shortcuts."""
    short = options.given((*_SHORT, *_SHORT_DEFAULTS))
    long = options.given(("entity-type", "entity-name", "entity-default"))
    if short and long:
        options.fail(
            f"--{long[0]} must not be used together with --{short[0]}: name the entity one way"
        )
    if short:
        named = [Entity(_SHORT[n], options.one(n)) for n in short if n in _SHORT]
        return named + [Entity(_SHORT_DEFAULTS[n], "") for n in short if n in _SHORT_DEFAULTS]
    types = options.all("entity-type")
    # The first name, or the first default, belongs to the first type, and so on.
    given = [value for _, value in options.in_order("entity-name", "entity-default")]
    if len(given) > len(types):
        options.fail("An entity name needs an entity type before it")
    names = [*given, *[None] * (len(types) - len(given))]
    return [Entity(kind, name) for kind, name in zip(types, names, strict=True)]


def _check_entities(options: Options, entities: Sequence[Entity]) -> None:
    types = [entity.type for entity in entities]
    if not types:
        options.fail("At least one entity type must be specified")
    for kind in types:
        if kind not in TYPES:
            options.fail(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)}"
            )
    if len(set(types)) != len(types):
        twice = dict.fromkeys(kind for kind in types if types.count(kind) > 1)
        options.fail("Duplicate entity type(s) specified: " + ",".join(twice))
    if len(types) > 1 and set(types) != {"users", "clients"}:
        options.fail("Only users and clients may be named together")
    for entity in entities:
        is_broker = entity.type in ("brokers", "broker-loggers")
        if is_broker and entity.name and not entity.name.removeprefix("-").isdigit():
            options.fail(f"The entity name for {entity.type} must be an integer, the broker's id")
        if entity.type == "ips" and entity.name and not _is_address(entity.name):
            options.fail(
                "The entity name for ips must be a valid IP or resolvable host, "
                f"but it is: {entity.name}"
            )
        if entity.name == "" and entity.type not in _MAY_BE_DEFAULT:
            options.fail(f"There is no default entity of {entity.type}")
        if entity.name is None and ("alter" in options or entity.type == "broker-loggers"):
            options.fail(f"An entity name must be specified for {entity.type}")


def _is_address(text: str) -> bool:
    try:
        socket.getaddrinfo(text, None)
    except OSError:
        return False
    return True


def parse_additions(options: Options) -> dict[str, str]:
    """The settings that --add-config or --add-config-file sets."""
    file = options.one("add-config-file")
    if file is not None:
        try:
            return properties.read(Path(file))
        except ValueError as fault:
            options.fail(str(fault))
    text = options.one("add-config")
    return {} if text is None else _pairs(options, text)


def parse_removals(options: Options) -> list[str]:
    """The settings that --delete-config removes."""
    names = [name.strip() for text in options.all("delete-config") for name in text.split(",")]
    for name in names:
        _check_key(options, name)
    return names


def _pairs(options: Options, text: str) -> dict[str, str]:
    """`k=v,k2=[a,b],k3=`: commas within brackets do not separate, the brackets go."""
    found: dict[str, str] = {}
    for item in re.findall(r"(?:\[[^\]]*\]|[^,])+", text) or [""]:
        name, equals, value = item.partition("=")
        bare = re.sub(r"\[[^\]]*\]", "", value)
        if not equals or "=" in bare:
            options.fail(
                "Invalid entity config: all configs to be added must be in the format key=val"
            )
        _check_key(options, name.strip())
        found[name.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return found


def _check_key(options: Options, name: str) -> None:
    if not _KEY.match(name):
        options.fail(f"Invalid config name {name!r}: only letters, digits, '.', '_' and '-'")


_KINDS: Final = {
    "topics": ConfigResourceType.TOPIC,
    "brokers": ConfigResourceType.BROKER,
    "broker-loggers": ConfigResourceType.BROKER_LOGGER,
}


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options, entities = parse(args)
    if entities[0].type not in (*_KINDS, *kafka_quotas.TYPES):
        options.fail(f"klamm keeps no settings of {entities[0].type}")
    try:
        settings = client_settings.read(options.one("command-config"))
        bootstrap = options.one("bootstrap-server") or ""
        run(bootstrap, lambda admin: _do(admin, options, entities), settings)
    except (ValueError, UsageError) as fault:
        options.fail(str(fault))  # what the tool itself sees is told without the command
    except (KlammError, OSError) as error:
        said = credentials.without_secrets(" ".join(args))
        options.fail(f"Error while executing config command with args '{said}'\n{bare(error)}")


async def _do(admin: Admin, options: Options, entities: Sequence[Entity]) -> None:
    is_quota = entities[0].type in kafka_quotas.TYPES
    if "alter" in options:
        if is_quota:
            await _alter_users(admin, options, entities)
        else:
            await _alter(admin, options, entities[0])
        _tell_done(entities[0])
    elif is_quota:
        for line in await kafka_quotas.describe(admin.client, entities):
            say(line, keep="\t")
        if [entity.type for entity in entities] == ["users"] and entities[0].name != "":
            for line in await credentials.describe(admin.client, entities[0].name):
                say(line)
    else:
        await _describe(admin, options, entities[0])


async def _alter_users(admin: Admin, options: Options, entities: Sequence[Entity]) -> None:
    """Changes quotas, or of users alone SCRAM credentials."""
    additions, removals = parse_additions(options), parse_removals(options)
    is_user = [entity.type for entity in entities] == ["users"]
    if is_user and credentials.is_about(additions, removals):
        await credentials.alter(admin.client, entities[0].name, additions, removals)
    else:
        await kafka_quotas.alter(admin.client, entities, additions, removals)


async def _alter(admin: Admin, options: Options, entity: Entity) -> None:
    additions, removals = parse_additions(options), parse_removals(options)
    kind, name = _KINDS[entity.type], entity.name or ""
    entries = (await describe_settings(admin, kind, [name]))[name]
    known = {entry.name for entry in entries if _is_own(entity, name, entry)}
    if entity.type == "broker-loggers":
        strange = [logger for logger in (*additions, *removals) if logger not in known]
        if strange:
            raise ValueError(f"Invalid broker logger(s): {','.join(strange)}")
    unknown = [name for name in removals if name not in known]
    if unknown:
        raise ValueError(f"Invalid config(s): {','.join(unknown)}")
    await alter_settings(admin, ConfigResource(kind, name), additions, removals)


def _tell_done(entity: Entity) -> None:
    if entity.name:
        say(f"Completed updating config for {entity.type.removesuffix('s')} {entity.name}.")
    else:
        say(f"Completed updating default config for {entity.type} in the cluster.")


async def _describe(admin: Admin, options: Options, entity: Entity) -> None:
    everything = "all" in options
    for name in await _names(admin, entity):
        found = await describe_settings(admin, _KINDS[entity.type], [name], synonyms=True)
        if not name:
            say(f"Default configs for {entity.type} in the cluster are:")
        else:
            extent = "All" if everything else "Dynamic"
            say(f"{extent} configs for {entity.type.removesuffix('s')} {name} are:")
        for entry in found[name]:
            if everything or _is_own(entity, name, entry):
                say(_line(entry))


async def _names(admin: Admin, entity: Entity) -> list[str]:
    if entity.name is not None:
        return [entity.name]
    if entity.type == "topics":
        return [topic.name for topic in await list_topics(admin)]
    return [*map(str, sorted(await live_brokers(admin))), ""]


def _is_own(entity: Entity, name: str, entry: Setting) -> bool:
    """Whether this was set for what has the name, and not for what it inherits from."""
    if entity.type == "broker-loggers":
        return True
    if entity.type == "topics":
        return entry.config_source == TOPIC_OVERRIDE
    return entry.config_source == (BROKER_OVERRIDE if name else CLUSTER_OVERRIDE)


def _line(entry: Setting) -> str:
    value = "null" if entry.value is None else entry.value
    synonyms = ", ".join(
        f"{SOURCES.get(synonym.source, 'UNKNOWN')}:{synonym.name}={synonym.value}"
        for synonym in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={value} sensitive={sensitive} synonyms={{{synonyms}}}"
