"""`klamm kafka-reassign-partitions`: flags, output and exit codes of Kafka's tool of that name.

A failure is told on standard output, as Kafka's tool does it. `--generate` proposes what `klamm
reassign plan` does, which moves as little as it can, where Kafka's tool deals all replicas anew.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from klamm.cli.asking import bare, run
from klamm.cli.cluster import placement
from klamm.cli.cluster.reassign import request_directories
from klamm.cli.facts import (
    BROKER_OVERRIDE,
    TopicFacts,
    describe_settings,
    list_topics,
    live_brokers,
)
from klamm.cli.kafka import directory_moves, plans
from klamm.cli.kafka.options import HELP, VERSION, Options, ToolOption, begin
from klamm.cli.output import say
from klamm.cli.topics.changes import alter_settings
from klamm.client import settings as client_settings
from klamm.client.aio import throttling
from klamm.client.aio.admin import Admin, ConfigResource
from klamm.client.errors import code_of
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment

OPTIONS: Final = (
    ToolOption("additional", "", "Execute: beside moves that are under way, or change their rate."),
    ToolOption("bootstrap-server", "Server(s) to use for bootstrapping", "REQUIRED: whom to."),
    ToolOption("broker-list", "brokerlist", "Generate: the brokers to move to, by commas."),
    ToolOption("cancel", "", "Cancel moves that are under way."),
    ToolOption("command-config", "Admin client property file", "Properties for the client."),
    ToolOption("disable-rack-aware", "", "Generate: do not look at racks."),
    ToolOption("execute", "", "Begin the moves of --reassignment-json-file."),
    ToolOption("generate", "", "Propose moves; nothing is changed."),
    HELP,
    ToolOption("list", "", "List the moves that are under way."),
    ToolOption("preserve-throttles", "", "Leave the limits of rates as they are."),
    ToolOption("reassignment-json-file", "manual assignment json file path", "The moves."),
    ToolOption("replica-alter-log-dirs-throttle", "bytes", "Execute: a rate between directories."),
    ToolOption("throttle", "throttle", "Execute: a rate between brokers, in bytes a second."),
    ToolOption("timeout", "timeout", "Milliseconds to wait for moves between directories: 10000."),
    ToolOption("topics-to-move-json-file", "topics to reassign json file path", "Generate: what."),
    ToolOption("verify", "", "Tell whether the moves are done, and lift the limits then."),
    VERSION,
)
_ABOUT: Final = "This tool helps to move topic partitions between replicas."
ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
_FILE: Final = "reassignment-json-file"
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "verify": (_FILE,),
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": (_FILE,),
    "cancel": (_FILE,),
    "list": (),
}
_TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "verify": ("preserve-throttles",),
    "generate": ("disable-rack-aware",),
    "execute": ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}
_DIRECTORY_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_BUSY: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)

Assignment = Mapping[TopicPartition, Sequence[int]]
Moves = Mapping[TopicPartition, OngoingPartitionReassignment]


class Wanted(NamedTuple):
    """The moves of a file: replicas by partition, and directories by broker."""

    replicas: dict[TopicPartition, tuple[int, ...]]
    directories: dict[int, dict[TopicPartition, str]]


def parse(args: Sequence[str]) -> Options:
    """The options of a command line that makes sense."""
    options = begin("kafka-reassign-partitions", _ABOUT, OPTIONS, args)
    if len(options.given(ACTIONS)) != 1:
        named = ", ".join(f"--{action}" for action in ACTIONS)
        options.usage(f"Command must include exactly one action: {named}")
    (action,) = options.given(ACTIONS)
    if "bootstrap-server" not in options:
        options.usage("Please specify --bootstrap-server")
    options.require(*_NEEDS[action])
    fine = {action, "bootstrap-server", "command-config", *_NEEDS[action], *_TAKES[action]}
    for name in options.given([option.name for option in OPTIONS]):
        if name not in fine:
            options.usage(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return options


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options = parse(args)
    (action,) = options.given(ACTIONS)
    try:
        for name in ("throttle", "replica-alter-log-dirs-throttle", "timeout"):
            options.number(name)
        settings = client_settings.read(options.one("command-config"))
        where = options.one("bootstrap-server") or ""
        run(where, lambda admin: _DO[action](admin, options), settings)
    except _Terse as error:
        say(*str(error).split("\n"))
        raise SystemExit(1) from None
    except (KlammError, ValueError, OSError) as error:
        say(f"Error: {bare(error)}")
        raise SystemExit(1) from None


class _Terse(ValueError):
    """A failure whose words stand alone."""


def wanted_of(text: str) -> Wanted:
    """The moves of a file, checked."""
    entries = list(plans.entries(plans.document(text), "partitions"))
    partitions = [plans.partition(entry) for entry in entries]
    if twice := plans.repeated(partitions):
        named = ",".join(map(str, twice))
        raise ValueError(f"Partition reassignment contains duplicate topic partitions: {named}")
    wanted = Wanted({}, {})
    for tp, entry in zip(partitions, entries, strict=True):
        replicas = plans.field(entry, "replicas", list)
        if not all(type(broker) is int for broker in replicas):
            raise ValueError(f'"replicas" of {tp} must be a list of numbers')
        if not replicas:
            raise ValueError("Partition replica list cannot be empty")
        if again := plans.repeated(replicas):
            raise ValueError(
                "Partition replica lists may not contain duplicate entries: "
                f"{tp} contains multiple entries for {_list(again)}"
            )
        wanted.replicas[tp] = tuple(replicas)
        for broker, path in zip(replicas, _paths(tp, entry, replicas), strict=True):
            if path != "any":
                wanted.directories.setdefault(broker, {})[tp] = path
    return wanted


def _paths(
    tp: TopicPartition, entry: Mapping[str, object], replicas: Sequence[int]
) -> Sequence[str]:
    if "log_dirs" not in entry:
        return ["any"] * len(replicas)
    paths = plans.field(entry, "log_dirs", list)
    if len(paths) != len(replicas):
        raise ValueError(
            f"Size of replicas list {list(replicas)} is different from size of log dirs list "
            f"[{', '.join(map(str, paths))}] for partition {tp}"
        )
    return [str(path) for path in paths]


def _list(numbers: Iterable[object]) -> str:
    return ",".join(map(str, numbers))


def as_json(assignment: Assignment) -> str:
    """An assignment in one line, as `--reassignment-json-file` takes it."""
    partitions = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": list(replicas),
            "log_dirs": ["any"] * len(replicas),
        }
        for tp, replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def move_lines(moves: Moves) -> list[str]:
    """The moves that are under way."""
    lines = []
    for tp, move in sorted(moves.items()):
        line = f"{tp}: replicas: {_list(move.replicas)}."
        if move.adding_replicas:
            line += f" adding: {_list(move.adding_replicas)}."
        if move.removing_replicas:
            line += f" removing: {_list(move.removing_replicas)}."
        lines.append(line)
    return ["Current partition reassignments:", *lines] if lines else [_NONE]


_NONE: Final = "No partition reassignments found."


def verdict_lines(
    wanted: Assignment, now: Assignment, moving: Collection[TopicPartition]
) -> list[str]:
    """The progress of the moves of a file."""
    lines = ["Status of partition reassignment:"]
    for tp, target in sorted(wanted.items()):
        if tp in moving:
            lines.append(f"Reassignment of partition {tp} is still in progress.")
        elif tuple(now.get(tp, ())) == tuple(target):
            lines.append(f"Reassignment of partition {tp} is completed.")
        else:
            lines.append(
                f"There is no active reassignment of partition {tp}, but replica set is "
                f"{_list(now.get(tp, ()))} rather than {_list(target)}."
            )
    return lines


async def _now(admin: Admin) -> dict[TopicPartition, tuple[int, ...]]:
    return _assignment(await list_topics(admin))


def _assignment(topics: Iterable[TopicFacts]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition(t.name, p.index): p.replicas for t in topics for p in t.partitions}


async def _show(admin: Admin, options: Options) -> None:
    say(*move_lines(await admin.reassignments()))


async def _generate(admin: Admin, options: Options) -> None:
    text = options.one("broker-list") or ""
    try:
        brokers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f'For input string: "{text}"') from None
    if twice := plans.repeated(brokers):
        raise ValueError(f"Broker list contains duplicate entries: [{_list(twice)}]")
    document = plans.document(plans.read(options.one("topics-to-move-json-file")))
    names = [plans.field(entry, "topic", str) for entry in plans.entries(document, "topics")]
    if again := plans.repeated(names):
        raise ValueError(f"List of topics to reassign contains duplicate entries: [{_list(again)}]")
    known = {topic.name: topic for topic in await list_topics(admin)}
    for name in names:
        if name not in known:
            raise ValueError(f"Topic {name} not found.")
    chosen = [known[name] for name in sorted(names)]
    live = sorted(set(brokers) & await live_brokers(admin))
    now = _assignment(chosen)
    proposed = now | placement.spread(chosen, live, None)
    say("Current partition replica assignment", as_json(now), "")
    say("Proposed partition reassignment configuration", as_json(proposed))


async def _execute(admin: Admin, options: Options) -> None:
    wanted = wanted_of(plans.read(options.one(_FILE)))
    if not wanted.replicas:
        raise ValueError("Partition reassignment list cannot be empty")
    if "additional" not in options and await admin.reassignments():
        raise _Terse(_BUSY)
    named = {broker for replicas in wanted.replicas.values() for broker in replicas}
    if strange := sorted(named - await live_brokers(admin)):
        raise ValueError(f"Unknown broker id {strange[0]}")
    everything = await _now(admin)
    if missing := sorted(tp for tp in wanted.replicas if tp not in everything):
        raise ValueError(f"Unable to find partition: {', '.join(map(str, missing))}")
    say("Current partition replica assignment", "")
    say(as_json({tp: everything[tp] for tp in wanted.replicas}), "")
    say("Save this to use as the --reassignment-json-file option during rollback")
    await _throttle(admin, options, wanted)
    # First, so that a broker which is to get a replica knows where to put it.
    await request_directories(admin, wanted.directories)
    _raise_refused("Error reassigning partition(s):", await _ask(admin, wanted.replicas))
    plural = "" if len(wanted.replicas) == 1 else "s"
    moved = _list(sorted(wanted.replicas))
    say(f"Successfully started partition reassignment{plural} for {moved}")
    await _start_moves(admin, options, directory_moves.targets_of(wanted.directories))


async def _start_moves(
    admin: Admin, options: Options, targets: Mapping[directory_moves.MovedReplica, str]
) -> None:
    if targets:
        timeout_ms = options.long("timeout")
        given = directory_moves.TIMEOUT_MS if timeout_ms is None else max(timeout_ms, 0)
        try:
            say(*await directory_moves.start(admin, targets, given))
        except directory_moves.TooLate as late:
            raise _Terse(str(late)) from None


async def _throttle(admin: Admin, options: Options, wanted: Wanted) -> None:
    between = _rate(options, "throttle")
    inside = _rate(options, "replica-alter-log-dirs-throttle")
    if between is None and inside is None:
        return
    say(_VERIFY)
    if between is not None:
        await throttling.limit(admin, wanted.replicas, between)
        say(f"The inter-broker throttle limit was set to {between} B/s")
    if inside is not None:
        for broker in sorted(wanted.directories):
            resource = ConfigResource(ConfigResourceType.BROKER, str(broker))
            await alter_settings(admin, resource, {_DIRECTORY_RATE: str(inside)}, ())
        say(f"The replica-alter-dir throttle limit was set to {inside} B/s")


def _rate(options: Options, name: str) -> int | None:
    rate = options.long(name)
    return None if rate is None or rate < 0 else rate


async def _ask(
    admin: Admin, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, str]:
    """The refusals, by partition."""
    return {
        tp: result.error_message or code_of(result.error_code).name
        for tp, result in (await admin.reassign(targets)).items()
        if result.error_code
    }


def _raise_refused(title: str, refused: Mapping[TopicPartition, str]) -> None:
    if refused:
        lines = [f"{tp}: {why}" for tp, why in sorted(refused.items())]
        raise _Terse("\n".join([title, *lines]))


async def _verify(admin: Admin, options: Options) -> None:
    wanted = wanted_of(plans.read(options.one(_FILE)))
    moving = await admin.reassignments()
    say(*verdict_lines(wanted.replicas, await _now(admin), moving.keys()))
    targets = directory_moves.targets_of(wanted.directories)
    places = await directory_moves.look(admin, targets)
    say(
        *[
            directory_moves.verdict(replica, targets[replica], places[replica])
            for replica in sorted(targets)
        ]
    )
    is_over = all(map(directory_moves.is_over, places.values()))
    is_over = is_over and not wanted.replicas.keys() & moving.keys()
    if "preserve-throttles" not in options and is_over:
        await _clear(admin, wanted)


async def _clear(admin: Admin, wanted: Wanted) -> None:
    """Lifts limits, of all brokers, for who sent is not known any more."""
    live = await live_brokers(admin)
    topics = sorted({tp.topic for tp in wanted.replicas})
    brokers = sorted(live)
    say(f"Clearing broker-level throttles on broker{_s(brokers)} {_list(brokers)}")
    say(f"Clearing topic-level throttles on topic{_s(topics)} {_list(topics)}")
    await throttling.lift(admin)
    names = [str(broker) for broker in brokers]
    for name, found in (await describe_settings(admin, ConfigResourceType.BROKER, names)).items():
        if (_DIRECTORY_RATE, BROKER_OVERRIDE) in [(s.name, s.config_source) for s in found]:
            broker = ConfigResource(ConfigResourceType.BROKER, name)
            await alter_settings(admin, broker, {}, (_DIRECTORY_RATE,))


def _s(items: Collection[object]) -> str:
    return "" if len(items) == 1 else "s"


async def _cancel(admin: Admin, options: Options) -> None:
    wanted = wanted_of(plans.read(options.one(_FILE)))
    moving = sorted(wanted.replicas.keys() & (await admin.reassignments()).keys())
    if moving:
        title = f"Error cancelling partition reassignment{_s(moving)} for:"
        _raise_refused(title, await _ask(admin, dict.fromkeys(moving)))
        say(f"Successfully cancelled partition reassignment{_s(moving)} for: {_list(moving)}")
    else:
        say("None of the specified partition reassignments are active.")
    places = await directory_moves.look(admin, directory_moves.targets_of(wanted.directories))
    # A log that is told to be where it is gives its copy in the other directory up.
    back = {r: place.current for r, place in places.items() if place.current and place.future}
    if back:
        await _start_moves(admin, options, back)
    else:
        say("None of the specified partition moves are active.")
    if "preserve-throttles" not in options:
        await _clear(admin, wanted)


_DO: Final = {
    "generate": _generate,
    "execute": _execute,
    "verify": _verify,
    "cancel": _cancel,
    "list": _show,
}
