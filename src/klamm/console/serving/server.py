"""The server: routes to views, plans and actions, and the loop that runs it all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from klamm.console.access.accounts import Accounts, read_accounts
from klamm.console.access.audit import Audit
from klamm.console.access.doors import SANDBOX, Doors
from klamm.console.access.roles import Role
from klamm.console.access.sessions import Session
from klamm.console.deeds import doing
from klamm.console.deeds.gate import Acting
from klamm.console.feed.stream import (
    STREAMS_A_SESSION,
    STREAMS_MAX,
    STREAMS_NAMELESS,
    WISHES_MAX,
    Hub,
)
from klamm.console.jobs.children import Jobs
from klamm.console.options import Options
from klamm.console.params import parsed
from klamm.console.problems import Problem, problem_of
from klamm.console.reading import governor
from klamm.console.reading.reader import Reader
from klamm.console.scene import Json, Scene, View
from klamm.console.serving import openapi
from klamm.console.serving.answers import Events, html, json_answer, plain_json, problem_answer
from klamm.console.serving.clusters import Clusters
from klamm.console.serving.signing import Signing, host_of
from klamm.console.serving.site import TOKEN_HEADER, Site
from klamm.console.showing.pages import TYPES
from klamm.console.tools import Tools
from klamm.console.views.jobs import found_job
from klamm.console.views.ledger import exported
from klamm.console.views.records import file_name, one_record
from klamm.console.views.table import BY_NAME, VIEWS
from klamm.model.errors import KlammError

log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]
_REPORTS_MAX: Final = 1_000


class Console:
    """The requests of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._document = openapi.document()

    def routes(self) -> list[Route]:
        """Every address; nothing else is answered."""
        found = [Route(view.path, self._page(view)) for view in VIEWS if view.page]
        found += [Route(view.api, self._json(view)) for view in VIEWS]
        return [
            *found,
            Route("/static/{digest}/{name}", self.static),
            *Signing(self.site).routes(),
            Route("/jobs/{job}/report", self.report_page),
            Route("/topics/{topic}/records/{partition}/{offset}", self.download),
            Route("/ledger/export", self.export),
            Route("/about", self.about),
            Route("/api/me", self.me),
            Route("/api/load", self.load),
            Route("/api/openapi.json", self.openapi),
            Route("/api/events", self.events),
            Route("/api/plans", self.plan, methods=["POST"]),
            Route("/api/actions", self.act, methods=["POST"]),
            Route("/api/csp", self.report, methods=["POST"]),
        ]

    # Views

    def _page(self, view: View) -> Handler:
        async def page(request: Request) -> Response:
            session, ask, values = await self._looked_at(view, request)
            if session is None:
                session = self.site.sessions.begin(self.site.options.anonymous)
            want = view.api.format(**{n: _quoted(v) for n, v in request.path_params.items()})
            if request.url.query:
                want += f"?{request.url.query}"
            more = {"want": want if view.live else "", "api": want, "twin": view.twin(ask)}
            return html(self.site, session, view.name, view.title, v=values, ask=ask, **more)

        return page

    def _json(self, view: View) -> Handler:
        async def answer(request: Request) -> Response:
            _, _, values = await self._looked_at(view, request)
            if view.secret:
                return plain_json(values)
            return json_answer(request, {**values, "meta": self.site.meta()})

        return answer

    async def _looked_at(
        self, view: View, request: Request
    ) -> tuple[Session | None, dict[str, Any], Json]:
        """The session, the question and the view; looks at records are written down."""
        session = self.site.session_of(request)
        scene = await self.site.scene(session, request)
        ask = parsed(view.params, request.path_params, request.query_params)
        values = await _made(view.build(scene, ask))
        if view.secret:
            self._looked(request, session, view, ask)
        return session, ask, values

    def _looked(
        self, request: Request, session: Session | None, view: View, ask: Mapping[str, Any]
    ) -> None:
        """Writes down who looked at records."""
        self.site.audit.note(
            who=session.user if session and session.user else "anonymous",
            **{"from": request.client.host if request.client else ""},
            what={"view": view.name, "topic": ask.get("topic")},
            outcome="shown",
        )

    async def about(self, request: Request) -> Response:
        """Versions, own load, keys."""
        session = self.site.session_of(request)
        scene = await self.site.scene(session)
        if session is None:
            session = self.site.sessions.begin(self.site.options.anonymous)
        load = self._load(scene)
        return html(self.site, session, "about", "About", v=load, api="/api/load", want="")

    async def report_page(self, request: Request) -> Response:
        """The page of an audit, for a frame without script or origin."""
        scene = await self.site.scene(self.site.session_of(request))
        job = found_job(scene, request.path_params["job"])
        assert scene.tools.jobs is not None, "there would be no job"
        page = await asyncio.to_thread(scene.tools.jobs.report, job)
        return Response(
            page,
            media_type="text/html; charset=utf-8",
            headers={"content-security-policy": SANDBOX},
        )

    async def download(self, request: Request) -> Response:
        """One record's value as it is, to be kept and never to be shown by a browser."""
        session = self.site.session_of(request)
        scene = await self.site.scene(session)
        topic = request.path_params["topic"]
        given = [request.path_params[name] for name in ("partition", "offset")]
        if not all(each.isascii() and each.isdecimal() and len(each) < 17 for each in given):
            raise Problem(400, "there is no such partition or offset")
        partition, offset = map(int, given)
        record = await one_record(scene, topic, partition, offset)
        self._looked(request, session, BY_NAME["records"], {"topic": topic})
        name = file_name(topic, partition, offset)
        return Response(
            bytes(record.value or b""),
            media_type="application/octet-stream",
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    async def export(self, request: Request) -> Response:
        """The lines of the ledger that fit, as a file."""
        scene = await self.site.scene(self.site.session_of(request))
        ask = parsed(BY_NAME["ledger"].params, {}, request.query_params)
        return Response(
            exported(scene, ask),
            media_type="application/x-ndjson",
            headers={"content-disposition": 'attachment; filename="ledger.jsonl"'},
        )

    async def static(self, request: Request) -> Response:
        """A file of the fixed table; its address changes when any file does."""
        name = request.path_params["name"]
        content = self.site.statics.get(name)
        if content is None:
            raise Problem(404, "there is no such file")
        is_current = self.site.static_base.endswith(request.path_params["digest"])
        age = "public, max-age=31536000, immutable" if is_current else "no-store"
        kind = TYPES[name.rpartition(".")[2]]
        return Response(content, media_type=kind, headers={"cache-control": age})

    # What is about the console itself

    async def me(self, request: Request) -> Response:
        """The name and role of whoever asks."""
        session = self.site.session_of(request)
        role = self.site.role_of(session)
        return plain_json(
            {
                "user": session.user if session else None,
                "role": role.word,
                "is_klamm": self.site.picture.is_klamm,
                "may": [deed.kind for deed in doing.DEEDS.values() if role >= deed.role],
                "sign_in": self.site.accounts.exist,
                "sees_records": self.site.scene_now(session).sees_records,
            }
        )

    async def load(self, request: Request) -> Response:
        """The questions that the console asks, and what they cost."""
        scene = await self.site.scene(self.site.session_of(request))
        return plain_json(self._load(scene))

    def _load(self, scene: Scene) -> Json:
        sources = scene.picture.sources.values()
        return {
            "share": self.site.meta()["share"],
            "share_most": governor.SHARE_ALL,
            "streams": self.site.hub.streams,
            "sessions": len(self.site.sessions),
            "csp_reports": self.site.reports,
            "topics": len(scene.picture.topics),
            "items": [
                {
                    "id": s.name,
                    "name": s.name,
                    "asked": s.asked,
                    "took_ms": round(s.took_ms, 2),
                    "every_s": round(s.every_s, 2),
                    "at_ms": s.at_ms,
                    "error": s.error,
                }
                for s in sources
            ],
        }

    async def openapi(self, _: Request) -> Response:
        """The document."""
        return plain_json(self._document)

    async def report(self, request: Request) -> Response:
        """A browser says that a page tried what it may not."""
        body = await request.body()
        if self.site.reports < _REPORTS_MAX:
            self.site.reports += 1
            log.warning("a page broke its policy", extra={"report": body[:1024]})
        return Response(status_code=204)

    # The stream

    async def events(self, request: Request) -> Response:
        """The stream of changes on the views that somebody looks at."""
        site = self.site
        session = site.session_of(request)
        await site.scene(session)
        wants = request.query_params.getlist("want")
        if not 1 <= len(wants) <= WISHES_MAX:
            raise Problem(400, f"want from 1 to {WISHES_MAX} views")
        wishes = [(want, self._builder(want, session)) for want in dict.fromkeys(wants)]
        is_known = session is not None and session.user is not None
        too_many = session is not None and session.streams >= STREAMS_A_SESSION
        if too_many or site.hub.streams >= (STREAMS_MAX if is_known else STREAMS_NAMELESS):
            raise Problem(429, "too many streams: ask for the JSON now and then instead")
        return Events(site, session, wishes)

    def _builder(self, want: str, session: Session | None) -> Callable[[], Any]:
        parts = urlsplit(want)
        for view in VIEWS:
            path = _match(view.api, parts.path) if view.live else None
            if path is not None:
                ask = parsed(view.params, path, dict(parse_qsl(parts.query)))

                def build(view: View = view, ask: Mapping[str, Any] = ask) -> Any:
                    return view.build(self.site.scene_now(session), ask)

                return build
        raise Problem(400, f"{want[:200]!r} is not the address of a live view")

    # What changes something

    async def plan(self, request: Request) -> Response:
        """The plan of a deed."""
        session, body = await self._said(request)
        scene = await self.site.scene(session)
        found = await doing.plan(self._right(scene, session), scene.picture, body)
        return plain_json(found)

    async def act(self, request: Request) -> Response:
        """Does what was planned."""
        session, body = await self._said(request)
        key = request.headers.get("idempotency-key")
        known = self.site.remembered.find(session.id, key)
        if known is not None:
            return plain_json(known)
        scene = await self.site.scene(session)
        who = session.user or "anonymous"
        client = request.client.host if request.client else ""
        told: Json = {"who": who, "from": client, "role": scene.role.word, "what": body}
        try:
            done = await doing.act(self._right(scene, session), scene.picture, body)
        except (Problem, KlammError, OSError) as fault:
            self.site.audit.note(**told, outcome=str(fault))
            raise
        self.site.audit.note(**told, outcome=done["done"])
        self.site.remembered.keep(session.id, key, done)
        session.cut_at = 0.0  # there may be a topic more that this user may see
        self.site.reader.hurry()
        return plain_json(done)

    def _right(self, scene: Scene, session: Session) -> doing.Right:
        user = session.user or "anonymous"
        return partial(Acting.of, scene.admin, scene.role, user, self.site.tools)

    async def _said(self, request: Request) -> tuple[Session, Json]:
        """The session and the body of a request that changes something."""
        session = self.site.session_of(request)
        if session is None or not session.is_token(request.headers.get(TOKEN_HEADER)):
            raise Problem(403, "the request has no token of this session; reload the page")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Problem(415, "a body must be application/json")
        try:
            body = json.loads(await request.body())
        except (ValueError, RecursionError) as fault:
            raise Problem(400, f"the body is not JSON: {fault}") from None
        if not isinstance(body, dict):
            raise Problem(400, "the body must be a JSON object")
        return session, body

    # What went wrong

    async def on_problem(self, request: Request, fault: Exception) -> Response:
        """An answer that says no."""
        assert isinstance(fault, Problem), fault
        is_page = not request.url.path.startswith("/api") and request.method == "GET"
        if fault.status == 401 and is_page:
            return RedirectResponse(f"{self.site.root}/sign-in", status_code=303)
        return problem_answer(self.site, request, fault)

    async def on_cluster(self, request: Request, fault: Exception) -> Response:
        """The cluster refused, or did not answer."""
        assert isinstance(fault, KlammError | OSError), fault
        return problem_answer(self.site, request, problem_of(fault))

    async def on_http(self, request: Request, fault: Exception) -> Response:
        """No such address, or not that way."""
        assert isinstance(fault, HTTPException), fault
        return problem_answer(self.site, request, Problem(fault.status_code, "nothing is here"))

    async def on_bug(self, request: Request, fault: Exception) -> Response:
        """A fault of ours: it has an id that is in the log."""
        id = secrets.token_hex(6)
        log.error("a request failed", exc_info=fault, extra={"id": id})
        return problem_answer(
            self.site, request, Problem(500, f"the console's log says more under {id}", id=id)
        )


async def _made(values: Any) -> Json:
    found: Json = await values if isawaitable(values) else values
    return found


def _quoted(value: Any) -> str:
    return quote(str(value).encode("utf-8", "surrogatepass"), safe="")


def _match(pattern: str, path: str) -> dict[str, str] | None:
    """The parameters in a path, where it fits."""
    wanted, given = pattern.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    found = {}
    for want, got in zip(wanted, given, strict=True):
        if want.startswith("{"):
            found[want[1:-1]] = unquote(got)
        elif want != got:
            return None
    return found


def _made_site(options: Options, audit: Audit) -> Site:
    """The site of one cluster."""
    reader = Reader(options.servers, options.settings, options.processes)
    hub = Hub(lambda: reader.picture.rev)
    reader.on_change(hub.changed)
    accounts = Accounts(
        servers=options.servers,
        settings=options.settings,
        listed=read_accounts(options.users) if options.users else {},
        roles=options.roles,
        default=Role.ADMIN if options.is_local and not options.read_only else Role.VIEWER,
    )
    tools = Tools(processes=options.processes)
    if options.jobs_dir is not None:
        tools.jobs = Jobs(options.jobs_dir, options.reach, masters=options.spark_masters)
        tools.jobs.on_change(reader.touch)
    return Site(options, reader, hub, accounts, audit, tools=tools)


def _app(site: Site, lifespan: Any = None) -> Starlette:
    console = Console(site)
    app = Starlette(
        routes=console.routes(),
        lifespan=lifespan,
        exception_handlers={
            Problem: console.on_problem,
            KlammError: console.on_cluster,
            OSError: console.on_cluster,
            HTTPException: console.on_http,
            Exception: console.on_bug,
        },
    )
    # It would name an address without the cluster's prefix.
    app.router.redirect_slashes = False
    return app


def build(options: Options) -> tuple[Doors, Site]:
    """The application, not yet running."""
    audit = Audit(options.audit_log)
    every = (options, *(replace(other, port=options.port) for other in options.others))
    sites = [_made_site(each, audit) for each in every]
    names = tuple((site.options.alias or "first", f"{site.root}/") for site in sites)
    for site in sites:
        site.clusters = names if len(sites) > 1 else ()
        site.others = {o.options.alias or "first": o for o in sites if o is not site}

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(site.reader.run()) for site in sites]
            running += [tasks.create_task(site.hub.run()) for site in sites]
            yield
            for site in sites:
                if site.tools.jobs is not None:
                    await site.tools.jobs.close()
            for task in running:
                task.cancel()
        for site in sites:
            for session in site.sessions.all():
                if session.client is not None:
                    await session.client.close()
        audit.close()

    first = _app(sites[0], lifespan)
    others = {site.options.alias: _app(site) for site in sites[1:]}
    hosts = [options.host, host_of(options.public_url)]
    return Doors(Clusters(first, others), filter(None, hosts)), sites[0]
