"""The console of a secured cluster: nobody sees anything before they sign in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")
pytest.importorskip("httpx2", reason="httpx2 is not installed")
pytest.importorskip("cryptography", reason="cryptography is not installed: klamm[secure]")

from starlette.testclient import TestClient

from klamm.client.settings import read
from klamm.cluster import Cluster
from klamm.console.access.roles import Role
from klamm.console.options import Options
from klamm.console.serving.server import build
from unit.console.serving.test_server import HOST, Browser


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    from klamm import Security

    with Cluster(1, security=Security(users=("ann:ann-secret", "bob:bob-secret"))) as cluster:
        cluster.create_topic("mine", partitions=1, replication_factor=1)
        cluster.create_topic("theirs", partitions=1, replication_factor=1)
        cluster.allow("User:ann", "describe", "topic:mine")
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[TestClient]:
    options = Options(
        servers=cluster.bootstrap_servers,
        settings=read(str(cluster.clients / "admin.properties")),
        roles={"ann": Role.VIEWER},
    )
    app, _ = build(options)
    with TestClient(app, base_url=HOST, raise_server_exceptions=False) as client:
        yield client


def sign_in(client: TestClient, user: str, password: str) -> int:
    page = client.get("/sign-in").text
    token = page.split('name="klamm-token" content="')[1].split('"')[0]
    form = {"token": token, "user": user, "password": password}
    return client.post("/sign-in", data=form, follow_redirects=False).status_code


def test_nothing_is_said_to_a_stranger(client: TestClient) -> None:
    for path in ("/", "/topics", "/topics/mine", "/waits", "/about"):
        answer = client.get(path, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    for path in ("/api/health", "/api/topics", "/api/load", "/api/events?want=/api/health"):
        assert client.get(path).status_code == 401
    assert "mine" not in client.get("/sign-in").text
    assert "mine" not in client.get("/nothing").text
    assert sign_in(client, "ann", "wrong") == 401


def test_a_user_sees_their_topics_and_no_trace_of_others(client: TestClient) -> None:
    assert sign_in(client, "ann", "ann-secret") == 303
    ann = Browser(client)
    told = ann.until("/api/topics", lambda told: told["items"])
    assert [item["name"] for item in told["items"]] == ["mine"]
    assert told["topics_count"] == 1
    assert ann.get("/api/topics/theirs").status_code == 404
    assert ann.get("/api/topics/theirs/story").status_code == 404
    for path in ("/api/health", "/api/squares", "/topics", "/", "/waits"):
        assert "theirs" not in ann.get(path).text
    assert ann.json("/api/me")["role"] == "viewer"
    assert ann.post("/api/plans", {"kind": "delete", "topic": "mine"}).status_code == 403


def test_the_cluster_decides_what_somebody_may_change(client: TestClient) -> None:
    assert sign_in(client, "bob", "bob-secret") == 303
    bob = Browser(client)
    answer = bob.post("/api/plans", {"kind": "delete", "topic": "mine"})
    assert answer.status_code == 403, "bob is an admin here, but nobody in the cluster"
    assert sign_in(client, "admin", "") == 401
