"""Deeds about partitions: elections, moves, and calling moves off."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

from klamm.client.aio import throttling
from klamm.client.aio.admin import PREFERRED_ELECTION, UNCLEAN_ELECTION
from klamm.client.errors import code_of
from klamm.console.access.roles import Role
from klamm.console.deeds import planning
from klamm.console.deeds.deed import Deed, Field, Given, Json, Sheet, partitions_of
from klamm.console.deeds.gate import Acting
from klamm.console.problems import Problem
from klamm.console.reading.picture import Picture
from klamm.console.showing import twins
from klamm.model.errors import ErrorCode, KlammError
from klamm.model.names import TopicPartition

_MEGA: Final = 10**6
_TYPED_MAX: Final = 20  # moves that still fit onto one command line
_THROTTLE: Final = Field(
    name="throttle",
    label="At most, MB a second",
    kind="number",
    required=False,
    least=1,
    most=10**6,
    about="from and to each broker; empty: as fast as it goes",
)
_PARTITIONS: Final = Field(
    name="partitions", label="Partitions", kind="list", about="such as orders-0 orders-1"
)


def _wire(partitions: list[TopicPartition]) -> list[Json]:
    return [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]


async def _plan_election(acting: Acting, picture: Picture, given: Given) -> Sheet:
    kind = given["election"]
    chosen = partitions_of(given["partitions"]) if given["partitions"] else None
    who = "every partition" if chosen is None else planning.listed(chosen)
    sheet = Sheet(title=f"{kind.capitalize()} election", button=f"Elect leaders: {who}")
    if kind == "unclean":
        if acting.role < Role.ADMIN:
            raise Problem(403, "an unclean election takes the role admin", needed="admin")
        if chosen is None:
            raise Problem(400, "an unclean election names its partitions")
        sheet.typed = "lose records"
        sheet.warnings.append(
            "records that only the absent replicas have are lost: the new leader may be behind"
        )
    body: Json = {"kind": "elect", "election": kind}
    body["partitions"] = None if chosen is None else _wire(chosen)
    plan = await planning.ask(acting.admin, body)
    if plan is not None:
        planning.tell(sheet, plan)
        if not plan["moves"] and not sheet.refused:
            sheet.steps.append({"label": "", "text": "every leader is where it should be"})
        return sheet
    sheet.derived = True
    moved = [
        f"{t.name}-{p.index}"
        for t in picture.topics.values()
        for p in t.partitions
        if p.leader != p.replicas[0] and p.replicas[0] in p.isr
    ]
    sheet.steps.append({"label": "at once", "text": f"{len(moved)} leaders change"})
    sheet.facts = [kind, who]
    return sheet


async def _elect(acting: Acting, _: Picture, given: Given) -> str:
    is_unclean = given["election"] == "unclean"
    number = UNCLEAN_ELECTION if is_unclean else PREFERRED_ELECTION
    chosen = partitions_of(given["partitions"]) if given["partitions"] else None
    results = await acting.admin.elect_leaders(number, chosen)
    fine = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    refused = [
        f"{tp}: {result.error_message or code_of(result.error_code).name}"
        for tp, result in results.items()
        if result.error_code not in fine
    ]
    if refused:
        raise KlammError(planning.listed(refused))
    done = sum(result.error_code == 0 for result in results.values())
    return f"{done} leaders elected"


def _election_twin(given: Given) -> str:
    chosen = given["partitions"] or []
    rest = chosen or ["--all"]
    return twins.command("elect", given["election"] or "preferred", *rest)


def _targets(given: Given) -> dict[TopicPartition, list[int]]:
    """`orders-0=1,2,3` and the like."""
    found: dict[TopicPartition, list[int]] = {}
    for text in given["moves"]:
        name, equals, brokers = text.partition("=")
        ids = brokers.split("+")
        if not equals or not all(id.isdecimal() and len(id) < 10 for id in ids):
            raise Problem(400, f"{text!r} is not a move such as orders-0=1+2+3")
        found[partitions_of([name])[0]] = [int(id) for id in ids]
    return found


async def _plan_moves(acting: Acting, picture: Picture, given: Given) -> Sheet:
    targets = _targets(given)
    count = len(targets)
    sheet = Sheet(title="Move replicas", button=f"Start {count} moves")
    wanted: list[dict[str, Any]] = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": ids}
        for tp, ids in targets.items()
    ]
    for tp, ids in list(targets.items())[:20]:
        known = picture.topics.get(tp.topic)
        now = (
            next((p.replicas for p in known.partitions if p.index == tp.partition), ())
            if (known)
            else ()
        )
        text = f"{', '.join(map(str, now))} → {', '.join(map(str, ids))}"
        sheet.steps.append({"label": str(tp), "text": text})
    plan = await planning.ask(acting.admin, {"kind": "move", "partitions": wanted})
    if plan is not None:
        planning.tell(sheet, plan)
    else:
        sheet.derived = True
        sheet.facts = sorted((str(tp), ids) for tp, ids in targets.items())
    return _limited(sheet, given["throttle"], plan)


def _limited(sheet: Sheet, throttle: int | None, plan: Json | None) -> Sheet:
    """Says how fast replicas will be copied, and how long that takes at least."""
    if throttle is None:
        return sheet
    text = f"{throttle:,} MB a second from and to each broker"
    copies: Counter[int] = Counter()
    for copy in plan["copies"] if plan else ():
        for broker in copy["to"]:
            copies[broker] += copy["bytes"] or 0
    if copies:
        text += f": about {max(copies.values()) / (throttle * _MEGA):,.0f} s or more (estimated)"
    sheet.steps.append({"label": "limit", "text": text})
    sheet.warnings.append("the limit stays when the moves have ended, until somebody lifts it")
    sheet.facts = [sheet.facts, throttle]
    return sheet


async def _throttled(
    acting: Acting, targets: dict[TopicPartition, list[int]], throttle: int | None
) -> None:
    """Starts moves, behind a limit where one is wanted."""
    if throttle is not None:
        await throttling.limit(acting.admin, targets, throttle * _MEGA)
    await reassign(acting, dict(targets))


async def _move(acting: Acting, _: Picture, given: Given) -> str:
    await _throttled(acting, _targets(given), given["throttle"])
    return f"{len(given['moves'])} moves started"


def _move_twin(given: Given) -> str:
    limit = ["--throttle", given["throttle"] * _MEGA] if given["throttle"] else []
    targets = _targets(given)
    if len(targets) > _TYPED_MAX:
        return twins.command("reassign", "apply", *limit, "plan.json")
    moves = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": ids}
        for tp, ids in targets.items()
    ]
    text = json.dumps({"version": 1, "partitions": moves}, separators=(",", ":"))
    return f"echo {twins.quoted(text)} | " + twins.command("reassign", "apply", *limit, "-")


async def _plan_lifting(acting: Acting, picture: Picture, given: Given) -> Sheet:
    sheet = Sheet(title="Lift limits", button="Lift every limit on copying")
    for broker, rate in sorted(picture.limits.items()):
        text = f"{rate / _MEGA:,.1f} MB a second → as fast as it goes"
        sheet.steps.append({"label": f"broker {broker}", "text": text})
    moves = picture.status.get("moves", {}).get("items", [])
    if moves:
        sheet.warnings.append(f"{len(moves)} moves are under way: they will go faster")
    sheet.facts = "limits"
    return sheet


async def _lift(acting: Acting, _: Picture, given: Given) -> str:
    brokers, topics = await throttling.lift(acting.admin)
    return f"the limits of {len(brokers)} brokers and {len(topics)} topics are lifted"


async def reassign(acting: Acting, targets: dict[TopicPartition, list[int] | None]) -> None:
    """Starts moves, or cancels those whose target is None; raises with what was refused."""
    refused = [
        f"{tp}: {result.error_message or code_of(result.error_code).name}"
        for tp, result in (await acting.admin.reassign(targets)).items()
        if result.error_code
    ]
    if refused:
        raise KlammError(planning.listed(refused))


async def _plan_cancelling(acting: Acting, picture: Picture, given: Given) -> Sheet:
    chosen = partitions_of(given["partitions"])
    sheet = Sheet(title="Cancel moves", button=f"Cancel {len(chosen)} moves")
    body = [{**each, "replicas": None} for each in _wire(chosen)]
    plan = await planning.ask(acting.admin, {"kind": "move", "partitions": body})
    if plan is not None:
        return planning.tell(sheet, plan)
    sheet.derived = True
    sheet.facts = [str(tp) for tp in chosen]
    return sheet


async def _cancel(acting: Acting, _: Picture, given: Given) -> str:
    chosen = partitions_of(given["partitions"])
    await reassign(acting, dict.fromkeys(chosen))
    return f"{len(chosen)} moves cancelled"


def _drained(picture: Picture, broker: int) -> dict[TopicPartition, list[int]]:
    """Every partition on a broker with another in its place, the least loaded one."""
    staying = picture.live - {broker}
    load = Counter(b for t in picture.topics.values() for p in t.partitions for b in p.replicas)
    found: dict[TopicPartition, list[int]] = {}
    for name, topic in sorted(picture.topics.items()):
        for p in topic.partitions if not topic.is_doomed else ():
            if broker not in p.origin:
                continue
            free = sorted(staying.difference(p.origin), key=lambda b: (load[b], b))
            after = [free[0] if b == broker and free else b for b in p.origin]
            if not free:
                after = [b for b in p.origin if b != broker] or list(p.origin)
            load.update(free[:1])
            if after != list(p.origin):
                found[TopicPartition(name, p.index)] = after
    return found


async def _plan_drain(acting: Acting, picture: Picture, given: Given) -> Sheet:
    broker = given["broker"]
    targets = _drained(picture, broker)
    sheet = Sheet(title=f"Drain broker {broker}", button=f"Start {len(targets)} moves")
    if not targets:
        sheet.refused.append(f"nothing on broker {broker} can be moved")
        return sheet
    if any(len(after) < len(_origin(picture, tp)) for tp, after in targets.items()):
        sheet.warnings.append("there are too few brokers: some partitions will have a copy less")
    wanted = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": ids}
        for tp, ids in targets.items()
    ]
    plan = await planning.ask(acting.admin, {"kind": "move", "partitions": wanted})
    sheet.derived = plan is None
    if plan is not None:
        planning.tell(sheet, plan)
    sheet.facts = sorted((str(tp), ids) for tp, ids in targets.items())
    return _limited(sheet, given["throttle"], plan)


def _origin(picture: Picture, tp: TopicPartition) -> tuple[int, ...]:
    partitions = picture.topics[tp.topic].partitions
    return next(p.origin for p in partitions if p.index == tp.partition)


async def _drain(acting: Acting, picture: Picture, given: Given) -> str:
    targets = _drained(picture, given["broker"])
    await _throttled(acting, targets, given["throttle"])
    return f"{len(targets)} moves started"


def _drain_twin(given: Given) -> str:
    limit = ["--throttle", given["throttle"] * _MEGA] if given["throttle"] else []
    return twins.command("brokers", "drain", *limit, given["broker"] or 0)


DEEDS: Final = (
    Deed(
        kind="elect",
        title="Elect leaders",
        role=Role.OPERATOR,
        fields=(
            Field(
                name="election",
                label="Election",
                kind="choice",
                default="preferred",
                choices=("preferred", "unclean"),
            ),
            Field(name="partitions", label="Partitions", kind="list", required=False),
        ),
        plan=_plan_election,
        do=_elect,
        twin=_election_twin,
    ),
    Deed(
        kind="move",
        title="Move replicas",
        role=Role.OPERATOR,
        fields=(
            Field(name="moves", label="Moves", kind="list", about="such as orders-0=1+2+3"),
            _THROTTLE,
        ),
        plan=_plan_moves,
        do=_move,
        twin=_move_twin,
    ),
    Deed(
        kind="unthrottle",
        title="Lift limits",
        role=Role.OPERATOR,
        fields=(),
        plan=_plan_lifting,
        do=_lift,
        twin=lambda given: twins.command("reassign", "unthrottle"),
    ),
    Deed(
        kind="cancel-move",
        title="Cancel moves",
        role=Role.OPERATOR,
        fields=(_PARTITIONS,),
        plan=_plan_cancelling,
        do=_cancel,
        twin=lambda given: twins.command("reassign", "cancel", *(given["partitions"] or ())),
    ),
    Deed(
        kind="drain",
        title="Drain a broker",
        role=Role.OPERATOR,
        fields=(Field(name="broker", label="Broker", kind="number"), _THROTTLE),
        plan=_plan_drain,
        do=_drain,
        twin=_drain_twin,
    ),
)
