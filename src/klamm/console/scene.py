"""The scene: the picture as one viewer may see it, and what a view is made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from klamm.client.aio.admin import Admin
from klamm.console.access.roles import Role
from klamm.console.params import Param
from klamm.console.problems import Problem
from klamm.console.reading.picture import Picture, Topic
from klamm.console.showing.masks import Masks
from klamm.console.showing.rendering import Decode
from klamm.console.tools import Tools

Json = dict[str, Any]
Ask = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The things one viewer may see; None for the topics or groups means all of them."""

    picture: Picture
    role: Role
    admin: Admin  # the cluster, as whoever looks
    visible: frozenset[str] | None = None
    visible_groups: frozenset[str] | None = None
    sees_records: bool = True
    decode: Decode | None = None  # Avro, where a registry is known
    masks: Masks = field(default_factory=Masks)
    tools: Tools = field(default_factory=Tools)
    # Other clusters of this console, by name, as the same viewer may see them; None: not signed in.
    others: Mapping[str, Callable[[], Scene | None]] = field(default_factory=dict)

    def topics(self) -> Iterator[Topic]:
        """Every topic that this viewer may know of."""
        for name, topic in self.picture.topics.items():
            if self.visible is None or name in self.visible:
                yield topic

    def may_know(self, topic: str) -> bool:
        """Whether this viewer may know that a topic exists."""
        return self.visible is None or topic in self.visible

    def topic(self, name: str) -> Topic:
        """One topic; what may not be known of is not there."""
        found = self.picture.topics.get(name)
        if found is None or not self.may_know(name):
            raise Problem(404, f"there is no topic {name!r}")
        return found

    def lines(self, topic: str | None = None) -> Iterator[Json]:
        """Lines of the ledger since the console began to look, the newest first."""
        for line in reversed(self.picture.lines):
            if topic is not None and line["topic"] != topic:
                continue
            if self.visible is None or line["topic"] in self.visible:
                yield line

    def groups(self) -> Iterator[tuple[str, Json]]:
        """Every group that this viewer may know of."""
        for name, group in self.picture.groups.items():
            if self.visible_groups is None or name in self.visible_groups:
                yield name, group


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One view: its addresses, its parameters, and how its values are made.

    What `build` returns is the page's content, the JSON twin and, where the view is live, what the
    stream sends the differences of.
    """

    name: str
    title: str
    path: str
    build: Callable[[Scene, Ask], Json | Awaitable[Json]]
    twin: Callable[[Ask], str]
    params: tuple[Param, ...] = ()
    live: bool = True
    page: bool = True  # False: only a JSON address
    secret: bool = False  # it shows records: nothing keeps it, and who looked is written down
    bar: str = ""  # its word in the bar, where that is another than its title
    about: str = ""

    @property
    def api(self) -> str:
        """The address of the JSON twin."""
        return "/api/health" if self.path == "/" else f"/api{self.path}"


def no_twin(_: Ask) -> str:
    """For views that the command line has nothing for."""
    return ""
