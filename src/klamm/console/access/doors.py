"""The door: what every request must be, and what every answer says about itself.

A request must name a host that is ours (a page elsewhere could otherwise reach a console on
loopback by a name of its own), be small, and if it changes something come from a page of ours.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from klamm.console.problems import Problem

BODY_MAX: Final = 1 << 20
REPORT_MAX: Final = 4_096
TARGET_MAX: Final = 8_192
BODY_S: Final = 20.0  # between two parts of a body

CSP: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "frame-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types klamm",
        "report-uri /api/csp",
    )
)
# A page that was made elsewhere: shown inside one of ours, with no script and no origin.
SANDBOX: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Doors:
    """Wraps the application: nothing gets in or out another way."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = LOOPBACK | {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        guarded = _guarded(send)
        fault = self._fault(scope, headers)
        if fault is not None:
            await _refuse(fault, guarded)
            return
        most = REPORT_MAX if scope["path"] == "/api/csp" else BODY_MAX
        await self._app(scope, _bounded(receive, most), guarded)

    def _fault(self, scope: Scope, headers: Headers) -> Problem | None:
        if _host(headers.get("host", "")) not in self._hosts:
            return Problem(421, "this console answers to its own names only; --public-url adds one")
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > TARGET_MAX:
            return Problem(413, "the address is too long")
        if scope["method"] in ("GET", "HEAD") or scope["path"] == "/api/csp":
            return None
        if scope["method"] != "POST":
            return None  # nothing answers to it
        site = headers.get("sec-fetch-site")
        if not _is_ours(headers) or site not in (None, "same-origin", "none"):
            return Problem(403, "the request comes from another site")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:12]) > BODY_MAX:
            return Problem(413, f"a body may have {BODY_MAX} bytes")
        return None


def _is_ours(headers: Headers) -> bool:
    """Whether a request comes from a page of this console, or from no page."""
    origin = headers.get("origin")
    if origin is None:
        return True
    if origin == "null":
        # What a browser says of a form on a page that sends no referrer, such as ours; also of a
        # page elsewhere, so that only what no page can forge tells them apart.
        return headers.get("sec-fetch-site") == "same-origin"
    try:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    except ValueError:
        return False


def _host(text: str) -> str:
    host, _, port = text.lower().rpartition(":")
    return host if host and port.isdecimal() else text.lower()


def _bounded(receive: Receive, most: int) -> Receive:
    taken = 0
    is_whole = False

    async def bounded() -> Message:
        nonlocal taken, is_whole
        if is_whole:
            return await receive()  # the end of the connection, which streams wait for
        try:
            async with asyncio.timeout(BODY_S):
                message = await receive()
        except TimeoutError:
            raise Problem(408, "the body did not come in time") from None
        taken += len(message.get("body", b""))
        if taken > most:
            raise Problem(413, f"a body may have {most} bytes")
        is_whole = not message.get("more_body", False)
        return message

    return bounded


def _guarded(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            own = headers.get("content-security-policy")
            for name, value in HEADERS.items():
                headers[name] = value
            if own == SANDBOX:
                headers["content-security-policy"] = own
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return guarded


async def _refuse(problem: Problem, send: Send) -> None:
    body = json.dumps(problem.body()).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # the body, if there is one, is not read
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
