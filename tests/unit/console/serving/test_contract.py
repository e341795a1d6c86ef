"""Whatever the OpenAPI document allows, the console answers without a fault of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")
pytest.importorskip("httpx2", reason="httpx2 is not installed")
pytest.importorskip("schemathesis", reason="schemathesis is not installed")

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from starlette.testclient import TestClient

from klamm.cluster import Cluster
from klamm.console.options import Options
from klamm.console.serving import openapi
from klamm.console.serving.server import build
from unit.console.serving.test_server import HOST, Browser

SCHEMA = schemathesis.openapi.from_dict(openapi.document())
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations()}
# A stream does not end by itself; the tests of the stream ask for it.
ENDLESS = {"GET /api/events"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Cluster(1) as cluster:
        cluster.create_topic("orders", partitions=2, replication_factor=1)
        app, site = build(Options(servers=cluster.bootstrap_servers))
        with TestClient(app, base_url=HOST, raise_server_exceptions=False) as client:
            made = Browser(client, site)
            made.until("/api/topics/orders", lambda told: told["rows"])
            yield made


@pytest.mark.parametrize("label", sorted(OPERATIONS.keys() - ENDLESS))
def test_no_request_that_the_document_allows_is_a_fault(browser: Browser, label: str) -> None:
    @settings(
        max_examples=10,
        deadline=None,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=OPERATIONS[label].as_strategy())
    def ask(case: Any) -> None:
        wanted = case.as_transport_kwargs(base_url=HOST)
        headers = {"x-klamm-token": browser.token, "content-type": "application/json"}
        body = wanted.get("json")
        if isinstance(body, dict) and body.get("kind") in ("delete", "delete-group"):
            return
        answer = browser.client.request(
            wanted["method"],
            wanted["url"],
            params=wanted.get("params"),
            json=body,
            headers=headers if wanted["method"] == "POST" else None,
        )
        assert answer.status_code < 500 or answer.status_code in (502, 504), answer.text

    ask()
