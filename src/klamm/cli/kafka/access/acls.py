"""`klamm kafka-acls`: the flags, refusals, output and exit codes of Kafka's tool of that name.

Left out: `--authorizer` and what belongs to it, which write to ZooKeeper past the brokers; it is
refused with a sentence. Entries are printed in a fixed order, where Kafka's tool has none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from klamm.cli.asking import bare, run
from klamm.cli.kafka.options import Options, ToolOption
from klamm.cli.output import say
from klamm.client import settings as client_settings
from klamm.client.aio import acls
from klamm.client.aio.admin import Admin
from klamm.model.errors import KlammError, Refused, UsageError
from klamm.security.authorization.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Binding,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.security.authorization.rights import SUPPORTED
from klamm.security.principals import parse_principal
from klamm.version import __version__

OPTIONS: Final = (
    ToolOption("add", "", "Add ACLs."),
    ToolOption("allow-host", "host", "Where allowed principals come from; * by default."),
    ToolOption("allow-principal", "type:name", "A principal that is allowed."),
    ToolOption(
        "authorizer", "class", "Not supported: klamm answers for its ACLs through its brokers."
    ),
    ToolOption("authorizer-properties", "k=v", "Only with --authorizer."),
    ToolOption("bootstrap-server", "server to connect to", "The brokers to connect to."),
    ToolOption("cluster", "", "ACLs of the cluster."),
    ToolOption("command-config", "file", "Properties for the admin client."),
    ToolOption(
        "consumer", "", "What a consumer needs: READ and DESCRIBE on topics, READ on groups."
    ),
    ToolOption("delegation-token", "token id", "ACLs of this delegation token."),
    ToolOption("deny-host", "host", "Where denied principals come from; * by default."),
    ToolOption(
        "deny-principal", "type:name", "A principal that is denied; it beats what is allowed."
    ),
    ToolOption("force", "", "Do not ask."),
    ToolOption("group", "group", "ACLs of this consumer group; * for all."),
    ToolOption("help", "", "Print usage information."),
    ToolOption("idempotent", "", "With --producer: IDEMPOTENT_WRITE on the cluster as well."),
    ToolOption("list", "", "List ACLs."),
    ToolOption("operation", "operation", "The operation; All by default. Repeatable."),
    ToolOption("principal", "type:name", "With --list: only of this principal."),
    ToolOption(
        "producer",
        "",
        "What a producer needs: WRITE, DESCRIBE and CREATE on topics, WRITE and DESCRIBE on "
        "transactional ids.",
    ),
    ToolOption("remove", "", "Remove ACLs."),
    ToolOption(
        "resource-pattern-type", "type", "literal, prefixed; to list or remove also any, match."
    ),
    ToolOption("topic", "topic", "ACLs of this topic; * for all."),
    ToolOption("transactional-id", "id", "ACLs of this transactional id; * for all."),
    ToolOption("user-principal", "type:name", "ACLs of the tokens of this user."),
    ToolOption("version", "", "Display Kafka version."),
    ToolOption("zk-tls-config-file", "file", "Only with --authorizer."),
)
_ABOUT: Final = "This tool helps to manage acls on kafka."
_RESOURCES: Final[Mapping[str, ResourceType]] = {
    "topic": ResourceType.TOPIC,
    "cluster": ResourceType.CLUSTER,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
_OPERATIONS: Final = {
    operation.title.lower(): operation for operation in Operation if operation >= Operation.ALL
}
_PATTERNS: Final = {pattern.name: pattern for pattern in PatternType if pattern}
_SIDES: Final = (("allow", Permission.ALLOW), ("deny", Permission.DENY))
_NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
    "--delegation-token <Delegation Token ID>"
)

Wanted = Mapping[Pattern, frozenset[Acl]]  # none at all: whatever there is


def parse(args: Sequence[str]) -> Options:
    """The options of a command line that makes sense."""
    options = Options("kafka-acls", OPTIONS)
    if not args:
        options.usage(_ABOUT)
    options.parse(args)
    if "help" in options:
        options.usage(_ABOUT)
    if "version" in options:
        say(f"3.9.0 (klamm {__version__})")
        raise SystemExit(0)
    _check(options)
    return options


def _check(options: Options) -> None:
    if options.given(("authorizer", "authorizer-properties", "zk-tls-config-file")):
        if "bootstrap-server" in options:
            options.usage("Only one of --bootstrap-server or --authorizer must be specified")
        options.fail("klamm answers for its ACLs through its brokers: use --bootstrap-server")
    options.require("bootstrap-server")
    if len(options.given(("add", "list", "remove"))) != 1:
        options.usage("Command must include exactly one action: --list, --add, --remove. ")
    options.exclude("list", ("producer", "consumer", "allow-host", "allow-principal"))
    options.exclude("list", ("deny-host", "deny-principal"))
    for role in ("producer", "consumer"):
        options.exclude(role, ("operation", "deny-principal", "deny-host"))
    if "principal" in options and "list" not in options:
        options.usage("The --principal option is only available if --list is set")
    if "producer" in options and "topic" not in options:
        options.usage("With --producer you must specify a --topic")
    if "idempotent" in options and "producer" not in options:
        options.usage("The --idempotent option is only available if --producer is set")
    if "consumer" in options and (
        not options.given(("topic",))
        or not options.given(("group",))
        or ("producer" not in options and options.given(("cluster", "transactional-id")))
    ):
        options.usage(
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options = parse(args)
    try:
        work = _Work(options)
        settings = client_settings.read(options.one("command-config"))
        run(options.one("bootstrap-server") or "", work, settings)
    except (KlammError, UsageError, ValueError, OSError) as error:
        # Kafka's tool says this on standard output.
        say(f"Error while executing ACL command: {bare(error)}")
        raise SystemExit(1) from None


class _Work:
    """The work to do, checked before anybody is asked."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._wanted = {} if "list" in options else wanted_of(options)
        self._named = _named(options, _pattern_type(options))
        self._principals = [_principal(text) for text in options.all("principal")]

    async def __call__(self, admin: Admin) -> None:
        if "add" in self._options:
            await self._add(admin)
        elif "remove" in self._options:
            await self._remove(admin)
        else:
            await self._list(admin)

    async def _add(self, admin: Admin) -> None:
        for pattern, entries in self._wanted.items():
            _print(f"Adding ACLs for resource `{_text(pattern)}`: ", entries)
            await acls.create(admin.client, [Binding(pattern, entry) for entry in entries])

    async def _remove(self, admin: Admin) -> None:
        for pattern, entries in self._wanted.items():
            if entries:
                listed = "\n".join(f"\t{_entry(entry)}" for entry in sorted(entries))
                question = (
                    f"Are you sure you want to remove ACLs: \n {listed} \n from resource filter "
                    f"`{_text(pattern)}`? (y/n)"
                )
            else:
                question = (
                    "Are you sure you want to delete all ACLs for resource filter "
                    f"`{_text(pattern)}`? (y/n)"
                )
            if "force" in self._options or _agreed(question):
                await acls.delete(admin.client, _filters(pattern, entries))

    async def _list(self, admin: Admin) -> None:
        filters = [_filter(pattern) for pattern in self._named] or [Filter()]
        found = [await acls.describe(admin.client, one) for one in filters]
        bindings = sorted({binding for some in found for binding in some})
        if not self._principals:
            _print_all(bindings)
        for principal in self._principals:
            say(f"ACLs for principal `{principal}`")
            _print_all(one for one in bindings if one.acl.principal == principal)


