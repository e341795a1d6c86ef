"""Brokers of klamm and of Apache Kafka in one cluster: run by `make mixed` alone.

Apache Kafka comes from Maven; where it cannot be had, all of this is skipped with the reason. What
was shown is printed as a table at the end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from interop_extra.kafka import jars
from mixed.cluster import MixedCluster
from mixed.hosts import KAFKA, KAFKA_VERSION, KLAMM
from unit.store.zookeeper_server import ZooKeeperServer, why_not

_HERE = Path(__file__).parent
_ROWS: list[tuple[str, str, str, str]] = []
Shown = Callable[[str, str], AbstractContextManager[list[str]]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.extra)
        item.add_marker(pytest.mark.timeout(900))
        if not os.environ.get("KLAMM_MIXED"):
            item.add_marker(pytest.mark.skip(reason="needs Apache Kafka: run it with make mixed"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _ROWS:
        return
    terminalreporter.section("klamm and Apache Kafka in one cluster")
    head = ("what", "controller", "result", "seconds")
    widths = [max(len(row[at]) for row in (head, *_ROWS)) for at in range(len(head))]
    for row in (head, *_ROWS):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        terminalreporter.write_line("  ".join(cells).rstrip())


@pytest.fixture
def shown() -> Shown:
    """A row of the table: what is shown, under whose control; what is appended is its result."""

    @contextmanager
    def show(what: str, controller: str) -> Iterator[list[str]]:
        began, said = time.monotonic(), list[str]()
        try:
            yield said
        except BaseException as fault:
            said = [f"FAILED: {str(fault).splitlines()[0][:100] if str(fault) else type(fault)}"]
            raise
        finally:
            took = f"{time.monotonic() - began:.1f}"
            _ROWS.append((what, controller, "; ".join(said) or "as it should", took))

    return show


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServer]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    jars(KAFKA_VERSION)  # or the reason why they cannot be had
    server = ZooKeeperServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    """Two brokers of each kind."""
    data = tmp_path_factory.mktemp("mixed")
    mixed = MixedCluster(f"{zookeeper.connect_string}/mixed", data)
    try:
        for broker_id in (1, 2):
            mixed.add(KAFKA, broker_id)
        for broker_id in (10, 11):
            mixed.add(KLAMM, broker_id)
        mixed.start(1, 2, 10, 11)
        yield mixed
    finally:
        mixed.close()
