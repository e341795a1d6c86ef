"""A console in this process, and a client that has a session there: shared by its tests."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.testclient import TestClient

from klamm.cluster import Cluster
from klamm.console.options import Options
from klamm.console.serving.server import build
from klamm.console.serving.site import Site

HOST = "http://127.0.0.1:8080"


class Browser:
    """A client with a session, its token, and patience for what the console learns later."""

    def __init__(self, client: TestClient, site: Site | None = None) -> None:
        self.client = client
        self.site = site
        self.token = self.get("/").text.split('name="klamm-token" content="')[1].split('"')[0]

    def get(self, path: str, **wishes: Any) -> Any:
        return self.client.get(path, **wishes)

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any, **headers: str) -> Any:
        return self.client.post(path, json=body, headers={"x-klamm-token": self.token, **headers})

    def do(self, **deed: Any) -> Any:
        planned = self.post("/api/plans", deed)
        assert planned.status_code == 200, planned.text
        told = planned.json()
        body = {**deed, "digest": told["digest"], "typed": told["plan"]["typed"]}
        return self.post("/api/actions", body)

    def hurry(self) -> None:
        """Has the reader look at once; what others change it would see later."""
        assert self.site is not None
        assert self.client.portal is not None
        self.client.portal.call(self.site.reader.hurry)

    def until(self, path: str, holds: Any, patience_s: int = 10) -> Any:
        """The JSON at a path once something holds of it."""
        for _ in range(40 * patience_s):
            answer = self.get(path)
            if answer.status_code == 200 and holds(answer.json()):
                return answer.json()
            self.client.portal.call(asyncio.sleep, 0.025)  # type: ignore[union-attr]
        raise AssertionError(f"{path}: {answer.text[:500]}")


def served(cluster: Cluster, **wishes: Any) -> TestClient:
    app, _ = build(Options(servers=cluster.bootstrap_servers, **wishes))
    return TestClient(app, base_url=HOST, raise_server_exceptions=False)
