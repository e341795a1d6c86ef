"""Clients that do not come from PyPI, against a real cluster: run by `make interop-extra` alone.

They need Maven, npm and Go, and a network the first time. What cannot be had is skipped with the
reason; without KLAMM_EXTRA all of it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.store.zookeeper_server import ZooKeeperServer, why_not

_HERE = Path(__file__).parent
_WHY = "foreign toolchains: run them with make interop-extra"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.extra)
        # A JVM or a Go compiler on a busy machine takes its time.
        item.add_marker(pytest.mark.timeout(600))
        if not os.environ.get("KLAMM_EXTRA"):
            item.add_marker(pytest.mark.skip(reason=_WHY))


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    server = ZooKeeperServer()
    server.start()
    yield server
    server.remove()