def _pattern_type(options: Options) -> PatternType:
    text = options.one("resource-pattern-type") or "literal"
    pattern = _PATTERNS.get(text.upper())
    if pattern is None:
        raise UsageError(f"Cannot parse argument '{text}' of option resource-pattern-type")
    if "add" in options and pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        options.usage(
            f"A '--resource-pattern-type' value of '{pattern.name}' is not valid when adding acls."
        )
    return pattern


def _named(options: Options, pattern: PatternType) -> list[Pattern]:
    """The resources that were named, in the order of the kinds."""
    found = []
    for option, kind in _RESOURCES.items():
        if kind is ResourceType.CLUSTER:
            if option in options:
                # There is one cluster, and its name is no pattern.
                found.append(Pattern(kind, CLUSTER_NAME, PatternType.LITERAL))
        else:
            found += [Pattern(kind, name.strip(), pattern) for name in options.all(option)]
    return list(dict.fromkeys(found))


def wanted_of(options: Options) -> Wanted:
    """The entries to add or to remove, by resource."""
    named = _named(options, _pattern_type(options))
    if not named:
        options.usage(_NO_RESOURCE)
    if options.given(("producer", "consumer")):
        found = _roles(options, named)
    else:
        operations = _operations(options)
        found = {one: _entries(options, operations) for one in named}
    if "add" in options and not any(found.values()):
        options.usage(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    for one, entries in found.items():
        _check_operations(options, one, entries)
    return found


def _operations(options: Options) -> list[Operation]:
    texts = options.all("operation") or ["All"]
    # What nobody knows is found to be unsupported by every type.
    return [
        _OPERATIONS.get(text.strip().replace("_", "").lower(), Operation.UNKNOWN) for text in texts
    ]


def _entries(options: Options, operations: Iterable[Operation]) -> frozenset[Acl]:
    """The product of principals, hosts and operations, on both sides."""
    chosen = list(operations)
    return frozenset(
        Acl(_principal(name), host, operation, permission)
        for side, permission in _SIDES
        for name in options.all(f"{side}-principal")
        for host in (options.all(f"{side}-host") or [WILDCARD])
        for operation in chosen
    )


def _roles(options: Options, named: Sequence[Pattern]) -> Wanted:
    """The entries of producers and consumers."""
    needs: dict[ResourceType, set[Operation]] = {}
    if "producer" in options:
        needs.setdefault(ResourceType.TOPIC, set()).update(
            (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
        )
        needs[ResourceType.TRANSACTIONAL_ID] = {Operation.WRITE, Operation.DESCRIBE}
    if "consumer" in options:
        needs.setdefault(ResourceType.TOPIC, set()).update((Operation.READ, Operation.DESCRIBE))
        needs[ResourceType.GROUP] = {Operation.READ}
    found = {one: _entries(options, needs[one.type]) for one in named if one.type in needs}
    if "idempotent" in options:
        cluster = Pattern(ResourceType.CLUSTER, CLUSTER_NAME)
        found[cluster] = _entries(options, [Operation.IDEMPOTENT_WRITE])
    return found


def _check_operations(options: Options, pattern: Pattern, entries: Iterable[Acl]) -> None:
    supported = SUPPORTED[pattern.type] | {Operation.ALL}
    if any(entry.operation not in supported for entry in entries):
        words = ", ".join(operation.title for operation in sorted(supported))
        options.usage(f"ResourceType {pattern.type.name} only supports operations {words}")


def _principal(text: str) -> str:
    found = parse_principal(text.strip())
    if isinstance(found, Refused):
        raise UsageError(found.why)
    return found.text


def _filters(pattern: Pattern, entries: Iterable[Acl]) -> list[Filter]:
    return [
        Filter(
            type=pattern.type,
            name=pattern.name,
            pattern=pattern.pattern,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission=entry.permission,
        )
        for entry in entries
    ] or [_filter(pattern)]


def _filter(pattern: Pattern) -> Filter:
    return Filter(type=pattern.type, name=pattern.name, pattern=pattern.pattern)


def _agreed(question: str) -> bool:
    say(*question.split("\n"), keep="\t")
    return sys.stdin.readline().strip().lower() == "y"


def _print_all(bindings: Iterable[Binding]) -> None:
    by_pattern: dict[Pattern, list[Acl]] = {}
    for binding in bindings:
        by_pattern.setdefault(binding.pattern, []).append(binding.acl)
    for pattern, entries in by_pattern.items():
        _print(f"Current ACLs for resource `{_text(pattern)}`: ", entries)


def _print(title: str, entries: Iterable[Acl]) -> None:
    first, *rest = (f"\t{_entry(entry)}" for entry in sorted(entries))
    lines = [title, f" {first}", *rest]
    lines[-1] += " "
    say(*lines, "", keep="\t")


def _text(pattern: Pattern) -> str:
    return (
        f"ResourcePattern(resourceType={pattern.type.name}, name={pattern.name}, "
        f"patternType={pattern.pattern.name})"
    )


def _entry(acl: Acl) -> str:
    return (
        f"(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
        f"permissionType={acl.permission.name})"
    )
