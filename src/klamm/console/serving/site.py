"""The site: all that requests are answered with, and who is asking."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from starlette.requests import Request

from klamm.client.aio.admin import Admin
from klamm.client.aio.groups import Groups
from klamm.console.access.accounts import Accounts
from klamm.console.access.audit import Audit
from klamm.console.access.roles import Role
from klamm.console.access.sessions import Session, Sessions
from klamm.console.deeds.doing import Remembered
from klamm.console.feed.stream import Hub
from klamm.console.options import Options
from klamm.console.problems import Problem
from klamm.console.reading import governor
from klamm.console.reading.cutting import cut
from klamm.console.reading.picture import Picture
from klamm.console.reading.reader import Reader
from klamm.console.scene import Json, Scene
from klamm.console.showing import pages
from klamm.console.tools import Tools
from klamm.console.views.health import short, waiting
from klamm.model.errors import KlammError

TOKEN_HEADER: Final = "x-klamm-token"
_CUT_S: Final = 300.0
_CUTS_MAX: Final = 64


@dataclass(slots=True)
class Site:
    """One console."""

    options: Options
    reader: Reader
    hub: Hub
    accounts: Accounts
    audit: Audit
    sessions: Sessions = field(default_factory=Sessions)
    remembered: Remembered = field(default_factory=Remembered)
    statics: dict[str, bytes] = field(default_factory=pages.static_files)
    templates: Any = None
    static_base: str = ""
    tools: Tools = field(default_factory=Tools)
    others: dict[str, Site] = field(default_factory=dict)  # other clusters of this console
    clusters: tuple[tuple[str, str], ...] = ()  # the names and addresses of all, for the bar
    reports: int = 0  # of the browser, that a page tried what it may not
    cuts: dict[tuple[frozenset[str], frozenset[str]], Picture] = field(default_factory=dict)
    pulses: dict[object, tuple[int, tuple[Json, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.static_base = f"{self.root}/static/{pages.digest(self.statics)}"
        self.templates = pages.environment(self.root)

    @property
    def root(self) -> str:
        """Stands before every address."""
        return self.options.root

    @property
    def picture(self) -> Picture:
        return self.reader.picture

    @property
    def cookie(self) -> str:
        """The name of the cookie; ports of one host share cookies, so it has the port in it."""
        prefix = "__Host-" if self.options.is_encrypted else ""
        alias = f"-{self.options.alias}" if self.options.alias else ""
        return f"{prefix}klamm-{self.options.port}{alias}"

    def session_of(self, request: Request) -> Session | None:
        """The session that a request belongs to."""
        return self.sessions.find(request.cookies.get(self.cookie))

    def role_of(self, session: Session | None) -> Role:
        """The role of whoever this is."""
        if session and session.user:
            return session.role
        return Role.VIEWER if self.accounts.is_secured else self.options.anonymous

    def admit(self, session: Session | None) -> None:
        """Raises 401 where one has to sign in before anything is shown."""
        if self.accounts.is_secured and (session is None or session.user is None):
            raise Problem(401, "sign in first: this cluster wants to know who you are")

    async def scene(self, session: Session | None, request: Request | None = None) -> Scene:
        """The picture as this viewer may see it."""
        self.admit(session)
        self.reader.look()
        if session is not None and session.client is not None:
            await self.cut(session)
        found = self.scene_now(session)
        if request is None or not self.others:
            return found
        others = {name: partial(other.scene_for, request) for name, other in self.others.items()}
        return replace(found, others=others)

    def scene_for(self, request: Request) -> Scene | None:
        """The same of another cluster; None for who has not signed in there."""
        session = self.session_of(request)
        try:
            self.admit(session)
        except Problem:
            return None
        self.reader.look()
        return self.scene_now(session)

    def scene_now(self, session: Session | None) -> Scene:
        """The same without asking the cluster what this viewer may see."""
        own = session.client if session else None
        unseen: frozenset[str] = frozenset()  # until the cluster has said what there is for a user
        hidden = unseen if own is not None else None
        visible = hidden if session is None or session.topics is None else session.topics
        groups = hidden if session is None or session.groups is None else session.groups
        return Scene(
            picture=self._cut_picture(visible, groups),
            role=self.role_of(session),
            admin=self.reader.admin if own is None else Admin(own),
            visible=visible,
            visible_groups=groups,
            sees_records=self.options.is_local or bool(session and session.user),
            tools=self.tools,
            decode=self.options.decode,
            masks=self.options.masks,
        )

    def _cut_picture(self, topics: frozenset[str] | None, groups: frozenset[str] | None) -> Picture:
        """The picture without what a viewer may not know of, made once a change for all alike."""
        if topics is None or groups is None:
            return self.picture
        known = self.cuts.get((topics, groups))
        if known is None or known.rev != self.picture.rev:
            if known is None and len(self.cuts) >= _CUTS_MAX:
                self.cuts.clear()
            known = self.cuts[topics, groups] = cut(self.picture, topics, groups)
        return known

    async def cut(self, session: Session) -> None:
        """Asks, as the user, which topics and groups there are."""
        assert session.client is not None, "looked at by whoever calls"
        now = time.monotonic()
        if session.topics is not None and now - session.cut_at < _CUT_S:
            return
        try:
            topics = frozenset(await Admin(session.client).topics())
            groups = frozenset(g.group_id for g in await Groups(session.client).all())
        except (KlammError, OSError):
            # The last answer stands; who has had none may know of nothing.
            topics, groups = session.topics or frozenset(), session.groups or frozenset()
            now = session.cut_at
        session.topics, session.groups, session.cut_at = topics, groups, now

    def key_of(self, session: Session | None) -> object:
        """A key that tells viewers apart who may see different things."""
        return session.id if session is not None and session.client is not None else None

    def meta(self) -> Json:
        """The age of everything, and what the console costs."""
        picture = self.picture
        sources = [
            {
                "id": source.name,
                "name": source.name,
                "ok": source.error is None,
                "at_ms": source.at_ms,
                "error": source.error,
            }
            for source in picture.sources.values()
        ]
        stale = next((s for s in sources if s["name"] == "states" and not s["ok"]), None)
        return {
            "as_of_ms": picture.sources["states"].at_ms if "states" in picture.sources else None,
            "ledger_place": picture.place,
            "sources": sources,
            "stale": stale is not None,
            "why_stale": stale["error"] if stale else None,
            "share": round(governor.total(picture.sources.values()), 4),
        }

    def pulse(self, session: Session | None) -> tuple[Json, Any]:
        """The facts that every page shows, and those of them that are worth telling at once."""
        if self.accounts.is_secured and (session is None or session.user is None):
            return {}, None  # nothing is said to whoever has not signed in
        key = self.key_of(session)
        known = self.pulses.get(key)
        if known is not None and known[0] == self.picture.rev:
            return known[1]
        scene = self.scene_now(session)
        waits = waiting(scene)
        last = next(iter(scene.lines()), None)
        body = {
            **self.meta(),
            "waits": len(waits),
            "ills": sum(wait["severity"] == "bad" for wait in waits),
            "last": short(last) if last else None,
        }
        counts = (
            body["waits"],
            body["ills"],
            body["last"],
            body["stale"],
            [(s["name"], s["error"]) for s in body["sources"]],
        )
        if len(self.pulses) > 1_000:
            self.pulses.clear()
        self.pulses[key] = (self.picture.rev, (body, counts))
        return body, counts
