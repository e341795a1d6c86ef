"""`klamm brokers`: who is there, what they hold, and how to empty one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from klamm.cli.asking import run
from klamm.cli.cluster import placement as moves
from klamm.cli.cluster import status
from klamm.cli.cluster.reassign import ThrottleOption, request_directories, request_moves
from klamm.cli.facts import BUILT_IN, describe_settings, list_topics, live_brokers
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    DryRunOption,
    Output,
    OutputOption,
    new_app,
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
from klamm.cli.parsing.declared import Argument
from klamm.client.aio import throttling
from klamm.client.aio.admin import Admin
from klamm.client.errors import code_of
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import NotThere
from klamm.model.names import TopicPartition

app = new_app("List, describe and drain brokers.")

Row = dict[str, object]


@app.command("list")
def list_(
    output: OutputOption = Output.TEXT, bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP
) -> None:
    """List the brokers: those that are up, and those that are missing.

    Example: klamm brokers list
    """
    rows = run(bootstrap_server, _list)
    if output is Output.JSON:
        print_json(rows)
    else:
        headers = ("id", "address", "rack", "state", "controller", "leads", "replicas")
        say_text(table(headers, [[_cell(row[h]) for h in headers] for row in rows]))


@app.command()
def describe(
    broker: int,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Describe one broker: its replicas and its settings.

    Example: klamm brokers describe 1
    """
    found = run(bootstrap_server, lambda admin: _describe(admin, broker))
    if output is Output.JSON:
        print_json(found)
        return
    for name, value in found.items():
        if name != "settings":
            say(f"{name}: {_cell(value)}")
    settings = found["settings"]
    assert isinstance(settings, dict), "a mapping was made below"
    for name, value in settings.items():
        say(f"{name} = {value}")


@app.command()
def drain(
    broker: int,
    throttle: ThrottleOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Move every replica off a broker; --dry-run prints the plan instead.

    Example: klamm brokers drain 2 --dry-run
    """

    async def work(admin: Admin) -> moves.Plan:
        staying = await live_brokers(admin)
        plan = moves.drain(await list_topics(admin), broker, staying)
        if not plan and broker not in staying:
            raise _no_broker(broker, sorted(staying))
        if not dry_run:
            if throttle is not None:
                await throttling.limit(admin, plan, throttle)
            await request_moves(admin, plan)
        return plan

    plan = run(bootstrap_server, work)
    if output is Output.JSON:
        say_text(moves.to_json(plan))
    elif dry_run:
        say(f"would start {counted(len(plan), 'move')}", *moves.tell(plan))
    else:
        say(f"started {counted(len(plan), 'move')}; klamm reassign status shows their progress")
        if throttle is not None:
            say("when they are done, klamm reassign unthrottle lifts the limit")


@app.command()
def dirs(
    broker: Annotated[int | None, Argument(help="only this broker")] = None,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List the log directories of brokers, and logs that are moving into them.

    Example: klamm brokers dirs 1
    """
    rows = run(bootstrap_server, lambda admin: _dirs(admin, broker))
    if output is Output.JSON:
        print_json(rows)
        return
    headers = ("broker", "directory", "state", "logs", "bytes", "free", "arriving")
    say_text(table(headers, [[_dir_cell(row[h]) for h in headers] for row in rows]))


@app.command("move-logs")
def move_logs(
    broker: int,
    directory: Annotated[str, Argument(help="one of the broker's log directories")],
    partitions: Annotated[
        list[str], Argument(metavar="TOPIC-PARTITION...", help="such as orders-0")
    ],
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Move logs to another directory of their broker; `dirs` shows the progress.

    Example: klamm brokers move-logs 1 /disk2/logs orders-0 orders-1
    """
    wanted = {TopicPartition(*parse_partition(text)): directory for text in partitions}
    run(bootstrap_server, lambda admin: request_directories(admin, {broker: wanted}))
    told = {"broker": broker, "directory": directory, "logs": [str(tp) for tp in wanted]}
    tell(output, told, f"{counted(len(wanted), 'log')} of broker {broker} will be in {directory}")


def _dir_cell(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{log} ({lag:,} behind)" for log, lag in value.items())
    return value


async def _dirs(admin: Admin, broker: int | None) -> list[Row]:
    live = await live_brokers(admin)
    if broker is not None and broker not in live:
        raise _no_broker(broker, sorted(live))
    found = await admin.log_dirs(None if broker is None else [broker])
    rows: list[Row] = []
    for at, results in sorted(found.items()):
        for result in results:
            logs = [(t.name, p) for t in result.topics for p in t.partitions]
            arriving = {
                f"{topic}-{p.partition_index}": p.offset_lag for topic, p in logs if p.is_future_key
            }
            rows.append(
                {
                    "broker": at,
                    "directory": result.log_dir,
                    "state": code_of(result.error_code).name if result.error_code else "online",
                    "logs": len(logs) - len(arriving),
                    "bytes": sum(p.partition_size for _, p in logs),
                    "free": result.usable_bytes,
                    "arriving": arriving,
                }
            )
    return rows


async def _list(admin: Admin) -> list[Row]:
    now = await status.look(admin)
    return [
        {
            "id": broker["id"],
            "address": broker["address"],
            "rack": broker["rack"],
            "state": broker["presence"],
            "controller": broker["id"] == now["controller"],
            "leads": broker["leads"],
            "replicas": broker["replicas"],
        }
        for broker in now["brokers"]
    ]


async def _describe(admin: Admin, broker: int) -> Row:
    rows = {row["id"]: row for row in await _list(admin) if row["state"] != "down"}
    if broker not in rows:
        raise _no_broker(broker, rows)
    dirs = (await admin.log_dirs([broker]))[broker]
    sizes = {
        found.log_dir: sum(p.partition_size for t in found.topics for p in t.partitions)
        for found in dirs
    }
    settings = (await describe_settings(admin, ConfigResourceType.BROKER, [str(broker)]))[
        str(broker)
    ]
    changed = {s.name: s.value for s in settings if s.config_source != BUILT_IN}
    return {**rows[broker], "log_dirs": sizes, "settings": changed}


def _no_broker(broker: int, live: Iterable[object]) -> NotThere:
    return NotThere(
        f"there is no broker {broker}, or it is down; live brokers: {', '.join(map(str, live))}"
    )


def _cell(value: object) -> object:
    """A cell as people read it."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, dict):
        return ", ".join(f"{name} ({size:,} bytes)" for name, size in value.items())
    return "-" if value is None else value
