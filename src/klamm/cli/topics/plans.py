"""`--dry-run`: the controller's own plan of a change, and how it is told.

The controller runs the change on a copy of what it knows and answers what it would do. Nothing is
written and no broker is told. A cluster that is not klamm's cannot be asked; a dry run then is the
validation that Kafka has, where it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from klamm.cli.topics.changes import Changes, TopicWish
from klamm.client.aio.admin import Admin
from klamm.client.errors import VersionMismatch, code_of
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.protocol.private import PrivateKey

Plan = dict[str, Any]


async def ask(admin: Admin, body: Mapping[str, Any]) -> Plan | None:
    """The controller's plan; None where the cluster makes none."""
    try:
        answer = await admin.ask_controller(PrivateKey.PLAN, body)
    except VersionMismatch:
        return None
    return {name: value for name, value in answer.items() if name != "error_code"}


def creation(new: TopicWish) -> dict[str, Any]:
    """The request for the plan of a new topic."""
    topic = {
        "name": new.name,
        "partitions": new.partitions,
        "replication_factor": new.replication_factor,
        "assignment": new.assignment,
        "configs": dict(new.configs),
    }
    return {"kind": "create", "topics": [topic]}


def growth(name: str, changes: Changes) -> dict[str, Any]:
    """The request for the plan of more partitions."""
    return {
        "kind": "grow",
        "topic": name,
        "partitions": changes.partitions,
        "assignment": changes.assignment,
    }


def deletion(names: Sequence[str]) -> dict[str, Any]:
    """The request for the plan of a deletion."""
    return {"kind": "delete", "topics": list(names)}


def moves(targets: Mapping[TopicPartition, Sequence[int] | None]) -> dict[str, Any]:
    """The request for the plan of moves."""
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": replicas}
        for tp, replicas in targets.items()
    ]
    return {"kind": "move", "partitions": partitions}


def elections(kind: str, partitions: Iterable[TopicPartition] | None) -> dict[str, Any]:
    """The request for the plan of elections."""
    chosen = None
    if partitions is not None:
        chosen = [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]
    return {"kind": "elect", "election": kind, "partitions": chosen}


def check(plan: Plan | None) -> None:
    """Raise with all that the controller would refuse, as the real thing would."""
    refused = list(_refusals(plan)) if plan else []
    if refused:
        raise KlammError("; ".join(refused))


def tell(plan: Plan | None) -> Iterator[str]:
    """A plan for people."""
    if plan is None:
        yield "this cluster makes no plans: only what Kafka can validate was validated"
        return
    yield from _steps(plan["moves"], plan["moves_count"])
    if plan["later"]:
        yield "once brokers have done as told:"
        yield from _steps(plan["later"], plan["later_count"])
    for copy in plan["copies"]:
        to = ", ".join(map(str, copy["to"]))
        where = f"{copy['topic']}-{copy['partition']} from broker {copy['from']} to {to}"
        yield f"  copy {where}: {_size(copy['bytes'])} each"
    if plan["copies"]:
        yield f"  to copy in all: {_size(plan['bytes_to_copy'])}"
    if plan["removals"]:
        yield f"  to remove: {len(plan['removals'])} logs, {_size(plan['bytes_to_remove'])}"
    if plan["brokers"]:
        ids = ", ".join(map(str, plan["brokers"]))
        yield f"  brokers told: {ids}; writes to the store: {plan['writes']}"
    elif not plan["moves"]:
        yield "  nothing would change"
    yield from (f"  warning: {text}" for text in plan["warnings"])
    yield from (f"  refused: {text}" for text in _refusals(plan))


def _refusals(plan: Plan) -> Iterator[str]:
    for entry in plan["refused"]:
        number = entry["partition"]
        name = entry["topic"] if number is None else f"{entry['topic']}-{number}"
        message = entry["error_message"] or code_of(entry["error_code"]).name
        yield message if name in message else f"{name}: {message}"


def _steps(steps: Sequence[Mapping[str, str]], count: int) -> Iterator[str]:
    """Neighbours that move alike share a line, partitions and replicas each their own."""

    def alike(step: Mapping[str, str]) -> tuple[bool, str, str, str]:
        is_replica = " on broker " in step["subject"]
        return is_replica, step["before"], step["after"], step["why"]

    for (_, before, after, why), group in groupby(steps, key=alike):
        names = [step["subject"] for step in group]
        shown = ", ".join(names[:4])
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        yield f"  {shown}{more}: {before} -> {after}{f' ({why})' if why else ''}"
    if count > len(steps):
        yield f"  ... and {count - len(steps)} more"


def _size(count: int | None) -> str:
    """Bytes as people read them."""
    if count is None:
        return "unknown size"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError(count)
