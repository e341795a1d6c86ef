"""`klamm acls`: who may do what.

`check` asks the same decision that brokers make, with their lists and their `super.users`; its exit
code is 0 where the answer is yes and 1 where it is no.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from klamm.cli.asking import run
from klamm.cli.facts import describe_settings
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    DryRunOption,
    Output,
    OutputOption,
    new_app,
)
from klamm.cli.output import print_json, say, say_text, table
from klamm.cli.parsing.declared import Argument, Option
from klamm.client.aio import acls
from klamm.client.aio.admin import Admin
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import NotThere, Refused, UsageError
from klamm.secured import words
from klamm.security.authorization.acls import (
    Binding,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.security.authorization.authorizer import Authorizer, Verdict
from klamm.security.authorization.hosts import host_text
from klamm.security.authorization.rights import Right
from klamm.security.authorization.snapshot import snapshot_of
from klamm.security.principals import Principal, parse_principal, parse_super_users

app = new_app("List, add, remove and check access control lists.")

PrincipalArgument = Annotated[
    str, Argument(metavar="PRINCIPAL", help="alice, User:alice, or '*' for everybody")
]
OperationsArgument = Annotated[
    str,
    Argument(metavar="OPERATION,...", help="read, write, ...; all; or produce, consume"),
]
ResourcesArgument = Annotated[
    list[str],
    Argument(metavar="RESOURCE...", help="topic:orders, group:billing, cluster, ..."),
]
HostOption = Annotated[str, Option(help="only from this address [all]")]
DenyOption = Annotated[bool, Option("--deny", help="forbid; it beats what is allowed")]
PrefixedOption = Annotated[
    bool, Option("--prefixed", help="all resources whose names begin like this")
]


@app.command()
def add(
    principal: PrincipalArgument,
    operations: OperationsArgument,
    resources: ResourcesArgument,
    deny: DenyOption = False,
    prefixed: PrefixedOption = False,
    host: HostOption = "*",
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Allow a principal to do something, or with --deny forbid it.

    Example: klamm acls add alice read,write topic:orders
    """
    wanted = words.bindings_of(
        principal, operations, resources, deny=deny, prefixed=prefixed, host=host
    )
    run(bootstrap_server, lambda admin: acls.create(admin.client, wanted))
    _show(wanted, output)


