"""The controller's plans, told in a few steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from klamm.client.aio.admin import Admin
from klamm.client.errors import VersionMismatch, code_of
from klamm.console.deeds.deed import Json, Sheet
from klamm.console.showing.formats import size
from klamm.model.errors import ErrorCode
from klamm.protocol.private import PrivateKey

_NAMED: Final = 3


async def ask(admin: Admin, body: Mapping[str, Any]) -> Json | None:
    """The controller's plan; None where the cluster makes none."""
    try:
        return await admin.ask_controller(PrivateKey.PLAN, body)
    except VersionMismatch:
        return None


def tell(sheet: Sheet, plan: Json, *, is_placed: bool = True) -> Sheet:
    """Puts a plan onto a sheet.

    Where placement is left to chance the plan's own transitions differ from one time to the next;
    what it rests on then is only their number.
    """
    sheet.steps += list(_steps("at once", plan["moves"], plan["moves_count"]))
    sheet.steps += list(_steps("then", plan["later"], plan["later_count"]))
    if plan["copies"]:
        sheet.steps.append(_step("copies", f"{size(plan['bytes_to_copy'])} in all"))
        sheet.steps += [_copy(copy) for copy in plan["copies"][:_NAMED]]
    if plan["removals"]:
        unknown = [r["broker"] for r in plan["removals"] if r["bytes"] is None]
        text = f"{len(plan['removals']):,} logs, {size(plan['bytes_to_remove'])}"
        if unknown:
            ids = ", ".join(map(str, sorted(set(unknown))))
            text += f", and an unknown size on broker {ids}"
        sheet.steps.append(_step("removes", text))
    if plan["brokers"]:
        sheet.steps.append(_step("tells", "broker " + ", ".join(map(str, plan["brokers"]))))
    sheet.warnings += plan["warnings"]
    sheet.refused += list(refusals(plan))
    if not is_placed:
        sheet.warnings.append("where partitions go is left to chance: it may start elsewhere")
    moves = [(m["subject"], m["before"], m["after"]) for m in (*plan["moves"], *plan["later"])]
    sheet.facts = sorted(moves) if is_placed else len(moves)
    return sheet


def refusals(plan: Mapping[str, Any]) -> Iterator[str]:
    """The refusals of the controller, in its words."""
    for entry in plan["refused"]:
        if entry["error_code"] == ErrorCode.ELECTION_NOT_NEEDED:
            continue
        number = entry["partition"]
        name = entry["topic"] if number is None else f"{entry['topic']}-{number}"
        message = entry["error_message"] or code_of(entry["error_code"]).name
        yield message if name in message else f"{name}: {message}"


def _copy(copy: Mapping[str, Any]) -> Json:
    to = ", ".join(map(str, copy["to"]))
    where = f"{copy['topic']}-{copy['partition']} from broker {copy['from']} to {to}"
    return _step("", f"{where}: {size(copy['bytes'])} each")


def _steps(label: str, moves: Sequence[Mapping[str, str]], count: int) -> Iterator[Json]:
    """Equal ways through a machine on one line, partitions and replicas each their own."""
    ways: dict[str, list[str]] = {}
    for move in moves:
        ways.setdefault(move["subject"], [move["before"]]).append(move["after"])
    alike: dict[tuple[str, str], list[str]] = {}
    for subject, states in ways.items():
        kind = "replica" if " on broker " in subject else "partition"
        kind = "topic" if subject.startswith("topic ") else kind
        alike.setdefault((kind, " → ".join(states)), []).append(subject)
    for (kind, way), subjects in alike.items():
        yield _step(label, f"{_who(kind, subjects)}: {way}")
        label = ""
    if count > len(moves):
        yield _step("", f"and {count - len(moves):,} transitions more")


def _who(kind: str, subjects: Sequence[str]) -> str:
    if len(subjects) <= _NAMED:
        return ", ".join(subjects)
    return f"{len(subjects):,} {kind}s"


def _step(label: str, text: str) -> Json:
    return {"label": label, "text": text}


def listed(names: Iterable[object]) -> str:
    """A few names, and how many more."""
    kept = list(map(str, names))
    more = f" and {len(kept) - 5} more" if len(kept) > 5 else ""
    return ", ".join(kept[:5]) + more
