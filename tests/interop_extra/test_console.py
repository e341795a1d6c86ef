"""The console over an Apache Kafka 3.9: every view answers, and says what is missing there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")
pytest.importorskip("httpx2", reason="httpx2 is not installed")

from starlette.testclient import TestClient

from consoles import HOST, Browser
from interop_extra.kafka_server import kafka_server
from klamm.console.options import Options
from klamm.console.serving.server import build
from klamm.console.views.table import VIEWS
from unit.console.serving.test_server import commit
from unit.store.zookeeper_server import ZooKeeperServer

SETTINGS = {"offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 2}


@pytest.fixture(scope="module")
def browser(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    data: Path = tmp_path_factory.mktemp("kafka")
    root = f"{zookeeper.connect_string}/console"
    with kafka_server(data / "logs", root, data / "said", SETTINGS) as servers:
        options = Options(servers=servers, jobs_dir=data / "jobs", reach=("-b", servers))
        app, site = build(options)
        with TestClient(app, base_url=HOST, raise_server_exceptions=False) as client:
            made = Browser(client, site)
            made.until("/api/health", lambda told: told["known"])
            yield made


def test_every_view_answers_and_none_is_empty(browser: Browser) -> None:
    made = browser.do(kind="create", topic="orders", partitions=2, factor=1)
    # A busy Kafka may say that it took too long, and make it all the same.
    assert made.status_code == 200 or "REQUEST_TIMED_OUT" in made.text, made.text
    told = browser.until("/api/topics/orders", lambda told: len(told["rows"]) == 2, 60)
    assert told["derived"] is True
    assert told["rows"][0]["cells"][0]["code"] == "L"
    assert browser.do(kind="produce", topic="orders", value="hello").status_code == 200
    commit(browser, "readers", p0=0)
    browser.until("/api/groups", lambda told: "readers" in [g["name"] for g in told["items"]], 60)
    refused = browser.post("/api/plans", {"kind": "audit"}).json()["plan"]["refused"]
    assert refused == ["this cluster keeps no ledger: there is nothing to judge"]
    assert browser.do(kind="archive", topic="orders").status_code == 200
    job = browser.json("/api/jobs")["items"][0]["id"]
    given = {"topic": "orders", "broker": "0", "job": job}
    assert browser.do(kind="keep-moment", name="before").status_code == 200
    for view in VIEWS:
        query = {"group": "?id=readers", "what-if": "?lose=0"}.get(view.name, "")
        answer = browser.get(view.api.format(**given) + query)
        assert answer.status_code == 200, f"{view.name}: {answer.text}"
        if view.page:
            assert browser.get(view.path.format(**given) + query).status_code == 200
    assert browser.json("/api/health")["sentence"] == "Healthy."
    assert "keeps its states to itself" in browser.get("/topics/orders").text
    seen = browser.json("/api/topics/orders/story")
    assert seen["seen_from_outside"] is True
    assert seen["items"][0]["after"] == "created"
    same = browser.json("/api/compare?a=moment:before&b=now")
    assert (same["items"], same["same"]) == ([], 1)
    done = browser.until(f"/api/jobs/{job}", lambda told: not told["running"], 120)
    assert done["sentence"] == "archived 1 records, all read back and compared", done
    lost = browser.json("/api/what-if?lose=0")
    assert [row["kind"] for row in lost["items"] if row["topic"] == "orders"] == ["offline"] * 2


def test_plans_are_what_kafka_validates_or_derived(browser: Browser) -> None:
    deed = {"kind": "create", "topic": "a b", "partitions": 1, "factor": 1}
    told = browser.post("/api/plans", deed).json()["plan"]
    assert told["derived"] is True
    assert told["refused"]
    assert browser.do(kind="grow", topic="orders", partitions=3).status_code == 200
    browser.until("/api/topics/orders", lambda told: len(told["rows"]) == 3, 60)
    assert (
        browser.do(kind="configure", topic="orders", settings="retention.ms=9000").status_code
        == 200
    )
    assert browser.do(kind="delete", topic="orders").status_code == 200
    browser.until("/api/topics", lambda told: not told["items"], 60)
