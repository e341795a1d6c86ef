"""How every view looks and reads: light, dark, on a phone, by rules of accessibility, by keyboard.

The pictures are those of docs/how-to/use-the-console.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.browsing import acted, asked, commit, klamm, live
from klamm.cluster import Cluster

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

SHOTS = os.environ.get("KLAMM_SHOTS")
VIEWS = {
    "health": "/",
    "topics": "/topics",
    "topic": "/topics/orders?p=1&b=2",
    "story": "/topics/orders/story",
    "waits": "/waits",
    "records": "/topics/orders/records",
    "settings": "/topics/orders/settings",
    "groups": "/groups",
    "group": "/group?id=billing",
    "brokers": "/brokers",
    "broker": "/brokers/0",
    "moves": "/moves?topics=payments&onto=0,1",
    "elections": "/elections",
    "deletions": "/deletions",
    "what-if": "/what-if?lose=1",
    "ledger": "/ledger",
    "jobs": "/jobs",
    "job": "/jobs/JOB",
    "compare": "/compare?a=moment:before&b=now",
    "about": "/about",
}
FORMS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"color_scheme": "light", "viewport": {"width": 400, "height": 800}},
}


@pytest.fixture(scope="module", autouse=True)
def _something_to_see(cluster: Cluster, console: str) -> Iterator[None]:
    """Topics, a broker that is away, a deletion that halts."""
    cluster.create_topic("orders", partitions=6, replication_factor=3)
    cluster.create_topic("payments", partitions=12, replication_factor=2)
    for name in ("clicks", "sessions", "users", "returns", "audit-log"):
        cluster.create_topic(name, partitions=3, replication_factor=3)
    orders = "\n".join(f'{n}={{"order": {n}, "total": {n * 7 % 90}.5}}' for n in range(40))
    klamm(cluster, "produce", "orders", "--key-separator", "=", given=orders)
    commit(cluster, "billing", "orders")
    acted(console, kind="keep-moment", name="before")
    klamm(cluster, "configs", "set", "-t", "orders", "retention.ms=86400000")
    klamm(cluster, "topics", "create", "refunds", "-p", "3", "-r", "2")
    acted(console, kind="audit")
    victim = next(id for id in range(3, -1, -1) if id != cluster.controller_id)
    cluster.kill_broker(victim)
    yield
    cluster.start_broker(victim)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_readable(
    console: str, new_page: Callable[..., Any], name: str, form: str
) -> None:
    page = new_page(reduced_motion="reduce", **FORMS[form])
    jobs = asked(f"{console}/api/jobs")["items"]
    live(page, console + VIEWS[name].replace("JOB", jobs[0]["id"]))
    if name == "job":
        expect(page.locator("h1 .badge")).to_have_text("done", timeout=60_000)
        page.reload()
        expect(page.frame_locator("iframe.report").locator("h1")).to_be_visible()
    if name == "topic":
        expect(page.locator(".machine svg")).to_be_visible()
    if name == "health":
        expect(page.locator(".squares .under")).not_to_be_empty()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= page.viewport_size["width"], "it scrolls sideways"
    if form != "phone":
        found = axe.Axe().run(page)
        told = [f"{v['id']}: {v['nodes'][0]['html'][:150]}" for v in found.response["violations"]]
        assert told == []
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{SHOTS}/{name}-{form}.png", full_page=form == "phone")


def test_the_keyboard_alone_goes_everywhere(console: str, page: Any) -> None:
    live(page, console)
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.locator('.live[data-live="on"]').wait_for()
    page.keyboard.press("/")
    expect(page.locator("[data-key='/']")).to_be_focused()
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=orders**")
    page.locator('.live[data-live="on"]').wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders")
    page.locator('.live[data-live="on"]').wait_for()
    page.keyboard.press("]")
    expect(page.locator(".cell.chosen")).to_have_count(1)
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_no_page_broke_its_policy(console: str) -> None:
    assert asked(f"{console}/api/load")["csp_reports"] == 0
