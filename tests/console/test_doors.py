"""Doors, hostile names and values, brokers that are all gone, and forms, in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.browsing import acted, asked, commit, console_of, klamm, live
from klamm.cluster import Cluster

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)

EVIL = (
    '<script>alert(1)</script>"><img src=x onerror=alert(2)></title>{{7*7}}\u202e\u200b\x1b[2J\x00'
)


def test_a_wrong_password_says_so_too_many_wait_the_right_one_opens_and_signing_out_ends_it(
    cluster: Cluster, new_page: Callable[..., Any], tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text("ann:viewer:secret\nbob:admin:secret too\n")
    users.chmod(0o600)
    cluster.create_topic("kept", partitions=1, replication_factor=2)
    with console_of(cluster.bootstrap_servers, "--users", str(users)) as url:
        page = new_page()

        def sign_in(user: str, password: str) -> None:
            page.goto(f"{url}/sign-in")
            page.locator("[name=user]").fill(user)
            page.locator("[name=password]").fill(password)
            page.locator("form button.first").click()

        sign_in("ann", "wrong")
        expect(page.locator(".fault")).to_have_text("the user or the password is wrong")
        sign_in("ann", "secret")
        page.locator('.live[data-live="on"]').wait_for()
        expect(page.locator(".who")).to_contain_text("ann, viewer")
        live(page, f"{url}/topics/kept")
        expect(page.get_by_role("button", name="Delete")).to_have_count(0)
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/sign-in")
        for _ in range(3):
            sign_in("bob", "wrong")
        sign_in("bob", "secret too")
        expect(page.locator("body")).to_contain_text("too many tries")


def test_markup_in_every_place_is_shown_and_not_run(
    cluster: Cluster, console: str, new_page: Callable[..., Any]
) -> None:
    cluster.create_topic("notes", partitions=1, replication_factor=2)
    line = EVIL.replace("\x00", "")
    klamm(cluster, "produce", "notes", "--key-separator", "|", given=f"{line}|{line}")
    commit(cluster, f"g {line}", "notes")
    page = new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    for form in ("text", "json", "hex", "avro"):
        live(page, f"{console}/topics/notes/records?from=oldest&as={form}")
    live(page, f"{console}/topics/notes/records?from=oldest")
    expect(page.locator("table.records")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator("table.records")).to_contain_text("[U+202E][U+200B]␛[2J")
    acted(console, kind="keep-moment", name="now")  # a deed has the reader look at once
    live(page, f"{console}/groups")
    expect(page.locator("table.list")).to_contain_text("<img src=x", timeout=60_000)
    page.get_by_role("link", name=re.compile("script")).click()
    expect(page.locator("h1")).to_contain_text("</title>{{7*7}}[U+202E]")
    assert "49" not in page.title()
    for path in (f"/ledger?q={line}", f"/topics?q={line}", f"/compare?a={line}", f"/topics/{line}"):
        page.goto(console + path)
        assert page.locator("main img").count() == 0
    assert asked(f"{console}/api/load")["csp_reports"] == 0


def test_a_megabyte_on_one_line_is_cut_and_can_be_downloaded_whole(
    cluster: Cluster, console: str, page: Any
) -> None:
    cluster.create_topic("wide", partitions=1, replication_factor=2)
    klamm(cluster, "produce", "wide", given="x" * 1_000_000)
    live(page, f"{console}/topics/wide/records?from=oldest")
    expect(page.locator("table.records")).to_contain_text("cut, 1.0 MB in all")
    assert len(page.locator(".value").first.text_content() or "") <= 2_048
    with page.expect_download() as downloading:
        page.get_by_role("link", name="download", exact=True).click()
    found = downloading.value
    assert found.suggested_filename == "wide-0-0.bin"
    assert Path(found.path()).stat().st_size == 1_000_000
    page.get_by_role("link", name="open").click()
    expect(page.locator("table.records")).to_contain_text("cut, 1.0 MB in all")
    assert len(page.locator(".value").first.text_content() or "") <= 65_536


def test_a_record_is_written_again_and_seen_in_the_tail(
    cluster: Cluster, console: str, page: Any
) -> None:
    cluster.create_topic("echo", partitions=1, replication_factor=2)
    klamm(cluster, "produce", "echo", given="hello")
    live(page, f"{console}/topics/echo/records?from=oldest")
    page.get_by_role("button", name="Tail").click()
    page.get_by_role("button", name="again").first.click()
    expect(page.locator("dialog [name=value]")).to_have_value("hello")
    page.locator("dialog [name=value]").fill("hello again")
    page.locator("dialog .do:enabled").click()
    expect(page.locator("table.records")).to_contain_text("hello again")


def test_a_plan_that_changed_before_it_was_confirmed_is_shown_anew(
    cluster: Cluster, console: str, page: Any
) -> None:
    cluster.create_topic("contested", partitions=2, replication_factor=2)
    live(page, f"{console}/topics/contested")
    page.get_by_role("button", name="Delete").click()
    page.locator("dialog .typed input").fill("contested")
    expect(page.locator("dialog .do")).to_be_enabled()
    klamm(cluster, "topics", "alter", "contested", "-p", "4")
    page.locator("dialog .do").click()
    expect(page.locator("dialog .warn").first).to_contain_text("The plan has changed")
    assert "contested" in [t["name"] for t in asked(f"{console}/api/topics")["items"]]


def test_a_frozen_topic_refuses_and_takes_again(cluster: Cluster, console: str, page: Any) -> None:
    cluster.create_topic("cold", partitions=1, replication_factor=2)
    live(page, f"{console}/topics/cold")
    page.get_by_role("button", name="Freeze").click()
    page.locator("dialog .do:enabled").click()
    expect(page.locator("h1 .badge")).to_contain_text("frozen")
    live(page, f"{console}/topics/cold/records")
    page.get_by_role("button", name="Produce").click()
    expect(page.locator("dialog .plan .fault")).to_contain_text("is frozen")
    live(page, f"{console}/topics/cold")
    page.get_by_role("button", name="Unfreeze").click()
    page.locator("dialog .do:enabled").click()
    expect(page.locator("h1 .badge")).not_to_contain_text("frozen")


def test_where_all_brokers_are_gone_the_last_picture_stays_and_comes_back_to_life(
    new_page: Callable[..., Any],
) -> None:
    with Cluster(2) as cluster:
        cluster.create_topic("orders", partitions=2, replication_factor=2)
        with console_of(cluster.bootstrap_servers) as url:
            page = live(new_page(), f"{url}/topics")
            expect(page.locator("table.list")).to_contain_text("orders")
            for id in (0, 1):
                cluster.kill_broker(id)
            expect(page.locator(".stale")).to_contain_text("The cluster does not answer")
            expect(page.locator("table.list")).to_contain_text("orders")
            fresh = new_page()
            fresh.goto(f"{url}/topics")
            expect(fresh.locator("table.list")).to_contain_text("orders")
            expect(fresh.locator(".stale")).to_be_visible()
            for id in (0, 1):
                cluster.start_broker(id)
            expect(page.locator(".stale")).to_be_hidden(timeout=60_000)


def test_reduced_motion_forced_colours_and_double_size(
    console: str, new_page: Callable[..., Any]
) -> None:
    page = new_page(
        reduced_motion="reduce", forced_colors="active", viewport={"width": 640, "height": 450}
    )
    for path in ("/", "/topics", "/brokers", "/jobs", "/compare"):
        live(page, console + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 640, path
        moving = page.evaluate("document.getAnimations().length")
        assert moving == 0, path
