"""`klamm groups`: consumer groups, where they stand, and how to set them elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from klamm.cli.asking import run
from klamm.cli.groups import offsets as group_offsets
from klamm.cli.groups.views import GroupView, look_at
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    new_app,
)
from klamm.cli.output import (
    print_json,
    say,
    say_text,
    table,
    tell,
)
from klamm.cli.parsing.declared import Argument, Option
from klamm.client.aio.admin import Admin
from klamm.client.aio.groups import Groups
from klamm.client.errors import refuse
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST
from klamm.protocol.messages.list_groups import ListedGroup

app = new_app("List, describe, reset and delete consumer groups.")


@app.command("list")
def list_(
    output: OutputOption = Output.TEXT, bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP
) -> None:
    """List the groups of all brokers.

    Example: klamm groups list
    """
    found = run(bootstrap_server, _list)
    if output is Output.JSON:
        print_json(
            [{"group": g.group_id, "type": g.group_type, "state": g.group_state} for g in found]
        )
    elif found:
        rows = [(g.group_id, g.group_type, g.group_state) for g in found]
        say_text(table(("group", "type", "state"), rows))


@app.command()
def describe(
    group: str,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Describe a group: protocol, members, committed offsets and lag.

    Example: klamm groups describe billing
    """

    async def work(admin: Admin) -> tuple[GroupView, list[group_offsets.GroupPosition]]:
        view = await look_at(Groups(admin.client), group)
        return view, await group_offsets.standings(admin, group)

    found, standings = run(bootstrap_server, work)
    if output is Output.JSON:
        print_json({**found.json, "offsets": [standing._asdict() for standing in standings]})
        return
    say(found.line)
    for member in found.members:
        say(member.line)
    if standings:
        rows = [
            (s.topic, s.partition, s.offset, s.end, "-" if s.lag is None else s.lag)
            for s in standings
        ]
        say_text(table(("topic", "partition", "offset", "end", "lag"), rows))


@app.command()
def reset(
    group: str,
    topic: Annotated[list[str], Option("--topic", "-t", help="repeatable")],
    earliest: Annotated[bool, Option("--to-earliest")] = False,
    latest: Annotated[bool, Option("--to-latest")] = False,
    offset: Annotated[int | None, Option("--to-offset")] = None,
    moment: Annotated[datetime | None, Option("--to-time")] = None,
    execute: Annotated[
        bool, Option("--execute", help="do it; without this, only show what would be done")
    ] = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Reset an inactive group's offsets: shows the new ones, and sets them with --execute.

    Example: klamm groups reset billing -t orders --to-earliest --execute
    """
    if earliest + latest + (offset is not None) + (moment is not None) != 1:
        raise UsageError("give exactly one of --to-earliest, --to-latest, --to-offset, --to-time")
    timestamp = EARLIEST if earliest else LATEST
    if moment is not None:
        timestamp = int(moment.timestamp() * 1000)

    async def work(admin: Admin) -> Mapping[TopicPartition, int]:
        found = await look_at(Groups(admin.client), group)
        if found.members:
            raise UsageError(f"group {group!r} has active members: stop them first")
        wanted = await group_offsets.targets(admin, topic, timestamp, offset)
        if execute:
            await group_offsets.commit(admin, group, wanted)
        return wanted

    wanted = run(bootstrap_server, work)
    rows = [(name, partition, where) for (name, partition), where in sorted(wanted.items())]
    if output is Output.JSON:
        print_json([{"topic": t, "partition": p, "offset": o} for t, p, o in rows])
        return
    say_text(table(("topic", "partition", "offset"), rows))
    if not execute:
        say("nothing was changed: --execute sets these offsets")


@app.command()
def delete(
    groups: Annotated[list[str], Argument(metavar="GROUP...")],
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete inactive groups and their offsets.

    Example: klamm groups delete billing
    """

    async def work(admin: Admin) -> None:
        for group in groups:
            refuse(await Groups(admin.client).delete(group), f"group {group!r}")

    run(bootstrap_server, work)
    tell(output, groups, *[f"deleted group {group}" for group in groups])


async def _list(admin: Admin) -> list[ListedGroup]:
    return await Groups(admin.client).all()
