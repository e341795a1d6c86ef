"""The console's server over a small real cluster: views, doors, plans and actions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")
pytest.importorskip("httpx2", reason="httpx2 is not installed")

from starlette.testclient import TestClient

from consoles import HOST, Browser, served
from klamm.client.aio.cluster import Client
from klamm.client.aio.groups import Groups
from klamm.cluster import Cluster
from klamm.console.access.doors import BODY_MAX, CSP
from klamm.console.access.roles import Role
from klamm.console.deeds.doing import DEEDS
from klamm.console.options import Options
from klamm.console.serving import openapi
from klamm.console.serving.server import build
from klamm.console.showing.masks import masks
from klamm.console.views.table import BAR, VIEWS
from klamm.model.names import TopicPartition


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def browser(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    cluster.create_topic("orders", partitions=3, replication_factor=2)
    servers = cluster.bootstrap_servers
    jobs = tmp_path_factory.mktemp("jobs")
    app, site = build(Options(servers=servers, jobs_dir=jobs, reach=("-b", servers)))
    with TestClient(app, base_url=HOST, raise_server_exceptions=False) as client:
        made = Browser(client, site)
        made.until("/api/topics/orders", lambda told: len(told["rows"]) == 3)
        yield made


def test_every_view_is_a_page_and_json_and_in_the_document(browser: Browser) -> None:
    document = browser.json("/api/openapi.json")
    commit(browser, "readers")
    assert browser.do(kind="audit").status_code == 200
    job = browser.json("/api/jobs")["items"][0]["id"]
    browser.until("/api/groups", lambda told: "readers" in [g["name"] for g in told["items"]])
    given = {"topic": "orders", "broker": "0", "job": job}
    for view in VIEWS:
        assert view.api in document["paths"]
        query = "?id=readers" if view.name == "group" else ""
        address = view.api.format(**given) + query
        if view.secret:
            browser.json(address)
        else:
            browser.until(address, lambda found: found["meta"]["stale"] is False, patience_s=30)
        if view.page:
            page = browser.get(view.path.format(**given) + query)
            assert page.status_code == 200, page.text
            assert page.headers["content-security-policy"] == CSP
            assert page.headers["cache-control"] == "no-store"
            ask = {param.name: param.default for param in view.params} | given
            twin = view.twin(ask)
            assert not twin or twin.startswith("klamm ")
    assert document == openapi.document()
    assert {view.name for view in VIEWS if view.page} >= set(BAR)


def commit(browser: Browser, group: str, **offsets: int) -> None:
    """Has a group without members stand somewhere, as a plain client would."""

    async def set_offsets() -> None:
        assert browser.site is not None
        async with Client(browser.site.options.servers) as client:
            places = offsets or {"p0": 0}
            wanted = {TopicPartition("orders", int(p[1:])): at for p, at in places.items()}
            await Groups(client).set_offsets(group, wanted)

    asyncio.run(set_offsets())
    browser.hurry()


def test_records_are_written_found_and_searched(browser: Browser) -> None:
    for n in range(5):
        value = json.dumps({"id": n, "customer": {"name": f"c{n}"}})
        done = browser.do(kind="produce", topic="orders", partition=1, key=f"k{n}", value=value)
        assert done.status_code == 200, done.text
    browser.do(kind="produce", topic="orders", partition=1, value="<script>alert(1)</script>\x00")
    browser.do(kind="produce", topic="orders", partition=1, key="gone", null=True)
    browser.do(kind="produce", topic="orders", partition=2, value="x" * 500_000, headers="a=1\nb=2")

    def find(query: str) -> list[dict[str, Any]]:
        found = browser.json(f"/api/topics/orders/records?{query}")["items"]
        assert isinstance(found, list)
        return found

    assert [r["key"] for r in find("from=oldest&p=1&limit=2")] == ["k0", "k1"]
    assert [r["offset"] for r in find("from=offset&at=3&p=1&limit=1")] == [3]
    assert [r["key"] for r in find("from=oldest&key=k4")] == ["k4"]
    assert [r["key"] for r in find("from=oldest&q=c2")] == ["k2"]
    path = "%24.id%20%3E%3D%203%20and%20not%20%24.customer.name%20%3D%3D%20'c4'"
    assert [r["key"] for r in find(f"from=oldest&path={path}")] == ["k3"]
    assert find("from=oldest&key=gone")[0]["value"] is None
    large = find("from=newest&p=2&limit=1")[0]
    assert (len(large["value"]), large["value_size"], large["cut"]) == (2_048, 500_000, True)
    assert [h["name"] for h in large["headers"]] == ["a", "b"]
    assert len(find("from=newest&p=2&limit=1&full=1")[0]["value"]) == 65_536
    first = browser.json("/api/topics/orders/records?from=oldest&p=1&limit=2")
    assert first["stopped"] == "enough"
    rest = find(f"p=1&cursor={first['cursor']}")
    assert [r["offset"] for r in rest] == list(range(2, 7))
    page = browser.get("/topics/orders/records?from=oldest&p=1").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;␀" in page
    for wrong in ("path=%24.a%20==", "path=evil()", "cursor=x", "from=never"):
        assert browser.get(f"/api/topics/orders/records?{wrong}").status_code == 400
    with_time = browser.json("/api/topics/orders/records?from=time&at=9999999999999")
    assert with_time["items"] == []


def test_a_group_is_reset_to_what_its_preview_said(browser: Browser) -> None:
    for id in ("billing", "a/b 'c'\n", "  "):
        commit(browser, id, p0=0, p1=0)
    browser.until("/api/groups", lambda told: len(told["items"]) >= 4)
    odd = browser.json("/api/group?id=a%2Fb%20%27c%27%0A")
    assert odd["name"] == "a/b 'c'\n"
    assert browser.get("/group?id=%20%20").status_code == 200
    deed = {"kind": "reset-group", "group": "billing", "topic": "orders", "to": "latest"}
    told = browser.post("/api/plans", deed).json()
    preview = {row[0]: row[2] for row in told["plan"]["table"]["rows"]}
    assert told["twin"] == "klamm groups reset -t orders --to-latest --execute billing"
    assert browser.do(**deed).status_code == 200

    def stands(told: dict[str, Any]) -> bool:
        return {row["partition"]: row["committed"] for row in told["rows"]} == preview

    browser.until("/api/group?id=billing", stands)
    assert browser.do(kind="delete-group", group="billing").status_code == 200
    browser.until("/api/groups", lambda told: "billing" not in [g["name"] for g in told["items"]])


def test_brokers_are_drained_on_paper_and_lost_on_paper(browser: Browser) -> None:
    told = browser.post("/api/plans", {"kind": "drain", "broker": 0}).json()
    assert "too few brokers" in " ".join(told["plan"]["warnings"])
    lost = browser.json("/api/what-if?lose=0,1")
    assert lost["offline"] >= 3
    assert lost["controller"] is None
    assert browser.json("/api/what-if")["items"] == []
    planned = browser.json("/api/moves?topics=orders&onto=1&factor=1")["planned"]
    assert all(row["after"] == "1" for row in planned["items"])
    assert browser.get("/api/moves?topics=nobody").status_code == 404
    assert browser.post("/api/plans", planned["deed"]).json()["plan"]["steps"]
    bad = browser.post("/api/plans", {"kind": "move", "moves": ["orders-0=x"]})
    assert bad.status_code == 400


def test_moves_are_limited_and_the_limit_is_lifted(browser: Browser) -> None:
    browser.do(kind="create", topic="moved", partitions=1, factor=1).raise_for_status()
    rows = browser.until("/api/topics/moved", lambda told: told["rows"][0]["leader"] is not None)
    there = rows["rows"][0]["leader"]
    deed = {"kind": "move", "moves": [f"moved-0={1 - there}"], "throttle": "20"}
    told = browser.post("/api/plans", deed).json()
    assert "--throttle 20000000" in told["twin"], told
    assert any(step["label"] == "limit" for step in told["plan"]["steps"])
    browser.do(**deed).raise_for_status()
    browser.hurry()
    limits = browser.until("/api/moves", lambda told: len(told["limits"]) == 2)["limits"]
    assert limits == [{"id": 0, "rate": 20_000_000}, {"id": 1, "rate": 20_000_000}]
    assert "2 brokers and 1 topics" in browser.do(kind="unthrottle").json()["done"]
    browser.hurry()
    browser.until("/api/moves", lambda told: told["limits"] == [])
    assert browser.post("/api/plans", {**deed, "throttle": 0}).json()["wrong"]


def test_anything_is_found_by_a_part_of_its_name(browser: Browser) -> None:
    found = browser.json("/api/find?q=ORD")["items"]
    assert ("topic", "orders", "/topics/orders") in [
        (item["kind"], item["name"], item["address"]) for item in found
    ]
    kinds = {item["kind"] for item in browser.json("/api/find")["items"]}
    assert kinds >= {"view", "action", "topic", "broker"}
    action = browser.json("/api/find?q=create topic")["items"][0]
    assert browser.post("/api/plans", action["deed"]).json()["title"] == "Create topic"
    odd = browser.json("/api/find?q=%3Cscript%3E%00")
    assert odd["items"] == []


def test_the_ledger_is_exported(browser: Browser) -> None:
    browser.until("/api/ledger?topic=orders", lambda told: told["items"])
    answer = browser.get("/ledger/export?topic=orders")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert {line["topic"] for line in lines} == {"orders"}
    assert [line["id"] for line in lines] == sorted(
        (line["id"] for line in lines), key=lambda id: [int(part) for part in id.split(".")]
    )
    assert answer.headers["content-disposition"] == 'attachment; filename="ledger.jsonl"'
    assert browser.get("/ledger/export?broker=x").status_code == 400


def test_masked_parts_are_neither_shown_nor_downloaded(browser: Browser, cluster: Cluster) -> None:
    record = {"kind": "produce", "topic": "orders", "value": '{"card": "4111-1111", "id": 5}'}
    browser.do(**record, partition=0, key="k").raise_for_status()
    with served(cluster, masks=masks(["orders=$.card"])) as client:
        masked = Browser(client)
        masked.until("/api/topics/orders", lambda told: len(told["rows"]) == 3)
        for form in ("text", "json", "hex", "avro"):
            address = f"/topics/orders/records?from=oldest&as={form}"
            assert "4111" not in masked.get(address).text
            assert "4111" not in masked.get(f"/api{address}").text
        found = masked.json("/api/topics/orders/records?from=oldest&path=$.id == 5")["items"][-1]
        assert masked.json("/api/topics/orders/records?from=oldest&q=4111")["items"] == []
        whole = masked.get(f"/topics/orders/records/{found['partition']}/{found['offset']}")
        assert json.loads(whole.content)["card"] != "4111-1111"
        assert "masked" in masked.get("/topics/orders/records").text


def test_the_ledger_is_searched(browser: Browser) -> None:
    found = browser.until("/api/ledger?topic=orders&q=Online", lambda told: told["items"])
    assert {line["topic"] for line in found["items"]} == {"orders"}
    only = browser.json("/api/ledger?broker=1&limit=5")["items"]
    assert all(line["subject"].endswith("broker 1") for line in only)
    assert browser.json("/api/ledger?illegal=1")["items"] == []
    assert browser.json("/api/ledger?who=nobody-at-all")["items"] == []


def test_the_states_of_a_topic_are_told(browser: Browser) -> None:
    told = browser.until("/api/topics/orders", lambda t: t["in_sync"] == 6 and t["brokers"])
    assert [cell["code"] for cell in told["rows"][0]["cells"]].count("L") == 1
    assert told["word"] == "well"
    machines = browser.json("/api/machines")["items"]
    assert [machine["entity"] for machine in machines] == ["topic", "partition", "replica"]
    story = browser.json("/api/topics/orders/story")
    assert story["items"][0]["subject"] == "topic orders"
    assert not any(line["illegal"] for line in story["items"])
    place = story["items"][0]["id"]
    assert browser.json(f"/api/topics/orders/story?at={place}")["states"] == {
        "topic orders": "created"
    }


def test_an_unchanged_answer_is_not_sent_again(browser: Browser) -> None:
    first = browser.get("/api/machines")
    body = first.json()
    body.pop("meta")
    assert first.headers["etag"].startswith('W/"')


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/topics/nobody", 404),
        ("/topics/%3Cscript%3E", 404),
        ("/api/topics?first=-1", 400),
        ("/api/topics?sort=evil", 400),
        ("/api/topics?limit=99999", 400),
        ("/api/topics/orders/story?at=x", 400),
        ("/api/group?id=nobody", 404),
        ("/api/brokers/99", 404),
        ("/api/brokers/x", 400),
        ("/api/events", 400),
        ("/api/events?want=/etc/passwd", 400),
        ("/api/nothing", 404),
        ("/static/x/..%2f..%2fserver.py", 404),
        ("/static/x/server.py", 404),
        ("/topics/", 404),
        ("/static/x/../../pyproject.toml", 404),
        ("/api/topics?q=" + "x" * 9_000, 413),
    ],
)
def test_wrong_requests_are_refused_with_a_reason(browser: Browser, path: str, status: int) -> None:
    answer = browser.get(path)
    assert answer.status_code == status
    assert "<script>alert" not in answer.text
    if path.startswith("/api"):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]


def test_a_topic_is_created_changed_and_deleted_through_plans(browser: Browser) -> None:
    made = browser.do(kind="create", topic="born", partitions=2, factor=2)
    assert made.status_code == 200, made.text
    browser.until("/api/topics/born", lambda told: told["in_sync"] == 4)
    grown = browser.do(kind="grow", topic="born", partitions=3)
    assert grown.json()["done"] == "born has 3 partitions"
    browser.until("/api/topics/born", lambda told: len(told["rows"]) == 3)
    changed = browser.do(kind="configure", topic="born", settings="retention.ms=5000")
    assert changed.status_code == 200, changed.text
    assert browser.do(kind="freeze", topic="born").status_code == 200
    browser.until("/api/topics/born", lambda told: told["frozen"])
    assert browser.do(kind="unfreeze", topic="born").status_code == 200
    assert browser.do(kind="elect", election="preferred").status_code == 200
    assert browser.do(kind="delete", topic="born").status_code == 200
    browser.until("/api/topics", lambda told: "born" not in [i["name"] for i in told["items"]])


def test_halves_of_characters_are_refused_or_shown_and_no_fault(browser: Browser) -> None:
    half = "\ud800"
    headers = {"content-type": "application/json", "x-klamm-token": browser.token}
    for deed in (
        {"kind": "produce", "topic": half, "value": half},
        {"kind": "reset-group", "group": half, "topic": "orders", "to": "earliest"},
        {"kind": "elect", "election": "preferred", "partitions": [f"{half}-0"]},
    ):
        body = json.dumps(deed)  # which escapes them, as a browser does
        told = browser.client.post("/api/plans", content=body, headers=headers)
        assert (told.status_code, told.json()["plan"]) == (200, None)
        assert told.json()["wrong"][0]["message"] == "has half a character in it"
        done = browser.client.post("/api/actions", content=body, headers=headers)
        assert done.status_code == 400
    written = {"kind": "produce", "topic": "orders", "value": r'{"half": "\ud800"}'}
    assert browser.do(**written).status_code == 200
    for form in ("text", "json", "hex"):
        address = f"/topics/orders/records?q=half&from=oldest&as={form}"
        assert browser.json(f"/api{address}")["items"]
        assert browser.get(address).status_code == 200


def test_what_was_not_planned_or_not_typed_is_not_done(browser: Browser) -> None:
    deed = {"kind": "delete", "topic": "orders"}
    told = browser.post("/api/plans", deed).json()
    assert told["plan"]["typed"] == "orders"
    assert told["twin"] == "klamm topics delete orders"
    old = browser.post("/api/actions", {**deed, "digest": "0" * 32, "typed": "orders"})
    assert (old.status_code, old.json()["digest"]) == (409, told["digest"])
    untyped = browser.post("/api/actions", {**deed, "digest": told["digest"]})
    assert untyped.status_code == 400
    refused = browser.post(
        "/api/plans", {"kind": "create", "topic": "a b", "partitions": 1, "factor": 9}
    )
    assert refused.json()["plan"]["refused"]
    missing = browser.post("/api/plans", {"kind": "grow", "topic": "orders"}).json()
    assert missing["plan"] is None
    assert missing["wrong"][0]["field"] == "partitions"
    assert browser.post("/api/plans", {"kind": "nothing"}).status_code == 400
    assert browser.json("/api/topics/orders")["state"] == "created"


def test_a_request_that_another_site_forged_is_refused(browser: Browser) -> None:
    deed = {"kind": "elect"}
    client = browser.client
    assert client.post("/api/plans", json=deed).status_code == 403
    assert browser.post("/api/plans", deed, origin="https://evil.example").status_code == 403
    assert browser.post("/api/plans", deed, origin="http://[").status_code == 403
    assert browser.post("/api/plans", deed, **{"sec-fetch-site": "cross-site"}).status_code == 403
    assert browser.post("/api/plans", deed, origin=HOST).status_code == 200
    # A form on a page without referrer says null, and so does one elsewhere.
    assert browser.post("/api/plans", deed, origin="null").status_code == 403
    ours = {"origin": "null", "sec-fetch-site": "same-origin"}
    assert browser.post("/api/plans", deed, **ours).status_code == 200
    elsewhere = {"origin": "null", "sec-fetch-site": "cross-site"}
    assert browser.post("/api/plans", deed, **elsewhere).status_code == 403
    form = {"content-type": "application/x-www-form-urlencoded", "x-klamm-token": browser.token}
    assert client.post("/api/plans", content=b"kind=elect", headers=form).status_code == 415
    assert client.post("/sign-out", data={"token": "wrong"}).status_code == 403
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    large = {"content-type": "application/json", "x-klamm-token": browser.token}
    assert (
        client.post("/api/plans", content=b" " * (BODY_MAX + 1), headers=large).status_code == 413
    )
    deep = b"[" * 100_000
    assert client.post("/api/plans", content=deep, headers=large).status_code == 400
    assert client.delete("/api/plans").status_code == 405


def test_a_viewer_may_look_and_nothing_else(cluster: Cluster) -> None:
    with served(cluster, read_only=True) as client:
        viewer = Browser(client)
        told = viewer.json("/api/me")
        assert (told["role"], told["may"]) == ("viewer", [])
        for kind in DEEDS:
            answer = viewer.post("/api/plans", {"kind": kind})
            assert answer.status_code == 403, kind
            assert viewer.post("/api/actions", {"kind": kind}).status_code == 403
        assert "data-deed data-json='" not in viewer.get("/topics").text


def test_signing_in_takes_the_right_password_and_not_too_many_wrong_ones(
    cluster: Cluster, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text("ann:operator:secret\n")
    users.chmod(0o600)
    audit = tmp_path / "audit.jsonl"
    with served(cluster, users=users, read_only=True, audit_log=audit) as client:
        browser = Browser(client)
        form = {"token": browser.token, "user": "ann", "password": "wrong"}
        wrong = client.post("/sign-in", data=form)
        assert (wrong.status_code, "the user or the password is wrong" in wrong.text) == (401, True)
        unknown = client.post("/sign-in", data=form | {"user": "<b>"})
        assert unknown.status_code == 401
        before = client.cookies["klamm-8080"]
        right = client.post("/sign-in", data=form | {"password": "secret"}, follow_redirects=False)
        assert right.status_code == 303
        assert client.cookies["klamm-8080"] != before
        ann = Browser(client)
        assert ann.json("/api/me")["role"] == "operator"
        assert ann.post("/api/plans", {"kind": "elect"}).status_code == 200
        assert ann.post("/api/plans", {"kind": "delete", "topic": "orders"}).status_code == 403
        assert ann.do(kind="elect", election="preferred").status_code == 200
        out = client.post("/sign-out", data={"token": ann.token}, follow_redirects=False)
        assert out.status_code == 303
        assert Browser(client).json("/api/me")["role"] == "viewer"
        again = Browser(client)
        codes = [
            client.post("/sign-in", data=form | {"token": again.token}).status_code
            for _ in range(4)
        ]
        assert codes[-1] == 429
    noted = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {"ann"} <= {line["who"] for line in noted}
    assert any("leaders elected" in line["outcome"] for line in noted)


def test_off_loopback_nobody_changes_anything_without_signing_in(cluster: Cluster) -> None:
    options = Options(servers=cluster.bootstrap_servers, host="0.0.0.0")
    assert options.anonymous is Role.VIEWER
    with served(cluster, host="0.0.0.0") as client:
        assert "not encrypted" in client.get("/").text


def test_the_stream_sends_the_whole_and_then_what_changed(cluster: Cluster) -> None:
    app, site = build(Options(servers=cluster.bootstrap_servers))
    with TestClient(app, base_url=HOST) as client:
        browser = Browser(client)
        browser.until("/api/topics/orders", lambda told: told["rows"])

        async def read() -> list[str]:
            build_topics = lambda: {"items": sorted(site.picture.topics), "more": "x" * 500}  # noqa: E731
            ended = asyncio.Event()
            frames = site.hub.frames([("w", build_topics)], None, lambda: ({}, 0), ended)
            found = [(await anext(frames)).decode()]
            site.picture.topics["zzz"] = site.picture.topics["orders"]
            site.picture.touch()
            site.hub.changed()
            found.append((await anext(frames)).decode())
            ended.set()
            found.append((await anext(frames)).decode())
            await frames.aclose()
            return found

        first, second, last = client.portal.call(read)  # type: ignore[union-attr]
        assert "event: pulse" in first
        assert '"whole"' in first
        assert '"change"' in second
        assert "zzz" in second
        assert last.startswith("event: bye")
        assert site.hub.streams == 0


def test_a_cluster_that_is_away_leaves_the_last_picture(tmp_path: Path) -> None:
    with Cluster(1) as cluster:
        cluster.create_topic("kept", partitions=1, replication_factor=1)
        with served(cluster) as client:
            browser = Browser(client)
            browser.until("/api/topics/kept", lambda told: told["rows"])
            cluster.stop_broker(0)
            told = browser.until("/api/topics/kept", lambda told: told["meta"]["stale"])
            assert told["rows"][0]["index"] == 0
            page = browser.get("/topics/kept").text
            assert "The cluster does not answer." in page
            assert "kept" in page
