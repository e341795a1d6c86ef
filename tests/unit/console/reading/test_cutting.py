"""What a viewer may not know of leaves no trace in any view, nor in what is counted."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, cast

import pytest

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")

from klamm.client.aio.admin import Admin
from klamm.console.access.roles import Role
from klamm.console.params import parsed
from klamm.console.reading import progress
from klamm.console.reading.cutting import cut
from klamm.console.reading.picture import Offsets, Partition, Picture, pictured
from klamm.console.scene import Scene
from klamm.console.views.table import VIEWS

MINE, THEIRS = "mine", "secret-topic"


def line(topic: str, number: int) -> dict[str, Any]:
    words = {"before": "a", "after": "absent", "cause": "x", "why": "", "illegal": "bad"}
    return {"id": f"1.{number}", "topic": topic, "subject": f"topic {topic}", "time_ms": 1, **words}


def picture(*names: str) -> Picture:
    """A cluster with these topics, each with one of everything that is told of topics."""
    made = Picture(rev=1, is_klamm=True, place=(1, 9))
    for number, name in enumerate(names):
        partition = Partition(
            index=0,
            state="Online",
            leader=1,
            leader_epoch=0,
            isr=(1,),
            replicas=(1, 2),
            replica_states=("Online", "Offline"),
        )
        made.topics[name] = pictured(name, "id", "created", [partition], internal=False)
        made.lines.append(line(name, number))
        made.illegal.append(line(name, number))
        made.offsets[name, 0] = Offsets(0, 100)
        made.sizes[name, 0, 1] = 1000
        wait = {"what": "replication", "partition": 0, "broker": 2, "why": "broker is down"}
        wait |= {"until": "", "since_ms": 1, "since_at_least": False}
        made.waits.append({"topic": name, "waiting": [wait]})
        made.groups[f"g-{name}"] = _group(name)
    made.groups["both"] = _group(*names)
    made.status = status(*names)
    made.copied = progress.followed({}, made.status["moves"]["items"], made.sizes, 0)
    return made


def _group(*topics: str) -> dict[str, Any]:
    rows = [{"id": f"{t}-0", "topic": t, "partition": 0, "lag": 10} for t in topics]
    return {"state": "Empty", "type": "classic", "members": [], "offsets": rows}


def status(*names: str) -> dict[str, Any]:
    def items(form: Any) -> dict[str, Any]:
        return {"count": len(names), "items": [form(name) for name in names]}

    ids = {"address": "h:1", "rack": None, "since_ms": None}
    counts = {"leads": len(names), "replicas": len(names)}
    odd = {"offline_logs": None, "refused_orders": None}
    brokers = [{"id": n, "presence": "up", **ids, **counts, **odd} for n in (1, 2)]
    brokers[1] |= {"presence": "down", "leads": 0}
    move = {"adding": [2], "removing": [], "caught_up": [], "since_ms": 1}
    return {
        "controller": 1,
        "controller_epoch": 1,
        "controller_since_ms": 1,
        "topics": len(names),
        "partitions": len(names),
        "brokers": brokers,
        "below_min_isr": items(lambda name: f"{name}-0"),
        "frozen": items(str),
        "deletions": items(lambda name: {"topic": name}),
        "moves": items(lambda name: {"partition": f"{name}-0", **move}),
        "refused": items(lambda name: {"broker": 1, "partition": f"{name}-0"}),
    }


def told(picture: Picture, topics: frozenset[str] | None = None) -> dict[str, Any]:
    groups = None if topics is None else frozenset(picture.groups)
    scene = Scene(
        picture=picture,
        role=Role.ADMIN,
        admin=cast(Admin, None),
        visible=topics,
        visible_groups=groups,
    )
    given: Mapping[str, str] = {"topic": MINE, "broker": "1"}
    return {
        view.name: view.build(scene, parsed(view.params, given, {"id": "both"}))
        for view in VIEWS
        if view.live and view.name not in ("jobs", "job")
    }


def test_a_cut_picture_is_that_of_a_cluster_without_the_others() -> None:
    topics, groups = frozenset({MINE}), frozenset({f"g-{MINE}", "both"})
    whole = picture(MINE, THEIRS)
    found = cut(whole, topics, groups)
    assert told(found, topics) == told(picture(MINE))
    assert THEIRS not in json.dumps(told(found, topics))
    assert THEIRS in json.dumps(told(whole)), "else nothing was to be cut"
    assert found.illegal.maxlen == whole.illegal.maxlen
    assert isinstance(found.lines, deque)


def test_the_progress_of_a_move_and_that_it_stalls() -> None:
    moves = [{"partition": "a-b-0", "adding": [2, 3]}]
    sizes = {("a-b", 0, 1): 1000, ("a-b", 0, 2): 200, ("a", 0, 1): 5}
    first = progress.followed({}, moves, sizes, 0)
    assert (first["a-b-0"].there, first["a-b-0"].wanted, first["a-b-0"].rate) == (200, 2000, None)
    later = progress.followed(first, moves, sizes | {("a-b", 0, 2): 700}, 5_000)["a-b-0"]
    assert (later.rate, later.is_stalled(64_999), later.is_stalled(65_000)) == (100.0, False, True)
    again = progress.followed({"a-b-0": later}, moves, sizes | {("a-b", 0, 2): 700}, 10_000)
    assert (again["a-b-0"].grew_ms, again["a-b-0"].rate) == (5_000, 0.0)
    whole = sizes | {("a-b", 0, 2): 1000, ("a-b", 0, 3): 1000}
    assert not progress.followed(again, moves, whole, 20_000)["a-b-0"].is_stalled(10**9)
    assert progress.followed(again, [], sizes, 20_000) == {}
