"""Deeds that the wire does not know: the brokers' processes on this machine, and kept moments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from klamm.console.access.roles import Role
from klamm.console.deeds.deed import Deed, Field, Given, Sheet
from klamm.console.deeds.gate import Acting
from klamm.console.problems import Problem
from klamm.console.processes import VERBS, Processes
from klamm.console.reading.moments import PARTITIONS_MAX, shaped
from klamm.console.reading.picture import Picture
from klamm.console.reading.settings import overrides
from klamm.console.showing import twins

_BROKER: Final = Field(name="broker", label="Broker", kind="number")
_DONE: Final = {
    "stop": "stopped",
    "kill": "killed",
    "start": "started",
    "pause": "paused",
    "resume": "goes on",
}
_MEANING: Final = {
    "stop": "its leaderships move first, then it ends",
    "kill": "it ends at once (kill -9), as if the power had gone",
    "start": "it starts again on the port and the data it had",
    "pause": "it is there and does nothing (SIGSTOP) until it is resumed",
    "resume": "it goes on (SIGCONT)",
}


def _processes(acting: Acting) -> Processes:
    if acting.tools.processes is None:
        raise Problem(
            422, "this console does not run beside the cluster's processes: start it with --data"
        )
    return acting.tools.processes


def _planned(verb: str) -> Callable[[Acting, Picture, Given], Awaitable[Sheet]]:
    async def plan(acting: Acting, picture: Picture, given: Given) -> Sheet:
        id = given["broker"]
        state = (await _processes(acting).states()).get(id)
        title = f"{verb.capitalize()} broker {id}"
        sheet = Sheet(title=title, button=title)
        if state is None:
            sheet.refused.append(f"there is no broker {id} on this machine")
        elif state not in VERBS[verb]:
            sheet.refused.append(f"broker {id} is {state}")
        sheet.steps.append({"label": "at once", "text": _MEANING[verb]})
        if verb in ("kill", "stop", "pause"):
            _tell_loss(sheet, picture, id)
        if verb == "kill":
            sheet.typed = str(id)
        sheet.facts = [verb, id, state]
        return sheet

    return plan


def _tell_loss(sheet: Sheet, picture: Picture, id: int) -> None:
    """Tells the consequences of a broker that goes, as far as the picture knows them."""
    live = picture.live - {id}
    led = [p for t in picture.topics.values() for p in t.partitions if p.leader == id]
    lost = [p for p in led if not live.intersection(p.isr)]
    sheet.steps.append({"label": "then", "text": f"{len(led) - len(lost):,} leaderships move"})
    if lost:
        sheet.warnings.append(f"{len(lost):,} partitions go offline: no other copy is in sync")
    if picture.status.get("controller") == id:
        sheet.steps.append({"label": "", "text": "another broker becomes the controller"})
    if not live:
        sheet.warnings.append("no broker is left: the whole cluster is away")


def _doing(verb: str) -> Callable[[Acting, Picture, Given], Awaitable[str]]:
    async def do(acting: Acting, _: Picture, given: Given) -> str:
        await _processes(acting).do(verb, given["broker"])
        return f"broker {given['broker']} {_DONE[verb]}"

    return do


def _verb_deed(verb: str) -> Deed:
    return Deed(
        kind=f"{verb}-broker",
        title=f"{verb.capitalize()} a broker",
        role=Role.ADMIN,
        fields=(_BROKER,),
        plan=_planned(verb),
        do=_doing(verb),
        twin=lambda given: twins.command("cluster", verb, given["broker"]),
    )


async def _plan_moment(_: Acting, picture: Picture, given: Given) -> Sheet:
    name = given["name"]
    sheet = Sheet(title="Keep this moment", button=f"Keep it as {name}")
    partitions = sum(len(t.partitions) for t in picture.topics.values())
    told = f"{len(picture.topics):,} topics with {partitions:,} partitions and their settings"
    sheet.steps.append({"label": "keeps", "text": f"{told}, in the console's memory"})
    if partitions > PARTITIONS_MAX:
        sheet.refused.append(f"a moment may have {PARTITIONS_MAX:,} partitions")
    sheet.facts = name
    return sheet


async def _keep_moment(acting: Acting, picture: Picture, given: Given) -> str:
    names = [topic.name for topic in picture.topics.values()]
    settings = await overrides(acting.admin, names)
    acting.tools.moments.keep(given["name"], shaped(picture.topics.values(), settings))
    return f"kept as {given['name']}"


DEEDS: Final = (
    *map(_verb_deed, VERBS),
    Deed(
        kind="keep-moment",
        title="Keep this moment",
        role=Role.OPERATOR,
        fields=(Field(name="name", label="Name", about="such as before-the-release"),),
        plan=_plan_moment,
        do=_keep_moment,
        twin=lambda _: twins.command("topics", "describe", "-o", "json"),
    ),
)
