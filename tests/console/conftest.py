"""A real cluster, the console as its own process, and a browser that trips over every fault.

`make test-console` installs a browser and runs this; elsewhere it is skipped, with the reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.browsing import console_of
from klamm.cluster import Cluster

CHROMIUM = (
    os.environ.get("KLAMM_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
)
SETTINGS = {"klamm.delete.topic.retry.ms": 1000, "replica.lag.time.max.ms": 2000}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.console)
            item.add_marker(pytest.mark.timeout(300))
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no Chromium here: make test-console"))
            elif not os.environ.get("KLAMM_CONSOLE") and item.path.name != "test_smoke.py":
                item.add_marker(pytest.mark.skip(reason="a browser is slow: make test-console"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(4, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def console(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    jobs = tmp_path_factory.mktemp("jobs")
    with console_of(cluster.bootstrap_servers, "--jobs-dir", str(jobs)) as url:
        yield url


# Playwright's loop runs in this thread as long as its driver does: tests of other folders need it.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def new_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Pages whose console must stay empty and whose requests must stay here."""
    contexts: list[Any] = []
    faults: list[str] = []

    def watched(message: Any) -> None:
        expected = "Failed to load resource" in message.text or "net::ERR" in message.text
        if message.type in ("error", "warning") and not expected:
            faults.append(message.text)

    def made(**wishes: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **wishes})
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", watched)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: _stay(request.url, faults))
        return page

    yield made
    for context in contexts:
        context.close()
    assert faults == []


def _stay(url: str, faults: list[str]) -> None:
    if not url.startswith(("http://127.0.0.1:", "blob:", "data:")):
        faults.append(f"a request to {url}")


@pytest.fixture
def page(new_page: Callable[..., Any]) -> Any:
    return new_page()
