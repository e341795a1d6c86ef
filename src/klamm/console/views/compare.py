"""Compare: two clusters, or two moments of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.console.params import Param
from klamm.console.problems import Problem
from klamm.console.reading.moments import Shape, compared, shaped
from klamm.console.reading.settings import TOPICS_MAX, overrides
from klamm.console.scene import Ask, Json, Scene, View
from klamm.console.showing import twins
from klamm.model.errors import KlammError

_NOW: Final = "now"
_MOMENT: Final = "moment:"
_ROWS: Final = 500


async def compare(scene: Scene, ask: Ask) -> Json:
    """The differences of two pictures, and commands that would make the second like the first."""
    sides = _sides(scene)
    chosen = {side["id"] for side in sides}
    a, b = ask["a"] or _NOW, ask["b"] or ""
    for name, side in (("a", a), ("b", b)):
        if side and side not in chosen:
            fields = [{"field": name, "message": "is none of those that can be compared"}]
            raise Problem(404, f"{name}: there is no cluster or moment {side!r}", fields=fields)
    answer: Json = {"sides": sides, "a": a, "b": b, "items": [], "total": 0, "same": 0}
    answer |= {"counts": {}, "faults": [], "across": False}
    if not b:
        return answer
    faults: list[str] = []
    across = _cluster_of(a) != _cluster_of(b)
    found = compared(
        await _shapes(scene, a, faults), await _shapes(scene, b, faults), across=across
    )
    return answer | {
        "items": found["rows"][:_ROWS],
        "total": len(found["rows"]),
        "same": found["same"],
        "counts": found["counts"],
        "faults": faults,
        "across": across,
    }


def _cluster_of(side: str) -> str:
    return "" if side == _NOW or side.startswith(_MOMENT) else side


def _sides(scene: Scene) -> list[Json]:
    """All that can be compared."""
    return [
        {"id": _NOW, "label": "this cluster, now", "at_ms": None},
        *(
            {"id": _MOMENT + m.name, "label": m.name, "at_ms": m.at_ms}
            for m in scene.tools.moments.all()
        ),
        *(
            {"id": f"@{alias}", "label": f"cluster {alias}, now", "at_ms": None}
            for alias in scene.others
        ),
    ]


async def _shapes(scene: Scene, side: str, faults: list[str]) -> Mapping[str, Shape]:
    """The topics of one side, as whoever looks may see them."""
    if side.startswith(_MOMENT):
        moment = scene.tools.moments.find(side.removeprefix(_MOMENT))
        assert moment is not None, "looked at above"
        return {name: shape for name, shape in moment.topics.items() if scene.may_know(name)}
    where = scene
    if side != _NOW:
        other = scene.others[side.removeprefix("@")]()
        if other is None:
            raise Problem(403, f"sign in to {side} first: /{side}/sign-in")
        where = other
    topics = list(where.topics())
    if where.picture.is_klamm is None:
        faults.append(f"{side}: no broker has answered yet")
    if len(topics) > TOPICS_MAX:
        faults.append(f"{side}: settings of {TOPICS_MAX:,} topics are compared, not of all")
    try:
        settings = await overrides(where.admin, [topic.name for topic in topics])
    except (KlammError, OSError) as fault:
        faults.append(f"{side}: settings are not compared: {fault}")
        return shaped(topics, None)
    return shaped(topics, settings)


VIEWS: Final = (
    View(
        name="compare",
        title="Compare",
        path="/compare",
        build=compare,
        twin=lambda _: twins.command("topics", "describe", "-o", "json"),
        params=(
            Param(name="a", about="now, moment:NAME, or @ALIAS of another cluster"),
            Param(name="b", about="the same, for the other side"),
        ),
        live=False,
        about="Two clusters or two moments: topics only here, only there, different.",
    ),
)
