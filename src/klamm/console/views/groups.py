"""Groups: who reads, where they stand, how far behind they are."""

from __future__ import annotations

from typing import Any, Final

from klamm.console.params import Param
from klamm.console.problems import Problem
from klamm.console.scene import Ask, Json, Scene, View
from klamm.console.showing import twins

_LIMIT: Final = Param(name="limit", about="rows", kind="number", default=100, least=1, most=500)


def groups(scene: Scene, ask: Ask) -> Json:
    """The list, the most behind first."""
    wanted = (ask["q"] or "").lower()
    found = [_row(name, group) for name, group in scene.groups() if wanted in name.lower()]
    found.sort(key=lambda row: (-(row["lag"] or 0), row["name"]))
    return {"items": found[: ask["limit"]], "total": len(found)}


def _row(name: str, group: dict[str, Any]) -> Json:
    lags = [row["lag"] for row in group.get("offsets", ()) if row["lag"] is not None]
    topics = sorted({row["topic"] for row in group.get("offsets", ())})
    return {
        "id": name,
        "name": name,
        "shown": name if name.strip() else "(a name of spaces, or none)",
        "state": group.get("state"),
        "type": group.get("type"),
        "members": len(group["members"]) if "members" in group else None,
        "lag": sum(lags) if lags else None,
        "topics": ", ".join(topics[:4]) + (" ..." if len(topics) > 4 else ""),
        "error": group.get("error"),
    }


def group(scene: Scene, ask: Ask) -> Json:
    """One group: members, and where it stands in each partition."""
    name = ask["id"] or ""
    found = next((known for id, known in scene.groups() if id == name), None)
    if found is None:
        raise Problem(404, f"there is no group {name!r}")
    rows = found.get("offsets", [])
    return {
        **_row(name, found),
        "members_list": [
            {
                "id": member["member_id"],
                "client": member["client_id"],
                "host": member["client_host"],
            }
            for member in found.get("members", ())
        ],
        "rows": [row for row in rows if scene.may_know(row["topic"])][: ask["limit"]],
        "topics_list": sorted({row["topic"] for row in rows}),
    }


VIEWS: Final = (
    View(
        name="groups",
        title="Groups",
        path="/groups",
        build=groups,
        twin=lambda _: twins.command("groups", "list"),
        params=(Param(name="q", about="part of a name"), _LIMIT),
        about="All consumer groups, the most behind first.",
    ),
    View(
        name="group",
        title="Group",
        path="/group",
        build=group,
        twin=lambda ask: twins.command("groups", "describe", names=(ask["id"] or "",)),
        params=(Param(name="id", about="the group's name", default=""), _LIMIT),
        about="One group: its members, and where it stands in each partition.",
    ),
)
