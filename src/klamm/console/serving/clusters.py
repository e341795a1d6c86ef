"""Several clusters in one console: each has a prefix, the first needs none."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from klamm.console.problems import Problem


class Clusters:
    """Hands a request to the cluster that its address names."""

    def __init__(self, first: ASGIApp, others: Mapping[str, ASGIApp]) -> None:
        self._first = first
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if not path.startswith("/@"):
            await self._first(scope, receive, send)
            return
        alias, _, rest = path[2:].partition("/")
        chosen = self._others.get(alias)
        if chosen is None:
            await _missing(alias, send)
            return
        raw = scope.get("raw_path") or b""
        inner = {**scope, "path": f"/{rest}", "raw_path": raw[len(alias) + 2 :] or b"/"}
        await chosen(inner, receive, send)


async def _missing(alias: str, send: Send) -> None:
    problem = Problem(404, f"this console shows no cluster {alias[:100]!r}")
    body = json.dumps(problem.body()).encode()
    headers = [(b"content-type", b"application/problem+json")]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})
