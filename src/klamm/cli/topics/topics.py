"""`klamm topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

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
from klamm.cli.output import print_json, say, say_text, table
from klamm.cli.reach import Reach
from klamm.cli.topics import changes as topic_changes
from klamm.cli.topics import freezing, plans, waiting
from klamm.client.admin import Admin
from klamm.model.errors import UsageError
from klamm.model.names import id_from_text, id_text
from klamm.model.text import printable

app = new_app("Create, list, describe, alter and delete topics.")

ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", "-c", metavar="K=V", help="a setting; repeatable")
]
AssignmentOption = Annotated[
    str | None,
    typer.Option(metavar="0:1,1:2", help="the replicas of each partition, preferred leader first"),
]


@app.command()
def create(
    name: str,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="-1: use the cluster's default")
    ] = -1,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", help="-1: use the cluster's default")
    ] = -1,
    config: ConfigOption = None,
    assignment: AssignmentOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic."""
    if assignment is not None and (partitions != -1 or replication_factor != -1):
        raise UsageError("--assignment already says how many partitions and replicas there are")
    wanted = topic_changes.NewTopic(
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
            f"{verb} topic {name}: {made['partitions']} partitions, "
            f"replication factor {made['replication_factor']}"
        )
        _tell(planned)


@app.command("list")
def list_(
    internal: Annotated[bool, typer.Option("--internal", help="list internal topics too")] = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List the topics."""
    found = run(bootstrap_server, list_topics)
    shown = [topic for topic in found if internal or not topic.is_internal]
    if output is Output.JSON:
        print_json([_summary(topic) for topic in shown])
    elif shown:
        rows = [(t.name, len(t.partitions), t.replication_factor) for t in shown]
        say_text(table(("topic", "partitions", "replicas"), rows))


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="default: all topics except internal ones"),
    ] = None,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Describe topics: leaders, replicas, settings, running moves."""
    found = run(bootstrap_server, lambda admin: topic_changes.describe(admin, names))
    if output is Output.JSON:
        print_json([_details(topic) for topic in found])
    else:
        say_text("\n\n".join(_picture(topic) for topic in found))


@app.command()
def alter(
    name: str,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="the new total")
    ] = None,
    assignment: AssignmentOption = None,
    config: ConfigOption = None,
    unset: Annotated[
        list[str] | None, typer.Option(metavar="K", help="a setting to remove; repeatable")
    ] = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Add partitions, or change settings."""
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
    run(bootstrap_server, lambda admin: topic_changes.alter(admin, name, changes, dry_run))
    grows = dry_run and partitions is not None
    planned = _planned(grows, plans.growth(name, changes), bootstrap_server)
    if output is Output.JSON:
        print_json({"name": name, "dry_run": dry_run, **planned})
    else:
        say(f"{'would alter' if dry_run else 'altered'} topic {name}")
        _tell(planned)


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="do not fail if a topic does not exist")
    ] = False,
    archive: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="archive and verify before deleting; needs Spark"),
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    forget_broker: Annotated[
        list[int] | None,
        typer.Option(metavar="ID", help="do not wait for this broker, which is down; repeatable"),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="wait until every replica has confirmed")
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="how long --wait waits")] = 30.0,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete topics and all that is in them.

    A copy on a broker that is given up with --forget-broker is dropped when that broker is back.
    """
    if dry_run:
        _plan_deletion(names, if_exists, output, bootstrap_server)
        return
    forgotten, patience_s = forget_broker or [], timeout if wait else None

    ids: dict[str, uuid.UUID] = {}  # of what was archived: no other topic may go in its place

    async def work(admin: Admin) -> list[str]:
        if patience_s is None and not forgotten:
            return await topic_changes.delete(admin, names, if_exists, False, ids)
        doomed = await waiting.mark(admin, names, if_exists, ids)
        await waiting.forget(admin, doomed, forgotten)
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
    if output is Output.JSON:
        print_json(gone if kept is None else {"topics": gone, "archives": kept})
        return
    for name in gone:
        for broker in forgotten:
            say(f"broker {broker} will drop its copy of {name} when it is back")
        say(f"{'deleting' if forgotten and patience_s is None else 'deleted'} topic {name}")


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
        int, typer.Option("--partitions", "-p", help="-1: the same as the source")
    ] = -1,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", help="-1: the same as the source")
    ] = -1,
    compression: Annotated[Compression, typer.Option()] = Compression.NONE,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Copy a topic into a new one, with every record in the partition of its key.

    The way to fewer partitions, and to more without tearing keys apart. Committed records up to the
    moment of the start are copied; freeze the source where it is still written to.
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
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Cancel a deletion that has not removed any log (klamm.delete.topic.cancel.enable)."""
    run(bootstrap_server, lambda admin: waiting.cancel_deletion(admin, name))
    say(f"deletion cancelled: topic {name} stays")


@app.command()
def explain(
    name: str,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Explain what a topic is waiting for: why, since when, until when."""
    found = run(bootstrap_server, lambda admin: waiting.explain(admin, name))
    if output is Output.JSON:
        print_json(found)
    else:
        say(*waiting.tell(found, time.time_ns() // 1_000_000))


@app.command()
def freeze(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Refuse all writes to topics until they are unfrozen. Reading goes on."""
    run(bootstrap_server, lambda admin: freezing.freeze(admin, names))
    _tell_frozen(names, True, output)


@app.command()
def unfreeze(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Let clients write to topics again."""
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
        f"{len(topic.partitions)} partitions, replication factor {topic.replication_factor}",
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
