"""`klamm kafka-consumer-groups`: the flags, output and exit codes of Kafka's tool of that name.

As in Kafka a failure while doing the work is a line that begins with "Error: " on standard output
and exit code 0; only a command line that makes no sense ends with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from klamm.cli.asking import bare, run
from klamm.cli.groups.views import GroupView
from klamm.cli.kafka.groups import resets as group_resets
from klamm.cli.kafka.groups.reports import (
    Row,
    coordinator_text,
    member_lines,
    offset_lines,
    state_lines,
)
from klamm.cli.kafka.options import HELP, VERSION, Options, ToolOption, begin
from klamm.cli.kafka.plans import exception
from klamm.cli.output import say
from klamm.client import settings as client_settings
from klamm.client.aio.admin import Admin
from klamm.client.aio.groups import Groups
from klamm.client.errors import code_of
from klamm.model.errors import ErrorCode, KlammError, RequestRefused
from klamm.model.names import TopicPartition
from klamm.model.offsets import LATEST
from klamm.protocol.messages.list_groups import ListedGroup

OPTIONS: Final = (
    ToolOption("all-groups", "", "Apply to all consumer groups."),
    ToolOption("all-topics", "", "Reset: all topics in which the group has committed."),
    ToolOption("bootstrap-server", "server to connect to", "REQUIRED: the brokers to connect to."),
    ToolOption("by-duration", "duration", "Reset: to so long ago, as PnDTnHnMnS."),
    ToolOption("command-config", "command config property file", "Properties for the client."),
    ToolOption("delete", "", "Delete groups with their offsets."),
    ToolOption("delete-offsets", "", "Delete the offsets of a group in some topics."),
    ToolOption("describe", "", "Describe groups, and how far behind they are."),
    ToolOption("dry-run", "", "Reset: only show what would be done."),
    ToolOption("execute", "", "Reset: do it."),
    ToolOption("export", "", "Reset: print the result as CSV."),
    ToolOption("from-file", "path to CSV file", "Reset: to the offsets of a CSV file."),
    ToolOption("group", "consumer group", "The group to act on. Repeatable."),
    HELP,
    ToolOption("list", "", "List all consumer groups."),
    ToolOption("members", "", "Describe: the members."),
    ToolOption("offsets", "", "Describe: partitions and offsets; this is the default."),
    ToolOption("reset-offsets", "", "Reset the offsets of groups that are not active."),
    ToolOption("shift-by", "number-of-offsets", "Reset: by so many, which may be negative."),
    ToolOption("state", "String", "Describe: the state. List: with states, or only some.", True),
    ToolOption("timeout", "timeout (ms)", "How long to wait for answers."),
    ToolOption("to-current", "", "Reset: to where the group stands."),
    ToolOption("to-datetime", "datetime", "Reset: to a moment, as YYYY-MM-DDTHH:mm:SS.sss."),
    ToolOption("to-earliest", "", "Reset: to the earliest offset."),
    ToolOption("to-latest", "", "Reset: to the latest offset."),
    ToolOption("to-offset", "offset", "Reset: to this offset."),
    ToolOption("topic", "topic", "A topic, or topic:0,1,2 for some of its partitions. Repeatable."),
    ToolOption("type", "String", "List: with types, or only some.", True),
    ToolOption("verbose", "", "Describe: tell more."),
    VERSION,
)
_ABOUT: Final = (
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer "
    "group info, or reset consumer group offsets."
)
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_STATES: Final = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    *("Assigning", "Reconciling"),
)
_TYPES: Final = ("Consumer", "Classic", "Share")
_NO_EXECUTE: Final = (
    "WARN: No action will be performed as the --execute option is missing. "
    "Add --dry-run to say that this is what you want."
)


def parse(args: Sequence[str]) -> Options:
    """The options of a command line that makes sense."""
    options = begin("kafka-consumer-groups", _ABOUT, OPTIONS, args)
    for name in ("members", "verbose", "offsets"):
        _belongs(options, name, "describe")
    _belongs(options, "state", "describe", "list")
    _belongs(options, "type", "list")
    options.require("bootstrap-server")
    _check_scopes(options)
    _check_reset(options)
    options.exclude("group", ("all-groups", "list"))
    options.exclude("topic", ("list", "describe"))
    if len(options.given(ACTIONS)) != 1:
        named = ", ".join(f"--{action}" for action in ACTIONS)
        options.usage(f"Command must include exactly one action: {named}")
    return options


def _belongs(options: Options, name: str, *owners: str) -> None:
    if name in options and not options.given(owners):
        options.fail(f"Option(s) [{name}] are unavailable given other options on the command line")


def _check_scopes(options: Options) -> None:
    scoped = bool(options.given(("group", "all-groups")))
    if "describe" in options:
        if not scoped:
            named = "[list], [describe], [delete], [reset-offsets]"
            options.usage(f"Option [describe] takes one of these options: {named}")
        if len(options.given(("members", "offsets", "state"))) > 1:
            named = "[members], [offsets], [state]"
            options.usage(f"Option [describe] takes at most one of these options: {named}")
        if options.one("state"):
            options.usage("Option [describe] does not take a value for [state]")
    if "delete" in options:
        if not scoped:
            options.usage("Option [delete] takes one of these options: [group], [all-groups]")
        if "topic" in options:
            options.usage(
                "The consumer does not support topic-specific offset deletion from a consumer "
                "group."
            )
    if "delete-offsets" in options and len(options.given(("group", "topic"))) != 2:
        options.usage("Option [delete-offsets] takes the following options: [group], [topic]")


def _check_reset(options: Options) -> None:
    if "reset-offsets" not in options:
        return
    if "dry-run" in options and "execute" in options:
        options.usage("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.given(("dry-run", "execute")):
        options.warn(_NO_EXECUTE)
    if not options.given(("group", "all-groups")):
        options.usage("Option [reset-offsets] takes one of these options: [group], [all-groups]")
    for name in group_resets.WAYS:
        options.exclude(name, [other for other in group_resets.WAYS if other != name])


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options = parse(args)
    (action,) = options.given(ACTIONS)
    try:
        settings = client_settings.read(options.one("command-config"))
        if (patience_ms := options.number("timeout")) is not None:
            settings = replace(settings, timeout_s=max(1, patience_ms) / 1000)
        where = options.one("bootstrap-server") or ""
        run(where, lambda admin: _DO[action](admin, options), settings)
    except group_resets.Misused as error:
        options.usage(str(error))
    except (KlammError, ValueError, OSError) as error:
        _error(f"Executing consumer group command failed due to {bare(error)}")


def _error(message: str) -> None:
    say("", f"Error: {message}")


async def _names(admin: Admin, options: Options) -> list[str]:
    if "all-groups" in options:
        return [group.group_id for group in await _consumers(admin)]
    return list(dict.fromkeys(options.all("group")))


async def _consumers(
    admin: Admin, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[ListedGroup]:
    found = await Groups(admin.client).all(states, types)
    return [group for group in found if group.protocol_type in ("", "consumer")]


async def _list(admin: Admin, options: Options) -> None:
    states = chosen(options.one("state"), _STATES, "state")
    types = chosen(options.one("type"), _TYPES, "types")
    found = await _consumers(admin, states, types)
    columns = options.given(("type", "state"))
    if not columns:
        say(*[group.group_id for group in found])
        return
    width = max([15, *(len(group.group_id) for group in found)]) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [(g.group_id, g.group_type.capitalize(), g.group_state) for g in found]
    for group, kind, state in rows:
        rest = {"type": kind, "state": state}
        say(" ".join([f"{group:{width}}", *(f"{rest[column]:20}" for column in columns)]))


def chosen(text: str | None, known: Sequence[str], what: str) -> list[str]:
    """The states or types of a list, spelt as they are."""
    names = {name.lower(): name for name in known}
    if not text:
        return []
    parts = [part.strip().lower() for part in text.split(",")]
    if any(part not in names for part in parts):
        valid = ", ".join(known)
        kinds = "states" if what == "state" else what
        raise group_resets.Misused(f"Invalid {what} list '{text}'. Valid {kinds} are: {valid}")
    return [names[part] for part in parts]


async def _describe(admin: Admin, options: Options) -> None:
    for name in sorted(await _names(admin, options)):
        view = await group_resets.view_of(admin, name)
        if "members" in options:
            _is_told(view, len(view.members))  # the titles are printed anyhow
            say(*member_lines(view, verbose="verbose" in options))
        elif "state" in options:
            if _is_told(view, 1):
                node = await admin.client.coordinator(name)
                say(*state_lines(view, coordinator_text(node)))
        else:
            rows = await _rows(admin, view)
            if _is_told(view, len(rows)):
                say(*offset_lines(rows))


def _is_told(view: GroupView, rows: int) -> bool:
    """Whether there is anything to print of a group; what is odd about it is said."""
    if view.state == "Dead":
        _error(f"Consumer group '{view.group}' does not exist.")
        return False
    if view.state == "Empty":
        say("", f"Consumer group '{view.group}' has no active members.", to=sys.stderr)
    elif view.state != "Stable":
        say("", f"Warning: Consumer group '{view.group}' is rebalancing.", to=sys.stderr)
    return rows > 0


async def _rows(admin: Admin, view: GroupView) -> list[Row]:
    """Partitions of members, those with most first, then those that nobody has now."""
    committed = await group_resets.committed(admin, view.group)
    assigned = [
        (member, TopicPartition(topic, number))
        for member in sorted(
            view.members, key=lambda member: -sum(map(len, member.partitions.values()))
        )
        for topic, numbers in sorted(member.partitions.items())
        for number in sorted(numbers)
    ]
    owned = {tp for _, tp in assigned}
    free = sorted(tp for tp in committed if tp not in owned)
    ends = await group_resets.ends(admin, [*owned, *free], LATEST)
    rows = [
        Row(view.group, tp, committed.get(tp), ends.get(tp), member.id, member.host, member.client)
        for member, tp in assigned
    ]
    return rows + [Row(view.group, tp, committed[tp], ends.get(tp)) for tp in free]


async def _delete(admin: Admin, options: Options) -> None:
    names = await _names(admin, options)
    codes = {name: await Groups(admin.client).delete(name) for name in names}
    done = [name for name, code in codes.items() if not code]
    if len(done) == len(codes):
        say(f"Deletion of requested consumer groups ('{', '.join(done)}') was successful.")
        return
    _error("Deletion of some consumer groups failed:")
    for name, code in codes.items():
        if code:
            why = f"java.util.concurrent.ExecutionException: {exception(code)}: {code.name}"
            say(f"* Group '{name}' could not be deleted due to: {why}")
    if done:
        named = "'".join(done)
        say("", f"These consumer groups were deleted successfully: '{named}', '")


async def _reset(admin: Admin, options: Options) -> None:
    plan: dict[str, dict[TopicPartition, int]] = {}
    for name in await _names(admin, options):
        view = await group_resets.view_of(admin, name)
        if view.state not in ("Empty", "Dead"):
            _error(
                f"Assignments can only be reset if the group '{name}' is inactive, but the "
                f"current state is {view.state}."
            )
            plan[name] = {}
            continue
        plan[name] = await group_resets.targets(admin, options, name)
        if "execute" in options:
            await group_resets.commit(admin, name, plan[name])
    if "export" in options:
        say(*group_resets.csv_lines(plan, alone=len(options.all("group")) == 1), "")
    elif plan:
        say("", *group_resets.lines(plan))


async def _delete_offsets(admin: Admin, options: Options) -> None:
    name, topics = options.one("group") or "", options.all("topic")
    wanted, missing = await group_resets.partitions(admin, topics)
    overall = ErrorCode.NONE
    codes: dict[TopicPartition, ErrorCode] = {}
    try:
        codes = await Groups(admin.client).delete_offsets(name, wanted) if wanted else {}
    except RequestRefused as refusal:
        overall = refusal.code
        codes = dict.fromkeys(wanted, overall)
    faults = [code for code in codes.values() if code]
    _tell_deletion(name, topics, overall or (faults[0] if faults else ErrorCode.NONE))
    absent = {TopicPartition(topic, -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in missing}
    say("", *_statuses((codes | absent).items()))


def _tell_deletion(group: str, topics: Iterable[str], code: ErrorCode) -> None:
    match code:
        case ErrorCode.NONE:
            named = ", ".join(topics)
            say(f"Request succeed for deleting offsets with topic {named} group {group}")
        case ErrorCode.INVALID_GROUP_ID:
            _error(f"'{group}' is not valid.")
        case ErrorCode.GROUP_ID_NOT_FOUND:
            _error(f"'{group}' does not exist.")
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            _error(f"Access to '{group}' is not authorized.")
        case ErrorCode.NON_EMPTY_GROUP:
            _error(
                f"Deleting offsets of a consumer group '{group}' is forbidden if the group is "
                "not empty."
            )
        case (
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            | ErrorCode.TOPIC_AUTHORIZATION_FAILED
            | ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ):
            _error("Encounter some partition level error, see the follow-up details:")
        case _:
            _error(f"Encounter some unknown error: {code.name}")


def _statuses(codes: Iterable[tuple[TopicPartition, ErrorCode]]) -> list[str]:
    rows = [f"{'TOPIC':30} {'PARTITION':15} {'STATUS':15}"]
    for tp, code in sorted(codes, key=lambda item: f"{item[0].topic}{item[0].partition}"):
        number = str(tp.partition) if tp.partition >= 0 else "Not Provided"
        status = f"Error: :{exception(code)}: {code_of(code).name}" if code else "Successful"
        rows.append(f"{tp.topic:30} {number:15} {status:15}")
    return rows


_DO: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
