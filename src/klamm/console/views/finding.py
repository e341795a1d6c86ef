"""Finding: views, topics, groups, brokers and actions by a part of their name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final
from urllib.parse import quote

from klamm.console.deeds.doing import DEEDS
from klamm.console.params import Param
from klamm.console.scene import Ask, Json, Scene, View, no_twin

_EACH: Final = 8  # of one kind


def finder(views: Iterable[View]) -> View:
    """The view that finds others: it is made from the table that they stand in."""
    pages = [view for view in views if view.page and "{" not in view.path and view.path != "/group"]

    def find(scene: Scene, ask: Ask) -> Json:
        """Finds by letters of a name, those that begin with them first."""
        wanted = (ask["q"] or "").strip().casefold()
        kinds = (_pages(pages), _actions(scene), _topics(scene), _groups(scene), _brokers(scene))
        return {"items": [item for kind in kinds for item in _best(kind, wanted)]}

    return View(
        name="find",
        title="Find",
        path="/find",
        build=find,
        twin=no_twin,
        params=(Param(name="q", about="part of a name"),),
        live=False,
        page=False,
        about="Views, actions, topics, groups and brokers whose name has these letters.",
    )


def _best(items: Iterator[Json], wanted: str) -> Iterator[Json]:
    fitting = [item for item in items if wanted in item["name"].casefold()]
    fitting.sort(key=lambda item: not item["name"].casefold().startswith(wanted))
    return islice(fitting, _EACH)


def _item(kind: str, name: str, address: str | None, deed: Json | None = None) -> Json:
    return {"id": f"{kind} {name}", "kind": kind, "name": name, "address": address, "deed": deed}


def _pages(views: Iterable[View]) -> Iterator[Json]:
    for view in views:
        yield _item("view", view.bar or view.title, view.path)


def _actions(scene: Scene) -> Iterator[Json]:
    for deed in DEEDS.values():
        if scene.role >= deed.role:
            yield _item("action", deed.title, None, {"kind": deed.kind})


def _topics(scene: Scene) -> Iterator[Json]:
    for topic in scene.topics():
        yield _item("topic", topic.name, f"/topics/{quote(topic.name, safe='')}")


def _groups(scene: Scene) -> Iterator[Json]:
    for name, _ in scene.groups():
        yield _item("group", name, f"/group?id={quote(name, safe='')}")


def _brokers(scene: Scene) -> Iterator[Json]:
    for broker in scene.picture.brokers:
        yield _item("broker", f"broker {broker['id']}", f"/brokers/{broker['id']}")
