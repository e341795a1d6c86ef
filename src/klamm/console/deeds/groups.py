"""Deeds about groups and records: reset, delete, produce."""

from __future__ import annotations

from typing import Any, Final

from klamm.client.aio.groups import Groups
from klamm.client.aio.producer import Producer
from klamm.client.errors import refuse
from klamm.console.access.roles import Role
from klamm.console.deeds import planning
from klamm.console.deeds.deed import Deed, Field, Given, Sheet
from klamm.console.deeds.gate import Acting
from klamm.console.problems import Problem
from klamm.console.reading.picture import Picture
from klamm.console.showing import twins
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST

_PLACES: Final = ("earliest", "latest", "offset", "time")


async def _targets(acting: Acting, given: Given) -> dict[TopicPartition, tuple[int, int]]:
    """The offset that each partition would be read from, and its end."""
    found = (await acting.admin.topics([given["topic"]])).get(given["topic"])
    if found is None or found.error_code:
        raise Problem(404, f"there is no topic {given['topic']!r}")
    tps = [TopicPartition(given["topic"], p.partition_index) for p in found.partitions]

    async def at(moment: int) -> dict[TopicPartition, int]:
        answers = await acting.admin.list_offsets(dict.fromkeys(tps, moment))
        for tp, answer in answers.items():
            refuse(answer.error_code, tp)
        return {tp: answer.offset for tp, answer in answers.items()}

    firsts, ends = await at(EARLIEST), await at(LATEST)
    match given["to"]:
        case "earliest":
            wanted = firsts
        case "latest":
            wanted = ends
        case "time":
            found_at = await at(given["at"] or 0)
            wanted = {tp: ends[tp] if offset < 0 else offset for tp, offset in found_at.items()}
        case _:
            wanted = dict.fromkeys(tps, given["at"] or 0)
    return {tp: (min(max(wanted[tp], firsts[tp]), ends[tp]), ends[tp]) for tp in sorted(tps)}


async def _plan_reset(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name = given["group"]
    sheet = Sheet(title=f"Reset {name}", button=f"Reset {name} in {given['topic']}")
    groups = Groups(acting.admin.client)
    members = (await groups.describe(name)).members
    if members:
        who = planning.listed(member.client_id for member in members)
        sheet.refused.append(f"group {name} has members: stop {who} first")
    committed = await groups.offsets(name)
    targets = await _targets(acting, given)
    rows: list[list[Any]] = []
    for tp, (after, _) in targets.items():
        known = committed.get(tp)
        before = known.committed_offset if known is not None else None
        step = None if before is None or before < 0 else after - before
        words = "–" if step is None else "skips" if step > 0 else "reads again" if step else "stays"  # noqa: RUF001
        rows.append([tp.partition, before, after, words, abs(step) if step else 0])
    columns = ["partition", "from", "to", "", "records"]
    sheet.table = {"columns": columns, "rows": rows}
    sheet.facts = [[row[0], row[2]] for row in rows]
    return sheet


async def _reset(acting: Acting, _: Picture, given: Given) -> str:
    targets = {tp: after for tp, (after, _) in (await _targets(acting, given)).items()}
    results = await Groups(acting.admin.client).set_offsets(given["group"], targets)
    for tp, code in results.items():
        refuse(code, tp)
    return f"{given['group']} begins anew in {len(targets)} partitions of {given['topic']}"


def _reset_twin(given: Given) -> str:
    words: list[str | int] = ["groups", "reset", "-t", given["topic"], f"--to-{given['to']}"]
    if given["to"] in ("offset", "time"):
        words.append(given["at"] or 0)
    return twins.command(*words, "--execute", names=(given["group"],))


async def _plan_group_deletion(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name = given["group"]
    known = picture.groups.get(name, {})
    sheet = Sheet(title=f"Delete group {name}", button=f"Delete group {name}", typed=name or "yes")
    count = len(known.get("offsets", ()))
    sheet.steps.append({"label": "removes", "text": f"its offsets in {count} partitions"})
    if known.get("members"):
        sheet.refused.append(f"group {name} has {len(known['members'])} members: stop them first")
    sheet.facts = [name, count]
    return sheet


async def _delete_group(acting: Acting, _: Picture, given: Given) -> str:
    refuse(await Groups(acting.admin.client).delete(given["group"]), f"group {given['group']!r}")
    return f"deleted group {given['group']}"


async def _plan_produce(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name = given["topic"]
    sheet = Sheet(title=f"Produce to {name}", button=f"Write one record to {name}")
    value = None if given["null"] else (given["value"] or "").encode("utf-8", "surrogatepass")
    told = "null, a tombstone" if value is None else f"{len(value):,} bytes"
    sheet.steps.append({"label": "value", "text": told})
    known = picture.topics.get(name)
    if known is None:
        sheet.refused.append(f"there is no topic {name!r}")
    elif known.state == "frozen":
        sheet.refused.append(f"{name} is frozen")
    elif given["partition"] is not None and given["partition"] >= len(known.partitions):
        sheet.refused.append(f"{name} has {len(known.partitions)} partitions")
    sheet.facts = name
    return sheet


async def _produce(acting: Acting, _: Picture, given: Given) -> str:
    headers = []
    for line in (given["headers"] or "").splitlines():
        name, equals, text = line.partition("=")
        if equals:
            headers.append((name, text.encode("utf-8", "surrogatepass")))
    value = None if given["null"] else (given["value"] or "").encode("utf-8", "surrogatepass")
    key = given["key"].encode("utf-8", "surrogatepass") if given["key"] else None
    client = acting.admin.client
    async with Producer(client, idempotent=False, timeout_s=10, create_topics=False) as producer:
        where = await (
            await producer.send(
                given["topic"], value, key=key, headers=headers, partition=given["partition"]
            )
        )
    return f"written to {where.topic}-{where.partition} at offset {where.offset:,}"


DEEDS: Final = (
    Deed(
        kind="reset-group",
        title="Reset a group",
        role=Role.OPERATOR,
        fields=(
            Field(name="group", label="Group", required=False, default=""),
            Field(name="topic", label="Topic"),
            Field(name="to", label="To", kind="choice", default="earliest", choices=_PLACES),
            Field(
                name="at",
                label="Offset, or time in ms",
                kind="number",
                required=False,
                most=2**53,
            ),
        ),
        plan=_plan_reset,
        do=_reset,
        twin=_reset_twin,
    ),
    Deed(
        kind="delete-group",
        title="Delete a group",
        role=Role.ADMIN,
        fields=(Field(name="group", label="Group", required=False, default=""),),
        plan=_plan_group_deletion,
        do=_delete_group,
        twin=lambda given: twins.command("groups", "delete", names=(given["group"],)),
    ),
    Deed(
        kind="produce",
        title="Write a record",
        role=Role.OPERATOR,
        fields=(
            Field(name="topic", label="Topic"),
            Field(name="key", label="Key", required=False),
            Field(name="value", label="Value", kind="long", required=False, default=""),
            Field(name="null", label="null, a tombstone", kind="flag", required=False),
            Field(name="partition", label="Partition", kind="number", required=False),
            Field(name="headers", label="Headers", kind="long", required=False, about="name=value"),
        ),
        plan=_plan_produce,
        do=_produce,
        twin=lambda given: twins.command("produce", names=(given["topic"],)),
    ),
)
