"""The story of a topic, the three machines, and the lines of the ledger seen so far."""

from __future__ import annotations

from typing import Any, Final

from klamm.console.params import Param
from klamm.console.problems import Problem
from klamm.console.reading import asking
from klamm.console.reading.folding import Judge, place_text, states_at
from klamm.console.scene import Ask, Json, Scene, View, no_twin
from klamm.console.showing import twins
from klamm.console.showing.layouts import placed
from klamm.console.views.health import short
from klamm.console.views.topics import TOPIC

_STORY_MAX: Final = 10_000


async def story(scene: Scene, ask: Ask) -> Json:
    """Every decision about a topic, in order; `at` has the states after one of them."""
    name = ask["topic"]
    if not scene.may_know(name):
        raise Problem(404, f"there is no topic {name!r}")
    lines: list[dict[str, Any]]
    faults: list[str] = []
    if scene.picture.is_klamm:
        lines, faults = await asking.story(scene.admin, name, ask["limit"])
        judge = Judge(scene.picture.machines)
        for line in lines:
            line["id"] = place_text(line)
            line["illegal"] = judge.fault(line)
    else:
        lines = [line for line in scene.picture.lines if line["topic"] == name][-ask["limit"] :]
    if not lines and name not in scene.picture.topics:
        raise Problem(404, f"there is no topic {name!r}, and nobody remembers one")
    brokers = [line for line in scene.picture.lines if line["subject"].startswith("broker ")]
    answer: Json = {
        "name": name,
        "items": [short(line) for line in lines],
        "brokers": [short(line) for line in brokers[-200:]],
        "total": len(lines),
        "faults": faults,
        "seen_from_outside": scene.picture.is_klamm is False,
        "is_there": name in scene.picture.topics,
    }
    if ask["at"] is not None:
        until = [x for x in lines if (x["controller_epoch"], x["sequence"]) <= ask["at"]]
        answer["at"] = place_text(until[-1]) if until else None
        answer["states"] = states_at(until)
    return answer


def machines(scene: Scene, _: Ask) -> Json:
    """The three machines with the places at which they are drawn."""
    return {"items": [placed(machine) for machine in scene.picture.machines]}


_LIMIT: Final = Param(
    name="limit", about="lines", kind="number", default=2_000, least=1, most=_STORY_MAX
)

VIEWS: Final = (
    View(
        name="story",
        title="Story",
        path="/topics/{topic}/story",
        build=story,
        twin=lambda ask: twins.command("story", names=(ask["topic"],)),
        params=(
            TOPIC,
            _LIMIT,
            Param(name="at", about="a place in the ledger, such as 14.2031", kind="place"),
        ),
        live=False,
        about="Every decision about a topic, in order, each with its cause.",
    ),
    View(
        name="machines",
        title="State machines",
        path="/machines",
        build=machines,
        twin=no_twin,
        page=False,
        about="The three state machines: states, legal transitions, where they are drawn.",
    ),
)
