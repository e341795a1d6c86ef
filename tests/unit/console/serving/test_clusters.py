"""One console over two clusters: addresses, sessions, moments and differences."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")
pytest.importorskip("httpx2", reason="httpx2 is not installed")

from starlette.testclient import TestClient

from consoles import HOST, Browser
from klamm.cluster import Cluster
from klamm.console.options import Options
from klamm.console.serving.server import build


class Recorded:
    """Processes that do nothing but remember."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.state = "running"

    async def states(self) -> Mapping[int, str]:
        return {0: self.state}

    async def do(self, verb: str, broker: int) -> Mapping[str, Any]:
        self.done.append((verb, broker))
        return {}


@pytest.fixture(scope="module")
def processes() -> Recorded:
    return Recorded()


@pytest.fixture(scope="module")
def browser(processes: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Cluster(1) as one, Cluster(1) as two:
        one.create_topic("orders", partitions=3)
        one.create_topic("here", partitions=1, configs={"retention.ms": "1000"})
        two.create_topic("orders", partitions=2, configs={"retention.ms": "5000"})
        two.create_topic("there", partitions=1)
        jobs = tmp_path_factory.mktemp("jobs")
        options = Options(
            servers=one.bootstrap_servers,
            processes=processes,
            others=(Options(servers=two.bootstrap_servers, alias="two", jobs_dir=jobs / "@two"),),
        )
        app, site = build(options)
        with TestClient(app, base_url=HOST, raise_server_exceptions=False) as client:
            made = Browser(client, site)
            made.until("/api/topics", lambda told: told["total"] == 2)
            made.until("/@two/api/topics", lambda told: told["total"] == 2)
            yield made


def test_each_cluster_has_its_prefix_in_every_address(browser: Browser) -> None:
    assert browser.json("/api/topics/here")["name"] == "here"
    assert browser.get("/@two/api/topics/here").status_code == 404
    page = browser.get("/@two/topics").text
    assert 'href="/@two/topics/there"' in page
    assert 'href="/topics' not in page
    assert 'action="/@two/topics"' in page
    static = page.split('src="')[1].split('"')[0]
    assert static.startswith("/@two/static/")
    assert browser.get(static).status_code == 200
    assert 'href="/@two/"' in browser.get("/").text
    for path in ("/@three/", "/@", "/@two/../topics", "/@two//etc/passwd"):
        assert browser.get(path).status_code in (200, 404), path


def test_sessions_of_two_clusters_are_apart(browser: Browser) -> None:
    browser.get("/@two/")
    names = set(dict(browser.client.cookies))
    assert {"klamm-8080", "klamm-8080-two"} <= names
    answer = browser.post("/@two/api/plans", {"kind": "delete", "topic": "there"})
    assert answer.status_code == 403, "the token is another session's"


def test_two_clusters_are_compared_with_the_commands_that_make_them_alike(
    browser: Browser,
) -> None:
    found = browser.json("/api/compare?a=now&b=@two")
    rows = {row["name"]: row for row in found["items"]}
    assert rows["here"]["kind"] == "only in a"
    assert rows["here"]["command"] == "klamm topics create -p 1 -r 1 -c retention.ms=1000 here"
    assert rows["there"]["command"] == "klamm topics delete there"
    facts = {fact["what"]: (fact["a"], fact["b"]) for fact in rows["orders"]["facts"]}
    assert facts["partitions"] == ("3", "2")
    assert facts["retention.ms"][1] == "5000"
    assert rows["orders"]["command"].splitlines() == [
        "klamm topics alter -p 3 orders",
        "klamm configs unset retention.ms -t orders",
    ]
    assert browser.get("/compare?a=now&b=@two").status_code == 200
    assert browser.get("/api/compare?b=@three").status_code == 404


def test_a_kept_moment_shows_what_has_changed_since(browser: Browser) -> None:
    assert browser.do(kind="keep-moment", name="<b>before").status_code == 200
    same = browser.json("/api/compare?a=moment:<b>before&b=now")
    assert (same["items"], same["same"]) == ([], 2)
    assert browser.do(kind="create", topic="late", partitions=1, factor=1).status_code == 200
    browser.until("/api/topics", lambda told: told["total"] == 3)
    found = browser.json("/api/compare?a=moment:<b>before&b=now")
    assert [(row["name"], row["kind"]) for row in found["items"]] == [("late", "only in b")]
    page = browser.get("/compare?a=moment:<b>before&b=now").text
    assert "<b>before" not in page


def test_a_process_is_killed_after_its_number_was_typed(
    browser: Browser, processes: Recorded
) -> None:
    browser.until("/api/brokers", lambda told: told["items"][0]["process"] == "running")
    verbs = [verb["id"] for verb in browser.json("/api/brokers")["items"][0]["verbs"]]
    assert verbs == ["stop", "kill", "pause"]
    plan = browser.post("/api/plans", {"kind": "kill-broker", "broker": 0}).json()
    assert plan["plan"]["typed"] == "0"
    assert any("no broker is left" in text for text in plan["plan"]["warnings"])
    body = {"kind": "kill-broker", "broker": 0, "digest": plan["digest"], "typed": "1"}
    assert browser.post("/api/actions", body).status_code == 400
    assert processes.done == []
    assert browser.do(kind="kill-broker", broker=0).status_code == 200
    assert processes.done == [("kill", 0)]
    refused = browser.post("/api/plans", {"kind": "resume-broker", "broker": 0}).json()
    assert refused["plan"]["refused"] == ["broker 0 is running"]
    assert browser.post("/@two/api/plans", {"kind": "kill-broker"}).status_code == 403


def test_without_a_directory_of_jobs_the_page_says_so(browser: Browser) -> None:
    found = browser.json("/api/jobs")
    assert found["ready"] is False
    assert "--jobs-dir" in browser.get("/jobs").text
    answer = browser.post("/api/plans", {"kind": "audit"})
    assert (answer.status_code, "--jobs-dir" in answer.text) == (422, True)


def test_masters_and_names_of_a_job_are_held_to_the_start_options(
    browser: Browser, tmp_path: Path
) -> None:
    page = browser.get("/@two/").text
    token = page.split('name="klamm-token" content="')[1].split('"')[0]
    asked = {"kind": "archive", "topic": "orders", "master": "spark://evil:7077"}
    answer = browser.client.post(
        "/@two/api/plans", json=asked, headers={"x-klamm-token": token}
    ).json()
    assert "--spark-master" in answer["plan"]["refused"][0]
    asked = {"kind": "archive", "topic": "a/../b"}
    answer = browser.client.post("/@two/api/plans", json=asked, headers={"x-klamm-token": token})
    assert answer.status_code == 400
    assert sys.executable not in answer.text
