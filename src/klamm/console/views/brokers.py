"""Brokers: what each holds; leaders in and out of place; moves under way; what if one goes."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

from klamm.client.aio.admin import ConfigResource
from klamm.client.errors import refuse
from klamm.console.params import Param
from klamm.console.problems import Problem
from klamm.console.processes import VERBS
from klamm.console.reading.picture import Partition
from klamm.console.scene import Ask, Json, Scene, View
from klamm.console.showing import twins
from klamm.model.alterations import ConfigResourceType

_ROWS: Final = 500
_MIN_ISR: Final = "min.insync.replicas"
_SOURCES: Final = {
    1: "topic",
    2: "this broker",
    3: "all brokers",
    4: "start",
    5: "default",
}


def brokers(scene: Scene, _: Ask) -> Json:
    """Every broker that is there, or that an assignment names."""
    wanted = _wanted(scene)
    return {
        "items": [_row(scene, broker, wanted) for broker in scene.picture.brokers],
        "operated": scene.tools.processes is not None,
    }


def _wanted(scene: Scene) -> Counter[int]:
    return Counter(p.replicas[0] for t in scene.topics() for p in t.partitions if p.replicas)


def _row(scene: Scene, broker: dict[str, Any], wanted: Counter[int]) -> Json:
    picture = scene.picture
    id = broker["id"]
    dirs = picture.dirs.get(id, [])
    totals = [each["total_bytes"] for each in dirs if each["total_bytes"] is not None]
    return {
        "id": id,
        "address": broker["address"],
        "rack": broker["rack"],
        "presence": broker["presence"],
        "state": "good" if broker["presence"] == "up" else "bad",
        "since_ms": broker["since_ms"],
        "controller": id == picture.status.get("controller"),
        "leads": broker["leads"],
        "wanted": wanted[id],
        "replicas": broker["replicas"],
        "bytes": sum(each["bytes"] or 0 for each in dirs) if _is_known(dirs) else None,
        "disk_bytes": max(totals) if totals else None,
        "offline_logs": broker["offline_logs"],
        "refused_orders": broker["refused_orders"],
        **_process(scene, id),
    }


def _is_known(dirs: list[dict[str, Any]]) -> bool:
    return bool(dirs) and all(each["bytes"] is not None for each in dirs)


def _process(scene: Scene, id: int) -> Json:
    """The process of a broker on this machine, and what can be done to it."""
    state = scene.picture.processes.get(id)
    return {
        "process": state,
        "verbs": [
            {
                "id": verb,
                "label": verb.capitalize(),
                "deed": {"kind": f"{verb}-broker", "broker": id},
            }
            for verb, states in VERBS.items()
            if state in states
        ],
    }


async def broker(scene: Scene, ask: Ask) -> Json:
    """One broker: directories, and settings by where they come from."""
    id = ask["broker"]
    found = next((each for each in scene.picture.brokers if each["id"] == id), None)
    if found is None:
        raise Problem(404, f"there is no broker {id}")
    settings: list[Json] = []
    if found["presence"] == "up":
        resource = ConfigResource(ConfigResourceType.BROKER, str(id))
        settings = await settings_of(scene, resource)
    return {
        **_row(scene, found, _wanted(scene)),
        "dirs": [{"id": each["path"], **each} for each in scene.picture.dirs.get(id, [])],
        "settings": settings,
    }


async def settings_of(scene: Scene, resource: ConfigResource) -> list[Json]:
    """Settings, those that somebody chose first; sensitive values are not told."""
    results = await scene.admin.describe_configs([resource], synonyms=True, documentation=True)
    for result in results:
        refuse(result.error_code, resource.name, result.error_message)
    rows = [
        {
            "id": entry.name,
            "name": entry.name,
            "value": "hidden" if entry.is_sensitive else entry.value,
            "source": _SOURCES.get(entry.config_source, str(entry.config_source)),
            "default": next((s.value for s in entry.synonyms if s.source == 5), None),
            "about": entry.documentation or "",
            "is_default": entry.config_source == 5,
        }
        for result in results
        for entry in result.configs
    ]
    return sorted(rows, key=lambda row: (row["is_default"], row["source"], row["name"]))


def elections(scene: Scene, _: Ask) -> Json:
    """Leaders per broker, wanted against actual, and every partition led by another."""
    wanted = _wanted(scene)
    live = scene.picture.live
    rows = [
        _misplaced(t.name, p, live)
        for t in scene.topics()
        if not t.is_doomed
        for p in t.partitions
        if p.replicas and p.leader != p.replicas[0]
    ]
    most = max([*wanted.values(), *(b["leads"] for b in scene.picture.brokers), 1])
    return {
        "brokers": [
            {
                "id": b["id"],
                "presence": b["presence"],
                "leads": b["leads"],
                "wanted": wanted[b["id"]],
                "most": most,
            }
            for b in scene.picture.brokers
        ],
        "items": rows[:_ROWS],
        "total": len(rows),
        "ready": sum(row["ready"] for row in rows),
    }


def _misplaced(topic: str, p: Partition, live: frozenset[int]) -> Json:
    first = p.replicas[0]
    if p.leader < 0:
        why = "no in-sync replica is up"
    elif first not in live:
        why = f"broker {first} is away"
    elif first not in p.isr:
        why = f"broker {first} is not in sync"
    else:
        why = "nobody asked for an election yet"
    name = f"{topic}-{p.index}"
    return {
        "id": name,
        "partition": name,
        "topic": topic,
        "leader": p.leader if p.leader >= 0 else None,
        "wanted": first,
        "why": why,
        "ready": first in live and first in p.isr,
    }


def moves(scene: Scene, ask: Ask) -> Json:
    """Moves under way, and the plan of others where topics and brokers are named."""
    found = scene.picture.status.get("moves", {}).get("items", [])
    running = []
    for move in found:
        topic = move["partition"].rpartition("-")[0]
        if scene.may_know(topic):
            running.append(_move(scene, move, topic))
    return {
        "items": running,
        "total": len(running),
        "brokers": [b["id"] for b in scene.picture.brokers],
        "planned": _spread(scene, ask),
        "limits": [
            {"id": broker, "rate": rate} for broker, rate in sorted(scene.picture.limits.items())
        ],
    }


def _move(scene: Scene, move: dict[str, Any], topic: str) -> Json:
    known = scene.picture.copied.get(move["partition"])
    left = known.wanted - known.there if known else 0
    return {
        "id": move["partition"],
        "partition": move["partition"],
        "topic": topic,
        "adding": ", ".join(map(str, move["adding"])) or "none",
        "removing": ", ".join(map(str, move["removing"])) or "none",
        "caught_up": len(move["caught_up"]),
        "wanted": len(move["adding"]),
        "since_ms": move["since_ms"],
        "share": min(1.0, known.there / known.wanted) if known and known.wanted else None,
        "rate": known.rate if known else None,
        "left_s": round(left / known.rate) if known and known.rate and left > 0 else None,
        "stalled": bool(known and known.is_stalled(time.time_ns() // 1_000_000)),
        "deed": {"kind": "cancel-move", "partitions": [move["partition"]]},
    }


def _spread(scene: Scene, ask: Ask) -> Json | None:
    """Replicas of the named topics onto the named brokers; what is well placed stays."""
    names = [name for name in (ask["topics"] or "").replace(",", " ").split() if name]
    if not names:
        return None
    onto = [int(id) for id in (ask["onto"] or "").replace(",", " ").split() if id.isdecimal()]
    onto = onto or sorted(scene.picture.live)
    rows = []
    load: Counter[int] = Counter()
    for name in names[:50]:
        for p in scene.topic(name).partitions:
            factor = min(ask["factor"] or len(p.origin), len(onto))
            kept = [b for b in p.origin if b in onto][:factor]
            rest = sorted((b for b in onto if b not in kept), key=lambda b: (load[b], b))
            chosen = [*kept, *rest[: factor - len(kept)]]
            load.update(chosen)
            if tuple(chosen) != p.origin:
                rows.append((f"{name}-{p.index}", p.origin, chosen))
    return {
        "items": [
            {"id": n, "before": ", ".join(map(str, a)), "after": ", ".join(map(str, b))}
            for n, a, b in rows[:200]
        ],
        "total": len(rows),
        "deed": {
            "kind": "move",
            "moves": [f"{n}={'+'.join(map(str, b))}" for n, _, b in rows[:1_000]],
        },
    }


async def what_if(scene: Scene, ask: Ask) -> Json:
    """The partitions that would change if brokers went: new leaders, offline, refusing writes."""
    lost = {int(id) for id in (ask["lose"] or "").replace(",", " ").split() if id.isdecimal()}
    live = scene.picture.live - lost
    least = await _least_in_sync(scene) if lost else {}
    rows: list[Json] = []
    counts: Counter[str] = Counter()
    for topic in scene.topics():
        for p in topic.partitions if not topic.is_doomed else ():
            if not lost.intersection(p.isr) and p.leader not in lost:
                continue
            isr = [b for b in p.isr if b not in lost]
            leader = p.leader
            if leader not in live:
                leader = next((b for b in p.replicas if b in isr and b in live), -1)
            kind = _outcome(p, leader, isr, least.get(topic.name, 1))
            counts[kind] += 1
            counts["leaders move"] += leader not in (p.leader, -1)
            rows.append(_after(topic.name, p, leader, isr, kind))
    rank = {"offline": 0, "below min.insync.replicas": 1, "led by another": 2}
    rows.sort(key=lambda row: (rank.get(row["kind"], 3), row["id"]))
    controller = scene.picture.status.get("controller")
    return {
        "brokers": [
            {"id": b["id"], "presence": b["presence"], "lost": b["id"] in lost}
            for b in scene.picture.brokers
        ],
        "lost": sorted(lost),
        "offline": counts["offline"],
        "below": counts["below min.insync.replicas"],
        "leaders": counts["leaders move"],
        "controller": None if controller in lost else controller,
        "items": rows[:_ROWS],
        "total": len(rows),
        "test": _test(lost),
    }


def _outcome(p: Partition, leader: int, isr: list[int], least: int) -> str:
    if leader < 0:
        return "offline"
    if len(isr) < least:
        return "below min.insync.replicas"
    return "led by another" if leader != p.leader else "fewer in sync"


def _after(topic: str, p: Partition, leader: int, isr: list[int], kind: str) -> Json:
    return {
        "id": f"{topic}-{p.index}",
        "topic": topic,
        "kind": kind,
        "leader_before": p.leader if p.leader >= 0 else None,
        "leader_after": leader if leader >= 0 else None,
        "isr_before": ", ".join(map(str, p.isr)),
        "isr_after": ", ".join(map(str, isr)) or "none",
    }


async def _least_in_sync(scene: Scene) -> dict[str, int]:
    names = [topic.name for topic in scene.topics()][:1_000]
    asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    found = {}
    for result in await scene.admin.describe_configs(asked, names=[_MIN_ISR]):
        for entry in result.configs:
            if entry.name == _MIN_ISR and entry.value and entry.value.isdecimal():
                found[result.resource_name] = int(entry.value)
    return found


def _test(lost: set[int]) -> str:
    kills = "\n".join(f"    klamm_cluster.kill_broker({id})" for id in sorted(lost))
    return f"def test_it(klamm_cluster):\n    ...\n{kills}\n    ..." if lost else ""


BROKER: Final = Param(
    name="broker", about="a broker's id", kind="number", most=2**31 - 1, in_path=True
)

VIEWS: Final = (
    View(
        name="brokers",
        title="Brokers",
        path="/brokers",
        build=brokers,
        twin=lambda _: twins.command("brokers", "list"),
        about="Every broker: presence, leaders, replicas, disks.",
    ),
    View(
        name="broker",
        title="Broker",
        path="/brokers/{broker}",
        build=broker,
        twin=lambda ask: twins.command("brokers", "describe", ask["broker"]),
        params=(BROKER,),
        live=False,
        about="One broker: its directories and its settings.",
    ),
    View(
        name="moves",
        title="Moves",
        path="/moves",
        build=moves,
        twin=lambda _: twins.command("reassign", "status"),
        params=(
            Param(name="topics", about="topics to move"),
            Param(name="onto", about="brokers to move them to; all that are up"),
            Param(name="factor", about="copies", kind="number", least=1, most=100),
        ),
        about="Moves under way; with topics, the moves that would spread them over brokers.",
    ),
    View(
        name="elections",
        title="Elections",
        path="/elections",
        build=elections,
        twin=lambda _: twins.command("elect", "preferred", "--all", "--dry-run"),
        about="Leaders per broker, and every partition that is led by another than it should.",
    ),
    View(
        name="what-if",
        title="What if",
        path="/what-if",
        build=what_if,
        twin=lambda _: "",
        params=(Param(name="lose", about="brokers that would go, such as 2 or 1,2"),),
        live=False,
        about="What would follow if brokers went. Nothing is changed. Derived from the metadata.",
    ),
)