@app.command("list")
def list_(
    resource: Annotated[
        str | None, Argument(metavar="RESOURCE", help="only what holds for this one")
    ] = None,
    principal: Annotated[str | None, Option(help="only those of this principal")] = None,
    orphaned: Annotated[
        bool, Option("--orphaned", help="only those for topics that are not there")
    ] = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List entries; those of a resource with the wildcards and prefixes that cover it.

    Example: klamm acls list topic:orders
    """
    wanted = Filter(principal=None if principal is None else words.principal_of(principal))
    if resource is not None:
        named = words.resource_of(resource)
        wanted = Filter(
            type=named.type,
            name=named.name,
            pattern=PatternType.MATCH,
            principal=wanted.principal,
        )

    async def work(admin: Admin) -> list[Binding]:
        found = await acls.describe(admin.client, wanted)
        if not orphaned:
            return found
        topics = await admin.topics()
        return [binding for binding in found if _is_orphan(binding.pattern, topics)]

    _show(run(bootstrap_server, work), output)


def _is_orphan(pattern: Pattern, topics: Collection[str]) -> bool:
    """Whether a pattern is for topics, and none of these. The next of such a name would have it."""
    if pattern.type is not ResourceType.TOPIC or pattern.name == "*":
        return False
    if pattern.pattern is PatternType.PREFIXED:
        return not any(map(pattern.covers, topics))
    return pattern.name not in topics


@app.command()
def remove(
    principal: PrincipalArgument,
    operations: Annotated[
        str, Argument(metavar="OPERATION,...", help="as in add; any for all of them")
    ],
    resources: ResourcesArgument,
    deny: DenyOption = False,
    prefixed: PrefixedOption = False,
    host: HostOption = "*",
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove the entries that `add` with the same words makes; any: whatever the operation.

    Example: klamm acls remove alice write topic:orders
    """
    if operations == "any":
        patterns = [words.resource_of(text, prefixed=prefixed) for text in resources]
        filters = [
            Filter(
                type=one.type,
                name=one.name,
                pattern=one.pattern,
                principal=words.principal_of(principal),
            )
            for one in patterns
        ]
    else:
        made = words.bindings_of(
            principal, operations, resources, deny=deny, prefixed=prefixed, host=host
        )
        filters = [_filter_of(binding) for binding in made]

    async def work(admin: Admin) -> list[Binding]:
        if not dry_run:
            return await acls.delete(admin.client, filters)
        found = [await acls.describe(admin.client, one) for one in filters]
        return sorted({binding for some in found for binding in some})

    gone = run(bootstrap_server, work)
    if not gone:
        raise NotThere("there is no such entry: klamm acls list shows those that there are")
    _show(gone, output)


@app.command()
def check(
    principal: PrincipalArgument,
    operation: Annotated[str, Argument(metavar="OPERATION,...", help="as in add")],
    resource: Annotated[str, Argument(metavar="RESOURCE", help="topic:orders, ...")],
    host: Annotated[str, Option(help="the address that it comes from")] = "127.0.0.1",
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Check whether a principal may do something, and by which entry; exit code 1: it may not.

    Example: klamm acls check alice read topic:orders
    """
    pattern = words.resource_of(resource)
    asked = parse_principal(words.principal_of(principal))
    assert isinstance(asked, Principal), principal
    wanted = list(words.operations_of(operation, pattern.type))
    if Operation.ALL in wanted:
        raise UsageError("check one operation after the other: all is a word for entries")

    async def work(admin: Admin) -> list[Verdict]:
        authorizer = await _authorizer(admin)
        return [
            authorizer.verdict(asked, host_text(host), Right(one, pattern.type), pattern.name)
            for one in wanted
        ]

    verdicts = dict(zip(wanted, run(bootstrap_server, work), strict=True))
    if output is Output.JSON:
        print_json([_verdict_json(one, verdict) for one, verdict in verdicts.items()])
    else:
        for one, verdict in verdicts.items():
            say(_verdict_line(asked, one, pattern, verdict))
    if not all(verdict.allowed for verdict in verdicts.values()):
        raise SystemExit(1)


def _filter_of(binding: Binding) -> Filter:
    pattern, acl = binding.pattern, binding.acl
    return Filter(
        type=pattern.type,
        name=pattern.name,
        pattern=pattern.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission=acl.permission,
    )


async def _authorizer(admin: Admin) -> Authorizer:
    """The brokers' decision, with their lists and settings."""
    found = snapshot_of(await acls.describe(admin.client))
    picture = await admin.client.refresh([])
    broker = str(min(picture.nodes))
    entries = (await describe_settings(admin, ConfigResourceType.BROKER, [broker]))[broker]
    settings = {entry.name: entry.value or "" for entry in entries}
    super_users = parse_super_users(settings.get("super.users", ""))
    if isinstance(super_users, Refused):
        raise UsageError(f"the brokers' {super_users.why}")
    return Authorizer(
        super_users=super_users,
        allow_everyone=settings.get("allow.everyone.if.no.acl.found", "") == "true",
        snapshot=found,
    )


def _show(bindings: list[Binding], output: Output) -> None:
    if output is Output.JSON:
        print_json([words.json_of(binding) for binding in bindings])
    elif bindings:
        headers = ("resource", "pattern", "principal", "permission", "operation", "host")
        say_text(table(headers, map(words.line_of, bindings)))
        for doubt in words.doubts(bindings):
            say(doubt)


def _verdict_line(who: Principal, operation: Operation, pattern: Pattern, verdict: Verdict) -> str:
    may = "may" if verdict.allowed else "may not"
    why = verdict.why
    if verdict.binding is not None:
        acl = verdict.binding.acl
        word = "allows" if acl.permission is Permission.ALLOW else "forbids"
        kind = verdict.binding.pattern.pattern.name.lower()
        why = (
            f"an entry on {words.resource_text(verdict.binding.pattern)} ({kind}) {word} "
            f"{acl.principal} {words.operation_text(acl.operation)} from {acl.host}"
        )
    what = f"{words.operation_text(operation)} {words.resource_text(pattern)}"
    return f"{who} {may} {what}: {why}"


def _verdict_json(operation: Operation, verdict: Verdict) -> dict[str, object]:
    entry = None if verdict.binding is None else words.json_of(verdict.binding)
    return {
        "operation": words.operation_text(operation),
        "allowed": verdict.allowed,
        "why": verdict.why,
        "entry": entry,
    }
