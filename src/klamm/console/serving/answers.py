"""Answers: pages, JSON with its tag, problems, and the stream."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from klamm.console.access.sessions import Session
from klamm.console.feed.stream import Build
from klamm.console.problems import Problem
from klamm.console.serving.site import Site
from klamm.console.views.table import BAR, BY_NAME

_GZIP_FROM: Final = 2_048
_SEND_S: Final = 30.0  # a viewer who takes nothing for so long is let go


def html(site: Site, session: Session, name: str, title: str, **values: Any) -> HTMLResponse:
    """A page, with the cookie of its session."""
    role = site.role_of(session)
    template = site.templates.get_template(f"{name}.html")
    pulse, _ = site.pulse(session)
    text = template.render(
        name=name,
        title=title,
        bar=[BY_NAME[each] for each in BAR],
        base=site.static_base,
        token=session.token,
        role=role.word,
        may=lambda needed: role.word == "admin" or role.word == needed,
        user=session.user,
        sign_in=site.accounts.exist or site.options.oidc is not None,
        clusters=site.clusters,
        pulse=pulse,
        is_klamm=site.picture.is_klamm,
        unencrypted=not site.options.is_local and not site.options.is_encrypted,
        **values,
    )
    answer = HTMLResponse(text.encode("utf-8", "replace"))
    set_cookie(site, answer, session)
    return answer


def set_cookie(site: Site, answer: Response, session: Session) -> None:
    """Gives a browser its session."""
    answer.set_cookie(
        site.cookie, session.id, httponly=True, samesite="lax", secure=site.options.is_encrypted
    )


def json_answer(request: Request, values: Any) -> Response:
    """JSON, with a tag by which an unchanged answer is recognised, and small where it is long."""
    body = json.dumps(values, separators=(",", ":"), ensure_ascii=True).encode()
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:24]}"'
    headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding, cookie"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if len(body) >= _GZIP_FROM and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, 3)
        headers["content-encoding"] = "gzip"
    return Response(body, media_type="application/json", headers=headers)


def plain_json(values: Any) -> Response:
    """JSON as it is; halves of characters, which no encoding takes, stay escaped."""
    body = json.dumps(values, separators=(",", ":"), ensure_ascii=True)
    return Response(body, media_type="application/json")


def problem_answer(site: Site, request: Request, problem: Problem) -> Response:
    """An answer that says no: JSON for programs, a page for people."""
    headers = {}
    if "retry_after_ms" in problem.more:
        headers["retry-after"] = str(max(1, problem.more["retry_after_ms"] // 1000))
    if request.url.path.startswith("/api") or request.method != "GET":
        return Response(
            json.dumps(problem.body(), default=str),
            problem.status,
            media_type="application/problem+json",
            headers=headers,
        )
    session = site.session_of(request) or site.sessions.begin(site.options.anonymous)
    answer = html(site, session, "problem", problem.body()["title"], v=problem.body(), want="")
    answer.status_code = problem.status
    return answer


class Events(Response):
    """The stream of one viewer. Whoever takes nothing for half a minute is let go."""

    def __init__(
        self, site: Site, session: Session | None, wishes: list[tuple[str, Build]]
    ) -> None:
        super().__init__(media_type="text/event-stream")
        self._site = site
        self._session = session
        self._wishes = wishes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        site, session = self._site, self._session
        ended = asyncio.Event()
        site.hub.streams += 1
        if session is not None:
            session.streams += 1
            session.ended.append(ended.set)
        try:
            async with asyncio.TaskGroup() as tasks:
                gone = tasks.create_task(_until_gone(receive))
                sending = tasks.create_task(self._send(send, ended))
                await asyncio.wait([gone, sending], return_when=asyncio.FIRST_COMPLETED)
                gone.cancel()
                sending.cancel()
        finally:
            site.hub.streams -= 1
            if session is not None:
                session.streams -= 1
                with contextlib.suppress(ValueError):
                    session.ended.remove(ended.set)

    async def _send(self, send: Send, ended: asyncio.Event) -> None:
        site, session = self._site, self._session
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        headers += [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        def pulse() -> tuple[Any, Any]:
            site.reader.look()
            return site.pulse(session)

        frames = site.hub.frames(self._wishes, site.key_of(session), pulse, ended)
        async with contextlib.aclosing(frames):
            async for frame in frames:
                try:
                    async with asyncio.timeout(_SEND_S):
                        await send({"type": "http.response.body", "body": frame, "more_body": True})
                except TimeoutError:
                    return
                if session is not None and session.client is not None:
                    await site.cut(session)
        await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
