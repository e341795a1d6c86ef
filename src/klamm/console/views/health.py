"""Health: whether the cluster is well, and if not, what to do."""

from __future__ import annotations

from typing import Any, Final

from klamm.console.params import Param
from klamm.console.reading.picture import Topic, illness
from klamm.console.scene import Ask, Json, Scene, View, no_twin
from klamm.console.showing import remedies, twins

_LAST: Final = 8
_ILLS_MAX: Final = 50
_SQUARES_MAX: Final = 20_000  # partitions that the overview draws

_AWAY: Final = ("down", "out of the controller's reach")


def health(scene: Scene, _: Ask) -> Json:
    """The values of the page."""
    picture = scene.picture
    topics = list(scene.topics())
    living = [topic for topic in topics if not topic.is_doomed]
    ills = [wait for wait in waiting(scene) if wait["severity"] == "bad" or wait["what"]]
    away = [b for b in picture.brokers if b["presence"] in _AWAY]
    counts = _counts(scene, living)
    return {
        "known": picture.is_klamm is not None,
        "well": picture.is_klamm is not None and not ills and not any(c["ill"] for c in counts),
        "sentence": _sentence(scene, counts, away),
        "checked": (
            f"{len(picture.brokers):,} brokers, {len(topics):,} topics, "
            f"{sum(len(t.partitions) for t in topics):,} partitions"
        ),
        "controller": _controller(picture.status),
        "brokers": [_broker(broker, picture.status) for broker in picture.brokers],
        "counts": counts,
        "ills": ills[:_ILLS_MAX],
        "ills_count": len(ills),
        "last": [short(line) for _, line in zip(range(_LAST), scene.lines(), strict=False)],
        "illegal": [short(line) for line in list(picture.illegal)[-3:]],
    }


def waiting(scene: Scene) -> list[Json]:
    """All waits that this viewer may know of."""
    told = (w for w in scene.picture.waits if scene.may_know(w["topic"]))
    return remedies.grouped(told)


def _controller(status: dict[str, Any]) -> Json | None:
    if status.get("controller") is None or status["controller"] < 0:
        return None
    return {
        "id": status["controller"],
        "epoch": status["controller_epoch"],
        "since_ms": status["controller_since_ms"],
    }


def _broker(broker: dict[str, Any], status: dict[str, Any]) -> Json:
    return {
        "id": broker["id"],
        "presence": broker["presence"],
        "state": "good" if broker["presence"] == "up" else "bad",
        "since_ms": broker["since_ms"],
        "controller": broker["id"] == status.get("controller"),
        "leads": broker["leads"],
        "replicas": broker["replicas"],
    }


def _counts(scene: Scene, living: list[Topic]) -> list[Json]:
    status = scene.picture.status
    offline = sum(t.offline_count for t in living)
    short_of = sum(t.short_count for t in living)
    halted = sum(t.state == "halted" for t in scene.topics())
    rows: list[tuple[str, str, int | None, bool]] = [
        ("offline", "offline partitions", offline, True),
        ("below", "below min.insync.replicas", _count(status, "below_min_isr"), True),
        ("short", "under-replicated", short_of, True),
        ("halted", "halted deletions", halted, True),
        ("moves", "moves", _count(status, "moves"), False),
        ("refused", "refused orders", _count(status, "refused"), True),
        ("frozen", "frozen topics", _count(status, "frozen"), False),
        ("illegal", "illegal moves", len(scene.picture.illegal), True),
    ]
    return [
        {"id": id, "label": label, "count": count, "ill": bool(count) and is_ill}
        for id, label, count, is_ill in rows
    ]


def _count(status: dict[str, Any], name: str) -> int | None:
    found = status.get(name)
    return None if found is None else found["count"]


def _sentence(scene: Scene, counts: list[Json], away: list[dict[str, Any]]) -> str:
    picture = scene.picture
    if picture.is_klamm is None:
        return "No broker has answered yet."
    if _controller(picture.status) is None:
        return "There is no controller: elections and changes wait."
    found = [f"{count['count']:,} {count['label']}" for count in counts if count["ill"]]
    if away:
        ids = ", ".join(str(broker["id"]) for broker in away)
        found.insert(0, f"broker {ids} away" if len(away) == 1 else f"brokers {ids} away")
    return f"Healthy, except: {', '.join(found)}." if found else "Healthy."


def short(line: Json) -> Json:
    """A line of the ledger, as a list shows it."""
    return {
        "id": line["id"],
        "time_ms": line["time_ms"],
        "topic": line["topic"],
        "subject": line["subject"],
        "before": line["before"],
        "after": line["after"],
        "cause": line["cause"],
        "why": line["why"],
        "by": line.get("by", ""),
        "illegal": line.get("illegal"),
    }


def squares(scene: Scene, _: Ask) -> Json:
    """One letter a partition, one row a topic, the ill ones first."""
    found = sorted(scene.topics(), key=lambda t: (illness(t), t.internal, t.name))
    items: list[Json] = []
    count = 0
    for topic in found:
        count += len(topic.partitions)
        if count > _SQUARES_MAX and items:
            break
        items.append({"id": topic.name, "squares": topic.squares})
    return {"items": items, "total": len(found)}


def waits(scene: Scene, ask: Ask) -> Json:
    """Every wait in the cluster, the oldest first."""
    found = waiting(scene)
    if ask["broker"] is not None:
        found = [wait for wait in found if wait["broker"] == ask["broker"]]
    return {
        "items": found[: ask["limit"]],
        "total": len(found),
        "checked": f"{sum(1 for _ in scene.topics()):,} topics",
        "derived": scene.picture.is_klamm is False,
    }


VIEWS: Final = (
    View(
        name="health",
        title="Health",
        path="/",
        build=health,
        twin=lambda _: twins.command("status"),
        about="Whether the cluster is well, and what to do where it is not.",
    ),
    View(
        name="waits",
        title="Why is it stuck",
        bar="Waits",
        path="/waits",
        build=waits,
        twin=lambda _: twins.command("topics", "explain", "--all"),
        params=(
            Param(name="broker", about="only waits for this broker", kind="number", most=2**31 - 1),
            Param(name="limit", about="rows", kind="number", default=100, least=1, most=500),
        ),
        about="Every wait in the cluster: for whom, since when, until when.",
    ),
    View(
        name="squares",
        title="Every partition",
        path="/squares",
        build=squares,
        twin=no_twin,
        page=False,
        about="One letter a partition, one item a topic, the ill ones first.",
    ),
)
