"""`klamm reassign`: plan, apply, watch and cancel moves of replicas."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from klamm.cli.asking import run
from klamm.cli.cluster import placement as moves
from klamm.cli.facts import TopicFacts, list_topics, live_brokers
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    DryRunOption,
    Output,
    OutputOption,
    new_app,
    parse_ids,
    parse_partition,
)
from klamm.cli.output import (
    counted,
    print_json,
    say,
    say_text,
    table,
    tell,
)
from klamm.cli.parsing.declared import Argument, Option
from klamm.cli.reach import Reach
from klamm.cli.topics import plans
from klamm.client.aio import throttling
from klamm.client.aio.admin import Admin
from klamm.client.errors import about_it, code_of
from klamm.model.errors import ErrorCode, KlammError, NotThere, UsageError
from klamm.model.names import TopicPartition

ThrottleOption = Annotated[
    int | None,
    Option(metavar="BYTES", min=1, help="copy at most so many bytes a second from and to a broker"),
]
app = new_app("Move replicas: plan, apply, watch, cancel.")

Targets = Mapping[TopicPartition, Sequence[int] | None]


@app.command()
def plan(
    brokers: Annotated[
        str, Option(metavar="ID,ID,...", help="the brokers that shall hold the replicas")
    ],
    topics: Annotated[list[str] | None, Argument(metavar="[TOPIC]...")] = None,
    copies: Annotated[
        int | None, Option("--replication-factor", "-r", help="a new replication factor")
    ] = None,
    output: OutputOption = Output.JSON,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Print a plan, as JSON for `apply`: as few moves as bring the topics onto these brokers.

    Example: klamm reassign plan orders --brokers 0,1 > plan.json
    """
    wanted = parse_ids(brokers)
    known, live = run(bootstrap_server, _known)
    if strange := sorted(set(wanted) - live):
        raise NotThere(
            f"there is no broker {strange[0]}, or it is down; "
            f"live brokers: {', '.join(map(str, sorted(live)))}"
        )
    missing = set(topics or ()) - {topic.name for topic in known}
    if missing:
        raise NotThere(f"there is no topic {min(missing)!r}")
    chosen = [t for t in known if (t.name in topics if topics else not t.is_internal)]
    plan = moves.spread(chosen, wanted, copies)
    if output is Output.JSON:
        say_text(moves.to_json(plan))
    else:
        say(counted(len(plan), "move"), *moves.tell(plan))


@app.command()
def apply(
    file: Annotated[
        str, Argument(help="a plan from `klamm reassign plan`; - reads standard input")
    ],
    throttle: ThrottleOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Start the moves of a plan; `status` shows their progress.

    Example: klamm reassign apply plan.json --throttle 10000000
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except OSError as fault:
        raise UsageError(f"cannot read {file}: {fault.strerror}") from fault
    wanted = moves.from_json(text)
    if dry_run:
        _tell_plan(wanted, output, bootstrap_server)
        return
    places = moves.directories(text)

    async def work(admin: Admin) -> None:
        # First, so that a broker which is to get a replica knows where to put it.
        await request_directories(admin, places)
        if throttle is not None:
            await throttling.limit(admin, wanted, throttle)
        await request_moves(admin, wanted)

    run(bootstrap_server, work)
    if output is Output.JSON:
        print_json({"started": len(wanted)})
        return
    say(f"started {counted(len(wanted), 'move')}")
    if throttle is not None:
        say("when they are done, klamm reassign unthrottle lifts the limit")


@app.command()
def status(
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List running moves.

    Example: klamm reassign status
    """
    under_way = run(bootstrap_server, _under_way)
    if output is Output.JSON:
        print_json(under_way)
    elif under_way:
        rows = [(m["topic"], m["partition"], m["adding"], m["removing"]) for m in under_way]
        say_text(table(("topic", "partition", "adding", "removing"), rows))


@app.command()
def unthrottle(
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Lift the limits that `apply --throttle` has set.

    Example: klamm reassign unthrottle
    """
    brokers, topics = run(bootstrap_server, throttling.lift)
    lines = [f"broker {broker} is not throttled any more" for broker in brokers]
    lines += [f"topic {topic} is not throttled any more" for topic in topics]
    tell(output, {"brokers": brokers, "topics": topics}, *(lines or ["nothing was throttled"]))


@app.command()
def cancel(
    partitions: Annotated[
        list[str] | None, Argument(metavar="[TOPIC-PARTITION]...", help="such as orders-0")
    ] = None,
    everything: Annotated[bool, Option("--all", help="every running move")] = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Cancel moves: the partitions return to the replicas they had.

    Example: klamm reassign cancel --all
    """
    if everything == bool(partitions):
        raise UsageError("name partitions such as orders-0, or use --all")

    async def work(admin: Admin) -> int:
        if everything:
            chosen = list(await admin.reassignments())
        else:
            chosen = [TopicPartition(*parse_partition(text)) for text in partitions or ()]
        await request_moves(admin, dict.fromkeys(chosen))
        return len(chosen)

    count = run(bootstrap_server, work)
    tell(output, {"cancelled": count}, f"cancelled {counted(count, 'move')}")


def _tell_plan(wanted: Targets, output: Output, bootstrap: Reach) -> None:
    plan = run(bootstrap, lambda admin: plans.ask(admin, plans.moves(wanted)))
    plans.check(plan)
    if output is Output.JSON:
        print_json(plan)
    else:
        say(*[f"would start {counted(len(wanted), 'move')}", *plans.tell(plan)])


async def request_moves(admin: Admin, targets: Targets) -> None:
    """Start moves, or cancel those whose target is None; raises with all that was refused."""
    if not targets:
        return
    refused = [
        about_it(tp, result.error_message or code_of(result.error_code).name)
        for tp, result in (await admin.reassign(targets)).items()
        if result.error_code
    ]
    if refused:
        raise KlammError("; ".join(refused))


async def request_directories(
    admin: Admin, places: Mapping[int, Mapping[TopicPartition, str]]
) -> None:
    """Let brokers keep logs in these directories, also such that they have not got yet."""
    fine = (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE)
    refused = [
        f"{tp} in {places[broker][tp]} of broker {broker}: {code.name}"
        for broker, wanted in places.items()
        for tp, code in (await admin.alter_log_dirs(broker, wanted)).items()
        if code not in fine
    ]
    if refused:
        raise KlammError("; ".join(refused))


async def _known(admin: Admin) -> tuple[list[TopicFacts], frozenset[int]]:
    return await list_topics(admin), await live_brokers(admin)


async def _under_way(admin: Admin) -> list[dict[str, object]]:
    return [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": move.replicas,
            "adding": move.adding_replicas,
            "removing": move.removing_replicas,
        }
        for tp, move in sorted((await admin.reassignments()).items())
    ]
