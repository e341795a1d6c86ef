"""Operating: find by keys, limited moves, drains, odd groups, twins that run, restarts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.browsing import acted, asked, commit, console_of, klamm, live
from klamm.cluster import Cluster

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=60_000)
ODD = ("a/b", "it's", 'say "hi"', "new\nline", "-rf", "<b>x</b>")


def in_shell(cluster: Cluster, twin: str) -> subprocess.CompletedProcess[str]:
    """Types a command into a shell as somebody would who copied it."""
    here = {"KLAMM_BOOTSTRAP_SERVER": cluster.bootstrap_servers}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", twin],
        env=os.environ | here | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_topic_is_found_and_an_action_begun_by_keys_alone(
    cluster: Cluster, console: str, page: Any
) -> None:
    cluster.create_topic("findable", partitions=1)
    live(page, console)
    page.keyboard.press("Control+k")
    expect(page.locator("dialog.palette")).to_be_visible()
    page.keyboard.type("finda")
    expect(page.locator(".palette li")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/findable")
    page.keyboard.press("Control+k")
    page.keyboard.type("create topic")
    expect(page.locator('.palette li[aria-selected="true"]')).to_contain_text("Create topic")
    page.keyboard.press("Enter")
    expect(page.locator("dialog.sheet")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_a_move_is_limited_and_called_off_and_the_limit_lifted(
    cluster: Cluster, console: str, page: Any
) -> None:
    cluster.create_topic("heavy", partitions=1, replication_factor=1)
    values = "\n".join(f"{'x' * 100_000}{n}" for n in range(400))  # far more than a second's worth
    klamm(cluster, "produce", "heavy", given=values)
    there = asked(f"{console}/api/topics/heavy")["rows"][0]["leader"]
    live(page, f"{console}/moves?topics=heavy&onto={(there + 1) % 4}")
    page.get_by_role("button", name="Plan 1 moves").click()
    page.locator("dialog.sheet [name=throttle]").fill("1")
    expect(page.locator("dialog.sheet .plan")).to_contain_text("1 MB a second")
    page.locator("dialog.sheet .do").click()
    live(page, f"{console}/moves")
    expect(page.locator(".limits li").first).to_contain_text("1.0 MB/s")
    page.get_by_role("button", name="Cancel").first.click()
    page.locator("dialog.sheet .do").click()
    expect(page.get_by_text("Nothing moves.")).to_be_visible()
    assert asked(f"{console}/api/topics/heavy")["rows"][0]["leader"] == there
    page.get_by_role("button", name="Lift the limits").click()
    page.locator("dialog.sheet .do").click()
    expect(page.locator(".limits")).to_be_hidden()


def test_a_broker_is_drained_through_its_plan(cluster: Cluster, console: str, page: Any) -> None:
    cluster.create_topic("drained", partitions=2, replication_factor=2)
    live(page, f"{console}/brokers/1")
    page.get_by_role("button", name="Drain").click()
    expect(page.locator("dialog.sheet .do")).to_contain_text("moves")
    page.locator("dialog.sheet .do").click()
    expect(page.locator("dialog.sheet")).to_be_hidden()
    for _ in range(600):
        held = asked(f"{console}/api/topics/drained")["rows"]
        left = [cell for row in held for cell in row["cells"] if cell["id"] == 1 and cell["code"]]
        if not left:
            break
        page.wait_for_timeout(100)
    assert left == []


@pytest.mark.parametrize("group", ODD)
def test_an_odd_group_opens_and_its_commands_run_in_a_shell(
    cluster: Cluster, console: str, page: Any, group: str
) -> None:
    if "read" not in klamm(cluster, "topics", "list"):
        cluster.create_topic("read", partitions=1)
    commit(cluster, group, "read")
    # Whoever has done something sees what came of it, whatever the pace of the console's questions.
    told = acted(console, kind="reset-group", group=group, topic="read", to="earliest")
    live(page, f"{console}/groups")
    page.locator(f"[data-id={quoted(group)}] a").first.click()
    expect(page.locator("h1")).to_contain_text(group.replace("\n", "␊")[:4])
    twin = page.locator(".foot [data-copy]").get_attribute("data-copy")
    shown = in_shell(cluster, twin)
    assert shown.returncode == 0, shown.stderr
    done = in_shell(cluster, told["twin"])
    assert done.returncode == 0, done.stderr


def quoted(text: str) -> str:
    """A text as CSS takes it."""
    escaped = "".join(f"\\{ord(char):x} " if not char.isalnum() else char for char in text)
    return f'"{escaped}"'


def test_the_command_of_every_view_runs(cluster: Cluster, console: str, page: Any) -> None:
    cluster.create_topic("typed", partitions=1)
    commit(cluster, "typists", "typed")
    paths = ["/", "/topics", "/topics/typed", "/topics/typed/story", "/topics/typed/settings"]
    paths += ["/topics/typed/records", "/groups", "/group?id=typists", "/brokers", "/brokers/0"]
    paths += ["/moves", "/elections", "/deletions", "/waits", "/ledger?topic=typed", "/compare"]
    for path in paths:
        page.goto(console + path)
        copy = page.locator(".foot [data-copy]")
        if copy.count():
            done = in_shell(cluster, copy.get_attribute("data-copy"))
            assert done.returncode == 0, (path, done.stderr)


def test_a_page_outlives_its_console_and_the_controller(cluster: Cluster, page: Any) -> None:
    with console_of(cluster.bootstrap_servers) as url:
        live(page, url)
        port = url.rpartition(":")[2]
    expect(page.locator('.live[data-live="off"]')).to_be_visible()
    with console_of(cluster.bootstrap_servers, "--port", port) as again:
        assert again == url
        page.locator('.live[data-live="on"]').wait_for()
        before = asked(f"{url}/api/health")["controller"]
        cluster.kill_broker(before["id"])
        try:
            expect(page.locator("main .head")).not_to_contain_text(f"controller {before['id']},")
            assert asked(f"{url}/api/health")["controller"]["epoch"] > before["epoch"]
        finally:
            cluster.start_broker(before["id"])


def test_masked_parts_are_not_in_the_page(cluster: Cluster, new_page: Callable[..., Any]) -> None:
    cluster.create_topic("cards", partitions=1)
    klamm(cluster, "produce", "cards", given='{"card": "4111-1111", "id": 5}')
    with console_of(cluster.bootstrap_servers, "--mask", "cards=$.card") as url:
        page = live(new_page(), f"{url}/topics/cards/records?from=oldest")
        expect(page.locator("table.records tbody tr")).to_have_count(1)
        expect(page.locator("table.records")).to_contain_text('"id":5')
        assert "4111" not in page.content()
