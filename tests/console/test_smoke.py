"""The one test in a browser that runs with all others, where there is a browser."""

from __future__ import annotations

from typing import Any

import pytest

from console.browsing import asked, console_of, live
from klamm.cluster import Cluster

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect


def test_a_page_is_live_and_shows_a_new_topic_by_itself(page: Any) -> None:
    with Cluster(1) as cluster, console_of(cluster.bootstrap_servers) as url:
        live(page, f"{url}/topics")
        cluster.create_topic("orders", partitions=2)
        expect(page.locator("table.list")).to_contain_text("orders", timeout=30_000)
        assert asked(f"{url}/api/load")["csp_reports"] == 0
