"""`klamm topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from klamm.cli.asking import run
from klamm.cli.facts import TopicFacts, list_topics
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_MASTER,
    BootstrapOption,
    Compression,
    DryRunOption,
    MasterOption,
    Output,
    OutputOption,
    new_app,
    parse_assignment,
    parse_pairs,
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
from klamm.cli.topics import changes as topic_changes
from klamm.cli.topics import plans, waiting
from klamm.client.aio import freezing
from klamm.client.aio.admin import Admin
from klamm.model.errors import UsageError
from klamm.model.names import id_from_text, id_text
from klamm.model.text import printable

app = new_app("Create, list, describe, alter and delete topics.")

ConfigOption = Annotated[
    list[str] | None, Option("--config", "-c", metavar="K=V", help="a setting; repeatable")
]
AssignmentOption = Annotated[
    str | None,
    Option(metavar="0:1,1:2", help="the replicas of each partition, preferred leader first"),
]


@app.command()
def create(
    name: str,
    partitions: Annotated[
        int, Option("--partitions", "-p", help="-1: use the cluster's default")
    ] = -1,
    replication_factor: Annotated[
        int, Option("--replication-factor", "-r", help="-1: use the cluster's default")
    ] = -1,
    config: ConfigOption = None,
    assignment: AssignmentOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic.

    Example: klamm topics create orders --partitions 3 --replication-factor 3
    """
    if assignment is not None and (partitions != -1 or replication_factor != -1):
        raise UsageError("--assignment already says how many partitions and replicas there are")
    wanted = topic_changes.TopicWish(
        name,
        partitions,
        replication_factor,
        parse_pairs(config or (), option="--config"),
        parse_assignment(assignment) if assignment is not None else None,
    )
    made = run(bootstrap_server, lambda admin: topic_changes.create(admin, wanted, dry_run))
    planned = _planned(dry_run, plans.creation(wanted), bootstrap_server)
    if output is Output.JSON:
        print_json({**made, **planned})
    else:
        verb = "would create" if dry_run else "created"
        say(
            f"{verb} topic {name}: {counted(made['partitions'], 'partition')}, "
            f"replication factor {made['replication_factor']}"
        )
        _tell(planned)


