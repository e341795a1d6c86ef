"""A cluster's life in a browser: it is well, a broker goes, a deletion halts and is resolved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from console.browsing import asked, live
from klamm.cluster import Cluster

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)


def test_a_fresh_cluster_is_healthy_and_says_what_was_checked(console: str, page: Any) -> None:
    live(page, console)
    expect(page.locator("h1")).to_have_text("Healthy.")
    expect(page.locator(".head")).to_contain_text("4 brokers")
    expect(page.locator(".brokers li")).to_have_count(4)


def test_a_topic_is_created_through_its_plan(console: str, page: Any) -> None:
    live(page, f"{console}/topics")
    page.get_by_role("button", name="Create topic").click()
    page.locator("dialog [name=topic]").fill("orders")
    page.locator("dialog [name=partitions]").fill("6")
    expect(page.locator("dialog .steps")).to_contain_text("NonExistent → New → Online")
    expect(page.locator("dialog .twin")).to_contain_text("klamm topics create -p 6 -r 3 orders")
    page.get_by_role("button", name="Create orders").click()
    expect(page.locator("table.list")).to_contain_text("orders")
    row = page.locator("tr", has_text="orders")
    expect(row).to_contain_text("18/18")


def test_what_the_cluster_refuses_is_said_in_its_words(console: str, page: Any) -> None:
    live(page, f"{console}/topics")
    page.get_by_role("button", name="Create topic").click()
    page.locator("dialog [name=topic]").fill("bad name")
    page.locator("dialog [name=factor]").fill("99")
    expect(page.locator("dialog .plan .fault")).to_be_visible()
    expect(page.locator("dialog .do")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.sheet")).not_to_be_visible()


def test_a_topic_grows_and_the_rows_come_by_themselves(console: str, page: Any) -> None:
    live(page, f"{console}/topics/orders")
    expect(page.locator("table.matrix tbody tr")).to_have_count(6)
    page.get_by_role("button", name="Grow").click()
    page.locator("dialog [name=partitions]").fill("8")
    expect(page.locator("dialog .warn").first).to_contain_text("records with a key")
    page.get_by_role("button", name="Grow orders from 6 to 8 partitions").click()
    expect(page.locator("table.matrix tbody tr")).to_have_count(8)
    expect(page.locator("table.lines").first).to_contain_text("growing")


def test_a_killed_broker_is_seen_without_reloading(
    cluster: Cluster, console: str, new_page: Callable[..., Any]
) -> None:
    topic = live(new_page(), f"{console}/topics/orders?p=0&b=3")
    health = live(new_page(), console)
    victim = next(id for id in range(4) if id != cluster.controller_id)
    cell = topic.locator(f'button.cell[data-broker="{victim}"][data-code="x"]')
    cluster.kill_broker(victim)
    expect(cell.first).to_be_visible()
    expect(health.locator("h1")).to_contain_text(f"broker {victim} away")
    expect(health.locator(".waits")).to_contain_text(f"waits for broker {victim}: it is down")
    cell.first.click()
    expect(topic.locator('.node[data-now="1"]')).to_have_text("Offline")
    expect(topic.locator(".machines .now")).to_contain_text("Offline")
    waits = live(new_page(), f"{console}/waits")
    expect(waits.locator(".wait").first).to_contain_text(f"until broker {victim} is back")
    cluster.start_broker(victim)
    expect(health.locator("h1")).to_have_text("Healthy.")
    expect(topic.locator('.node[data-now="1"]')).to_have_text("Online")
    expect(waits.locator(".empty")).to_be_visible()
    story = live(new_page(), f"{console}/topics/orders/story")
    expect(story.locator("table.lines")).to_contain_text("Offline")
    expect(story.locator(".lanes .bar").first).to_be_visible()


def test_a_halted_deletion_is_explained_and_resolved(
    cluster: Cluster, console: str, new_page: Callable[..., Any]
) -> None:
    cluster.create_topic("doomed", partitions=2, replication_factor=4)
    victim = next(id for id in range(4) if id != cluster.controller_id)
    cluster.kill_broker(victim)
    page = live(new_page(), f"{console}/topics/doomed")
    expect(page.locator('button.cell[data-code="x"]').first).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("dialog .warn").first).to_contain_text("it will halt")
    button = page.locator("dialog .do")
    expect(button).to_be_disabled()
    page.locator("dialog .typed input").press("Enter")
    expect(button).to_be_disabled()
    page.locator("dialog .typed input").fill("doomed")
    button.click()
    expect(page.locator("h1 .badge")).to_contain_text("halted")
    expect(page.locator('button.cell[data-code="!"]').first).to_be_visible()
    health = live(new_page(), console)
    expect(health.locator(".waits")).to_contain_text("Deletion of doomed")
    health.get_by_role("button", name=f"Forget broker {victim}'s copy").click()
    health.locator("dialog .typed input").fill("doomed")
    health.locator("dialog .do").click()
    expect(health.locator(".waits")).not_to_contain_text("Deletion of doomed")
    story = live(new_page(), f"{console}/topics/doomed/story")
    expect(story.locator(".head")).to_contain_text("this topic is no more")
    expect(story.locator("table.lines")).to_contain_text("given up")
    cluster.start_broker(victim)
    expect(health.locator("h1")).to_have_text("Healthy.")


def test_the_story_is_scrubbed_by_keys_and_the_place_is_in_the_address(
    console: str, page: Any
) -> None:
    live(page, f"{console}/topics/orders/story")
    now = page.locator(".timeline .now")
    expect(now).not_to_be_empty()
    before = now.text_content()
    page.locator("h1").click()
    page.keyboard.press("ArrowLeft")
    expect(now).not_to_have_text(before or "")
    expect(page.locator(".ribbon")).to_contain_text("You see")
    assert "at=" in page.url
    page.keyboard.press("Shift+ArrowLeft")
    page.get_by_role("button", name="Back to now").click()
    expect(page.locator(".ribbon")).to_be_hidden()


def test_twelve_tabs_are_all_live_over_one_stream(console: str, browser: Any) -> None:
    context = browser.new_context()
    try:
        pages = [context.new_page() for _ in range(12)]
        for each in pages:
            each.goto(f"{console}/topics/orders")
        for each in pages:
            each.locator('.live[data-live="on"]').wait_for()
        assert asked(f"{console}/api/load")["streams"] <= 1
    finally:
        context.close()


def test_lists_are_readable_without_script(console: str, new_page: Callable[..., Any]) -> None:
    page = new_page(java_script_enabled=False)
    page.goto(f"{console}/topics")
    expect(page.locator("table.list")).to_contain_text("orders")
    page.goto(f"{console}/topics/orders")
    expect(page.locator("table.matrix tbody tr")).to_have_count(8)
    page.goto(f"{console}/waits")
    expect(page.locator(".empty")).to_contain_text("Nothing waits")
