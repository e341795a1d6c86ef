"""The ledger: every decision of the controllers, searchable; and deletions on their way."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, Final

from klamm.console.params import Param
from klamm.console.scene import Ask, Json, Scene, View
from klamm.console.showing import twins
from klamm.console.views.health import short

_DONE: Final = 20
_EXPORT_MAX: Final = 10_000_000


def ledger(scene: Scene, ask: Ask) -> Json:
    """Lines that fit, the newest first."""
    found = (line for line in scene.lines() if _fits(line, ask))
    page = list(islice(found, ask["limit"] + 1))
    causes = sorted({line["cause"] for line in scene.lines()})
    return {
        "items": [short(line) for line in page[: ask["limit"]]],
        "more": len(page) > ask["limit"],
        "kept": len(scene.picture.lines),
        "causes": causes,
        "derived": scene.picture.is_klamm is False,
    }


def exported(scene: Scene, ask: Ask) -> str:
    """All lines that fit as JSON lines, the oldest first, up to a bound."""
    found: list[str] = []
    left = _EXPORT_MAX
    for line in scene.lines():
        if _fits(line, ask):
            text = json.dumps(short(line), separators=(",", ":"))
            left -= len(text) + 1
            if left < 0:
                break
            found.append(text)
    return "".join(f"{text}\n" for text in reversed(found))


def _fits(line: dict[str, Any], ask: Ask) -> bool:
    subject = line["subject"]
    if ask["topic"] and line["topic"] != ask["topic"]:
        return False
    if ask["cause"] and line["cause"] != ask["cause"]:
        return False
    if ask["illegal"] and not line.get("illegal"):
        return False
    if ask["broker"] is not None and not (
        subject.endswith(f" on broker {ask['broker']}") or subject == f"broker {ask['broker']}"
    ):
        return False
    if ask["who"] and ask["who"].lower() not in str(line.get("by", "")).lower():
        return False
    if ask["since"] is not None and line["time_ms"] < ask["since"]:
        return False
    wanted = (ask["q"] or "").lower()
    return not wanted or any(
        wanted in str(line[name]).lower() for name in ("subject", "before", "after", "why", "cause")
    )


def deletions(scene: Scene, _: Ask) -> Json:
    """The topics that are going, how far they are, and those that have gone lately."""
    status = {d["topic"]: d for d in scene.picture.status.get("deletions", {}).get("items", ())}
    going = []
    for topic in scene.topics():
        if not topic.is_doomed:
            continue
        states = [state for p in topic.partitions for state in p.replica_states]
        gone = sum(state in ("DeletionSuccessful", "NonExistent") for state in states)
        told = status.get(topic.name, {})
        waits_for = told.get("waits_for", [])
        going.append(
            {
                "id": topic.name,
                "name": topic.name,
                "state": topic.state,
                "since_ms": told.get("since_ms"),
                "confirmed": gone,
                "replicas": len(states),
                "share": gone / len(states) if states else None,
                "bytes": scene.picture.size(topic),
                "why": told.get("why_halted") or "",
                "ways": [_forget(topic.name, broker) for broker in waits_for]
                + [_call_off(topic.name)],
            }
        )
    done = [
        short(line)
        for line in scene.lines()
        if line["after"] == "absent" and line["subject"].startswith("topic ")
    ]
    return {
        "going": sorted(going, key=lambda row: (row["since_ms"] or 0, row["name"])),
        "done": done[:_DONE],
        "bin": "This cluster keeps no bin: what is deleted is gone.",
        "derived": scene.picture.is_klamm is False,
    }


def _forget(topic: str, broker: int) -> Json:
    return {
        "id": f"forget-{broker}",
        "label": f"Forget broker {broker}'s copy",
        "deed": {"kind": "forget", "topic": topic, "broker": broker},
        "twin": twins.command("topics", "delete", "--forget-broker", broker, names=(topic,)),
    }


def _call_off(topic: str) -> Json:
    return {
        "id": "call-off",
        "label": "Call off",
        "deed": {"kind": "call-off", "topic": topic},
        "twin": twins.command("topics", "cancel-delete", names=(topic,)),
    }


VIEWS: Final = (
    View(
        name="deletions",
        title="Deletions",
        path="/deletions",
        build=deletions,
        twin=lambda _: twins.command("topics", "list", "--deleting"),
        about="Topics on their way out: how far they are, and what they wait for.",
    ),
    View(
        name="ledger",
        title="Ledger",
        path="/ledger",
        build=ledger,
        twin=lambda ask: twins.command("story", names=(ask["topic"],)) if ask["topic"] else "",
        params=(
            Param(name="q", about="part of a subject, state, cause or reason"),
            Param(name="topic", about="only this topic"),
            Param(name="broker", about="only this broker", kind="number", most=2**31 - 1),
            Param(name="cause", about="only this cause"),
            Param(name="who", about="part of who asked"),
            Param(name="since", about="from this time on, in ms", kind="number"),
            Param(name="illegal", about="illegal moves only", kind="flag", default=False),
            Param(name="limit", about="rows", kind="number", default=100, least=1, most=500),
        ),
        about="Decisions of the controllers, the newest first.",
    ),
)