@app.command("list")
def list_(
    internal: Annotated[bool, Option("--internal", help="list internal topics too")] = False,
    deleting: Annotated[
        bool, Option("--deleting", help="list the topics on their way out instead")
    ] = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List the topics.

    Example: klamm topics list --deleting
    """
    if deleting:
        _list_deletions(output, bootstrap_server)
        return
    found = run(bootstrap_server, list_topics)
    shown = [topic for topic in found if internal or not topic.is_internal]
    if output is Output.JSON:
        print_json([_summary(topic) for topic in shown])
    elif shown:
        rows = [(t.name, len(t.partitions), t.replication_factor) for t in shown]
        say_text(table(("topic", "partitions", "replicas"), rows))


def _list_deletions(output: Output, bootstrap: Reach) -> None:
    found = run(bootstrap, waiting.deleting)
    if output is Output.JSON:
        print_json(found)
    elif found:
        rows = [(d["topic"], d["state"], _brokers(d["waits_for"])) for d in found]
        say_text(table(("topic", "state", "waits for"), rows))


def _brokers(ids: list[int]) -> str:
    return ", ".join(f"broker {id}" for id in ids) or "-"


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        Argument(metavar="[NAME]...", help="default: all topics except internal ones"),
    ] = None,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Describe topics: leaders, replicas, settings, running moves.

    Example: klamm topics describe orders
    """
    found = run(bootstrap_server, lambda admin: topic_changes.describe(admin, names))
    if output is Output.JSON:
        print_json([_details(topic) for topic in found])
    else:
        say_text("\n\n".join(_picture(topic) for topic in found))


@app.command()
def alter(
    name: str,
    partitions: Annotated[int | None, Option("--partitions", "-p", help="the new total")] = None,
    assignment: AssignmentOption = None,
    config: ConfigOption = None,
    unset: Annotated[
        list[str] | None, Option(metavar="K", help="a setting to remove; repeatable")
    ] = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Add partitions, or change settings.

    Example: klamm topics alter orders --partitions 6 --config retention.ms=86400000
    """
    changes = topic_changes.Changes(
        partitions,
        parse_assignment(assignment) if assignment is not None else None,
        parse_pairs(config or (), option="--config"),
        tuple(unset or ()),
    )
    if changes.nothing:
        raise UsageError("nothing to alter: give --partitions, --config or --unset")
    if assignment is not None and partitions is None:
        raise UsageError("--assignment is for new partitions: say with -p how many there will be")
    never = run(bootstrap_server, lambda admin: topic_changes.alter(admin, name, changes, dry_run))
    grows = dry_run and partitions is not None
    planned = _planned(grows, plans.growth(name, changes), bootstrap_server)
    if output is Output.JSON:
        print_json({"name": name, "dry_run": dry_run, "not_set": never, **planned})
    else:
        say(*[f"{each} was not set" for each in never])
        say(f"{'would alter' if dry_run else 'altered'} topic {name}")
        _tell(planned)


@app.command()
def delete(
    names: Annotated[list[str], Argument(metavar="NAME...")],
    if_exists: Annotated[
        bool, Option("--if-exists", help="do not fail if a topic does not exist")
    ] = False,
    archive: Annotated[
        Path | None,
        Option(metavar="DIR", help="archive and verify before deleting; needs Spark"),
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    forget_broker: Annotated[
        list[int] | None,
        Option(metavar="ID", help="do not wait for this broker, which is down; repeatable"),
    ] = None,
    wait: Annotated[bool, Option("--wait", help="wait until every replica has confirmed")] = False,
    timeout: Annotated[float, Option(metavar="SECONDS", help="how long --wait waits")] = 30.0,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete topics and all that is in them.

    A copy on a broker that is given up with --forget-broker is dropped when that broker is back.

    Example: klamm topics delete orders --wait
    """
    if dry_run:
        _plan_deletion(names, if_exists, output, bootstrap_server)
        return
    given_up, patience_s = forget_broker or [], timeout if wait else None

    ids: dict[str, uuid.UUID] = {}  # of what was archived: no other topic may go in its place

    async def work(admin: Admin) -> list[str]:
        if patience_s is None and not given_up:
            return await topic_changes.delete(admin, names, if_exists, False, ids)
        doomed = await waiting.mark(admin, names, if_exists, ids)
        await waiting.forget(admin, doomed, given_up)
        if patience_s is not None:
            await waiting.until_gone(admin, doomed, patience_s)
        return doomed

    if archive is not None:
        from klamm.cli.topics.archiving import archived

        kept: list[dict[str, object]] | None
        with archived(names, archive, output, if_exists, master, bootstrap_server) as kept:
            ids |= {str(a["topic"]): id_from_text(str(a["topic_id"])) for a in kept}
            gone = run(bootstrap_server, work)
    else:
        kept, gone = None, run(bootstrap_server, work)
    held_up = {} if patience_s is not None else _held_up(gone, bootstrap_server)
    if output is Output.JSON:
        told: dict[str, object] = {"topics": gone, "waiting": list(held_up.values())}
        print_json(told if kept is None else told | {"archives": kept})
        return
    state = "deleting" if given_up and patience_s is None else "deleted"
    for name in gone:
        _tell_deletion(name, state, given_up, held_up.get(name))


def _tell_deletion(
    name: str, state: str, given_up: list[int], held_up: waiting.Explanation | None
) -> None:
    for broker in given_up:
        say(f"broker {broker} will drop its copy of {name} when it is back")
    if held_up is None:
        say(f"{state} topic {name}")
    else:
        say(*waiting.tell_halted(held_up))


def _held_up(names: list[str], bootstrap: Reach) -> dict[str, waiting.Explanation]:
    """Those of these topics that are not gone, and why, by their names."""
    found = run(bootstrap, lambda admin: waiting.halted(admin, names))
    return {explanation["topic"]: explanation for explanation in found}


def _plan_deletion(names: list[str], if_exists: bool, output: Output, bootstrap: Reach) -> None:
    doomed = run(bootstrap, lambda admin: topic_changes.delete(admin, names, if_exists, True))
    planned = _planned(True, plans.deletion(doomed), bootstrap)
    if output is Output.JSON:
        print_json({"topics": doomed, **planned})
        return
    for name in doomed:
        say(f"would delete topic {name}")
    _tell(planned)


def _planned(wanted: bool, body: dict[str, object], bootstrap: Reach) -> dict[str, Any]:
    """The controller's plan under its name, where one is wanted."""
    if not wanted:
        return {}
    plan = run(bootstrap, lambda admin: plans.ask(admin, body))
    plans.check(plan)
    return {"plan": plan}


def _tell(planned: dict[str, Any]) -> None:
    if planned:
        say(*plans.tell(planned["plan"]))


@app.command()
def copy(
    source: str,
    target: str,
    partitions: Annotated[
        int, Option("--partitions", "-p", help="-1: the same as the source")
    ] = -1,
    replication_factor: Annotated[
        int, Option("--replication-factor", "-r", help="-1: the same as the source")
    ] = -1,
    compression: Annotated[Compression, Option()] = Compression.NONE,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Copy a topic into a new one, with every record in the partition of its key.

    The way to fewer partitions, and to more without tearing keys apart. Committed records up to the
    moment of the start are copied; freeze the source where it is still written to.

    Example: klamm topics copy orders orders-by-customer --partitions 4
    """
    from klamm.cli.topics import copying as topic_copy

    made = run(
        bootstrap_server,
        lambda admin: topic_copy.copy(
            admin,
            source,
            target,
            partitions=partitions,
            replication_factor=replication_factor,
            codec=compression.codec,
        ),
    )
    if output is Output.JSON:
        print_json({"name": target, **asdict(made)})
    else:
        say(f"copied {made.records} records of {source} to {target}: {made.partitions} partitions")


@app.command("cancel-delete")
def cancel_delete(
    name: str,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Cancel a deletion that has not removed any log (klamm.delete.topic.cancel.enable).

    Example: klamm topics cancel-delete orders
    """
    run(bootstrap_server, lambda admin: waiting.cancel_deletion(admin, name))
    tell(output, {"name": name, "deleting": False}, f"deletion cancelled: topic {name} stays")


@app.command()
def explain(
    name: Annotated[str | None, Argument(metavar="[NAME]")] = None,
    everything: Annotated[
        bool, Option("--all", help="every topic that is waiting for something")
    ] = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Explain what a topic is waiting for: why, since when, until when.

    Example: klamm topics explain --all
    """
    if everything == bool(name):
        raise UsageError("name a topic, or use --all")
    now_ms = time.time_ns() // 1_000_000
    if name is None:
        found = run(bootstrap_server, waiting.explain_all)
        if output is Output.JSON:
            print_json(found)
        elif found:
            say(*[line for explanation in found for line in waiting.tell(explanation, now_ms)])
        else:
            say("no topic is waiting for anything")
        return
    one = run(bootstrap_server, lambda admin: waiting.explain(admin, name))
    if output is Output.JSON:
        print_json(one)
    else:
        say(*waiting.tell(one, now_ms))


@app.command()
def freeze(
    names: Annotated[list[str], Argument(metavar="NAME...")],
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Refuse all writes to topics until they are unfrozen. Reading goes on.

    Example: klamm topics freeze orders
    """
    run(bootstrap_server, lambda admin: freezing.freeze(admin, names))
    _tell_frozen(names, True, output)


@app.command()
def unfreeze(
    names: Annotated[list[str], Argument(metavar="NAME...")],
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Let clients write to topics again.

    Example: klamm topics unfreeze orders
    """
    run(bootstrap_server, lambda admin: freezing.unfreeze(admin, names))
    _tell_frozen(names, False, output)


def _tell_frozen(names: list[str], frozen: bool, output: Output) -> None:
    if output is Output.JSON:
        print_json([{"name": name, "frozen": frozen} for name in names])
    else:
        say(f"{'froze' if frozen else 'unfroze'} {', '.join(names)}")


def _summary(topic: TopicFacts) -> dict[str, object]:
    return {
        "name": topic.name,
        "id": id_text(topic.id),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
    }


def _details(topic: TopicFacts) -> dict[str, object]:
    partitions = [
        {
            "partition": p.index,
            "leader": p.leader,
            "leader_epoch": p.leader_epoch,
            "replicas": p.replicas,
            "isr": p.isr,
            "adding": p.adding,
            "removing": p.removing,
        }
        for p in topic.partitions
    ]
    return {**_summary(topic), "configs": topic.overrides, "partitions": partitions}


def _picture(topic: TopicFacts) -> str:
    lines = [
        f"{printable(topic.name)}  (id {id_text(topic.id)})",
        f"{counted(len(topic.partitions), 'partition')}, "
        f"replication factor {topic.replication_factor}",
    ]
    lines += [printable(f"{name} = {value}") for name, value in topic.overrides.items()]
    rows = [
        (
            p.index,
            p.leader if p.leader >= 0 else "none",
            p.leader_epoch,
            _ids(p.replicas),
            _ids(p.isr),
            _state(p.replicas, p.isr, p.leader, moving=bool(p.adding or p.removing)),
        )
        for p in topic.partitions
    ]
    headers = ("partition", "leader", "epoch", "replicas", "in sync", "state")
    return "\n".join([*lines, table(headers, rows)])


def _state(replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, *, moving: bool) -> str:
    if leader < 0:
        return "offline"
    if moving:
        return "moving"
    return "ok" if len(isr) == len(replicas) else "under-replicated"


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"
