"""Records, groups, moves, elections, brokers lost on paper and in earnest, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from console.browsing import asked, commit, klamm, live
from klamm.cluster import Cluster

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[2J"


def test_records_are_produced_searched_and_followed(
    cluster: Cluster, console: str, page: Any
) -> None:
    cluster.create_topic("notes", partitions=2, replication_factor=3)
    klamm(
        cluster, "produce", "notes", given="\n".join([f'{{"n": {n}}}' for n in range(20)] + [EVIL])
    )
    live(page, f"{console}/topics/notes/records?from=oldest")
    expect(page.locator("table.records tbody tr")).to_have_count(21)
    expect(page.locator("table.records")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator("table.records")).to_contain_text("[U+202E]␛[2J")
    page.locator("[name=path]").fill("$.n == 7")
    page.locator("[name=path]").press("Enter")
    expect(page.locator("table.records tbody tr")).to_have_count(1)
    live(page, f"{console}/topics/notes/records")
    page.get_by_role("button", name="Tail").click()
    expect(page.locator(".scanned")).to_contain_text("following")
    klamm(cluster, "produce", "notes", given="just now")
    expect(page.locator("table.records")).to_contain_text("just now")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".scanned")).to_contain_text("stopped")
    page.get_by_role("button", name="Produce").click()
    page.locator("dialog [name=value]").fill(EVIL)
    page.locator("dialog .do").click()
    expect(page.locator(".toast")).to_contain_text("written to notes-")


def test_a_group_is_reset_as_its_preview_says(cluster: Cluster, console: str, page: Any) -> None:
    commit(cluster, "a/b <i>", "notes")
    live(page, f"{console}/groups")
    page.get_by_role("link", name="a/b <i>").click(timeout=60_000)
    page.wait_for_url("**/group?id=**")
    page.locator('.live[data-live="on"]').wait_for()
    page.get_by_role("button", name="Reset in notes").click()
    page.locator("dialog [name=to]").select_option("latest")
    expect(page.locator("dialog table")).to_contain_text("skips")
    page.locator("dialog .do").click()
    expect(page.locator(".toast")).to_contain_text("begins anew")
    expect(page.locator(".head")).to_contain_text("lag 0", timeout=30_000)


def test_replicas_are_moved_and_leaders_elected(
    cluster: Cluster, console: str, new_page: Callable[..., Any]
) -> None:
    page = live(new_page(), f"{console}/moves?topics=notes&onto=0,1,2")
    cluster.create_topic("moved", partitions=2, replication_factor=2)
    page = live(new_page(), f"{console}/moves?topics=moved&onto=0,1&factor=1")
    page.get_by_role("button", name="Plan 2 moves").click()
    expect(page.locator("dialog .steps")).to_contain_text("moved-0")
    page.locator("dialog .do").click()
    expect(page.locator(".toast")).to_contain_text("2 moves started")
    topic = live(new_page(), f"{console}/topics/moved")
    expect(topic.locator(".head")).to_contain_text("factor 1", timeout=30_000)
    elections = live(new_page(), f"{console}/elections")
    elections.get_by_role("button", name="Preferred election of all").click()
    elections.locator("dialog .do").click()
    expect(elections.locator(".toast")).to_contain_text("leaders elected")
    expect(elections.locator(".empty")).to_be_visible(timeout=30_000)


def test_a_broker_lost_on_paper_is_what_then_happens(
    cluster: Cluster, console: str, page: Any
) -> None:
    victim = next(id for id in range(4) if id != cluster.controller_id)
    live(page, f"{console}/what-if?lose={victim}")
    expect(page.locator("h1")).to_have_text("What if")
    foretold = {
        row["id"]: row["leader_after"]
        for row in asked(f"{console}/api/what-if?lose={victim}")["items"]
    }
    cluster.kill_broker(victim)
    live(page, console)
    expect(page.locator("h1")).to_contain_text(f"broker {victim} away")
    for name in {id.rpartition("-")[0] for id in foretold}:
        for row in asked(f"{console}/api/topics/{name}")["rows"]:
            id = f"{name}-{row['index']}"
            if id in foretold:
                assert row["leader"] == foretold[id], id
    live(page, f"{console}/ledger?broker={victim}")
    expect(page.locator("table.lines")).to_contain_text("Offline")
    cluster.start_broker(victim)
    live(page, console)
    expect(page.locator("h1")).to_have_text("Healthy.", timeout=30_000)
