"""`klamm groups`: consumer groups, where they stand, and how to set them elsewhere."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import typer

from klamm.cli import group_offsets
from klamm.cli.asking import refuse, run
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    DryRunOption,
    Output,
    OutputOption,
    new_app,
)
from klamm.cli.output import print_json, table
from klamm.client.admin import EARLIEST, LATEST, Admin
from klamm.client.groups import Groups
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember

app = new_app("Consumer groups, where they stand, and how to set them elsewhere.")


@app.command("list")
def list_(
    output: OutputOption = Output.TEXT, bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP
) -> None:
    """List the groups of all brokers."""
    found = run(bootstrap_server, _list)
    if output is Output.JSON:
        print_json([{"group": name, "state": state} for name, state in found.items()])
    elif found:
        print(table(("group", "state"), list(found.items())))


@app.command()
def describe(
    group: str,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Members, committed offsets and how far each is behind."""

    async def work(admin: Admin) -> tuple[DescribedGroup, list[group_offsets.Standing]]:
        return await _describe(admin, group), await group_offsets.standings(admin, group)

    found, standings = run(bootstrap_server, work)
    if output is Output.JSON:
        print_json(
            {
                "group": group,
                "state": found.group_state,
                "members": [_member(member) for member in found.members],
                "offsets": [standing._asdict() for standing in standings],
            }
        )
        return
    print(f"{group}  {found.group_state}, {len(found.members)} members")
    for member in found.members:
        print(f"  {member.member_id} at {member.client_host}")
    if standings:
        rows = [
            (s.topic, s.partition, s.offset, s.end, "-" if s.lag is None else s.lag)
            for s in standings
        ]
        print(table(("topic", "partition", "offset", "end", "lag"), rows))


@app.command()
def reset(
    group: str,
    topic: Annotated[list[str], typer.Option("--topic", "-t", help="repeatable")],
    earliest: Annotated[bool, typer.Option("--to-earliest")] = False,
    latest: Annotated[bool, typer.Option("--to-latest")] = False,
    offset: Annotated[int | None, typer.Option("--to-offset")] = None,
    moment: Annotated[datetime | None, typer.Option("--to-time")] = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Set where a group without members goes on."""
    if earliest + latest + (offset is not None) + (moment is not None) != 1:
        raise UsageError("say where to: one of --to-earliest, --to-latest, --to-offset, --to-time")
    timestamp = EARLIEST if earliest else LATEST
    if moment is not None:
        timestamp = int(moment.timestamp() * 1000)

    async def work(admin: Admin) -> Mapping[TopicPartition, int]:
        found = await _describe(admin, group)
        if found.members:
            raise UsageError(f"group {group!r} has members: stop them first")
        wanted = await group_offsets.targets(admin, topic, timestamp, offset)
        if not dry_run:
            await group_offsets.commit(admin, group, wanted)
        return wanted

    wanted = run(bootstrap_server, work)
    rows = [(name, partition, where) for (name, partition), where in sorted(wanted.items())]
    if output is Output.JSON:
        print_json([{"topic": t, "partition": p, "offset": o} for t, p, o in rows])
    else:
        print(table(("topic", "partition", "offset"), rows))


@app.command()
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...")],
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete groups without members, and their offsets."""

    async def work(admin: Admin) -> None:
        for group in groups:
            refuse(await Groups(admin.client).delete(group), f"group {group!r}")

    run(bootstrap_server, work)
    for group in groups:
        print(f"deleted group {group}")


async def _list(admin: Admin) -> dict[str, str]:
    return {group.group_id: group.group_state for group in await Groups(admin.client).all()}


async def _describe(admin: Admin, group: str) -> DescribedGroup:
    found = await Groups(admin.client).describe(group)
    refuse(found.error_code, f"group {group!r}")
    return found


def _member(member: DescribedGroupMember) -> dict[str, object]:
    return {
        "id": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "partitions": _assigned(member.member_assignment),
    }


def _assigned(assignment: bytes) -> dict[str, list[int]]:
    """The partitions in a consumer's assignment; what is not a consumer's is no partitions."""
    found: dict[str, list[int]] = {}
    try:
        _version, topics = struct.unpack_from(">hi", assignment)
        at = 6
        for _ in range(topics):
            (size,) = struct.unpack_from(">h", assignment, at)
            topic = assignment[at + 2 : at + 2 + size].decode()
            at += 2 + size
            (count,) = struct.unpack_from(">i", assignment, at)
            found[topic] = list(struct.unpack_from(f">{count}i", assignment, at + 4))
            at += 4 + 4 * count
    except (struct.error, UnicodeDecodeError):
        return {}
    return found
