"""Jobs, kept moments, two clusters and the processes of brokers, in a browser."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from console.browsing import asked, console_of, klamm_at, live
from klamm.cluster import Cluster

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)


class Local(NamedTuple):
    """A cluster of processes with its console."""

    servers: str
    url: str
    data: Path


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    data = tmp_path_factory.mktemp("data")
    words = ["up", "--brokers", "3", "--port", "0", "--data", str(data), "--processes"]
    command = [sys.executable, "-m", "klamm", *words, "--console-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        told = dict(word.partition("=")[::2] for word in line.split()[1:])
        servers = told["bootstrap"]
        klamm_at(servers, "topics", "create", "orders", "-p", "3", "-r", "3")
        klamm_at(servers, "produce", "orders", given="\n".join(f'{{"n": {n}}}' for n in range(500)))
        yield Local(servers, told["console"].rstrip("/"), data)
    finally:
        process.terminate()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def started(page: Any, button: str, **fields: str) -> None:
    """Starts a job through its form."""
    page.get_by_role("button", name=button, exact=True).click()
    for name, value in fields.items():
        page.locator(f"dialog [name={name}]").fill(value)
    page.locator("dialog .do:enabled").wait_for()
    page.locator("dialog .do").click()
    expect(page.locator("dialog.sheet")).to_be_hidden()


def test_an_audit_runs_and_its_page_is_shown_without_script(local: Local, page: Any) -> None:
    live(page, f"{local.url}/jobs")
    expect(page.locator(".empty")).to_contain_text("No job has run yet")
    started(page, "Audit")
    row = page.locator("tbody tr").first
    expect(row.locator(".badge")).to_have_text("done", timeout=90_000)
    expect(row).to_contain_text("decisions judged: nothing is wrong")
    row.get_by_role("link").first.click()
    page.wait_for_url("**/jobs/*")
    expect(page.locator("table")).to_contain_text(["events"])
    frame = page.frame_locator("iframe.report")
    expect(frame.locator("h1")).to_contain_text("audit")
    assert page.locator("iframe.report").get_attribute("sandbox") == ""


def test_an_archive_is_made_with_proof_and_another_is_cancelled(local: Local, page: Any) -> None:
    live(page, f"{local.url}/jobs")
    started(page, "Archive", topic="orders")
    row = page.locator("tbody tr", has_text="Archive orders").first
    expect(row.locator(".badge")).to_have_text("done", timeout=120_000)
    expect(row).to_contain_text("archived 500 records, all read back and compared")
    assert list((local.data / "jobs" / "archives").rglob("*.parquet"))
    started(page, "Restore", topic="orders", to="again")
    page.locator("tbody tr", has_text="Restore orders").get_by_role("button", name="Cancel").click()
    page.locator("dialog .do:enabled").click()
    row = page.locator("tbody tr", has_text="Restore orders").first
    expect(row.locator(".badge")).to_have_text("cancelled")


def test_a_job_that_the_form_cannot_start_is_refused_in_words(local: Local, page: Any) -> None:
    live(page, f"{local.url}/jobs")
    page.get_by_role("button", name="Archive", exact=True).click()
    page.locator("dialog [name=topic]").fill("nothing-here")
    expect(page.locator("dialog .plan .fault")).to_contain_text("there is no topic")
    expect(page.locator("dialog .do")).to_be_disabled()
    page.locator("dialog [name=topic]").fill("../../etc")
    expect(page.locator("dialog .plan .fault")).to_contain_text("invalid")


def test_a_broker_is_paused_killed_and_started_from_its_row(local: Local, page: Any) -> None:
    live(page, f"{local.url}/brokers")
    row = page.locator("tbody tr").nth(2)

    def press(name: str, typed: str = "") -> None:
        row.get_by_role("button", name=name, exact=True).click()
        if typed:
            page.locator("dialog .typed input").fill(typed)
        page.locator("dialog .do:enabled").click()
        expect(page.locator("dialog.sheet")).to_be_hidden()

    press("Pause")
    expect(row).to_contain_text("paused")
    press("Resume")
    expect(row).to_contain_text("running")
    press("Kill", typed="2")
    expect(row).to_contain_text("killed")
    expect(row.locator(".badge")).to_have_text("down")
    press("Start")
    expect(row).to_contain_text("running")
    expect(row.locator(".badge")).to_have_text("up")


def test_a_moment_is_kept_and_compared(local: Local, page: Any) -> None:
    live(page, f"{local.url}/compare")
    page.get_by_role("button", name="Keep this moment").click()
    page.locator("dialog [name=name]").fill("before")
    page.locator("dialog .do:enabled").click()
    expect(page.locator(".toast")).to_contain_text("kept as before")
    klamm_at(local.servers, "topics", "create", "later", "-p", "1", "-r", "1")
    live(page, f"{local.url}/compare?a=moment:before&b=now")
    expect(page.locator("tbody")).to_contain_text("only in b")
    expect(page.locator("tbody")).to_contain_text("klamm topics delete later")


def test_two_clusters_in_one_console(
    cluster: Cluster, local: Local, new_page: Callable[..., Any]
) -> None:
    with console_of(cluster.bootstrap_servers, "--cluster", f"other={local.servers}") as url:
        page = live(new_page(), f"{url}/@other/topics")
        expect(page.locator("table.list")).to_contain_text("orders")
        page.get_by_role("link", name="orders").click()
        page.wait_for_url("**/@other/topics/orders")
        page.locator('.live[data-live="on"]').wait_for()
        expect(page.locator("table.matrix tbody tr")).to_have_count(3)
        page.keyboard.press("g")
        page.keyboard.press("h")
        page.wait_for_url("**/@other/")
        page.get_by_role("link", name="first").click()
        page.locator('.live[data-live="on"]').wait_for()
        live(page, f"{url}/compare?a=@other&b=now")
        expect(page.locator("tbody")).to_contain_text("only in a")
        assert asked(f"{url}/@other/api/topics")["total"] >= 1
