"""Apache Kafka 3.9 in the place of klamm: what fails there too is no fault of klamm's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

from interop_extra.kafka_server import kafka_server
from klamm.ensemble import free_port
from suites.catalogue import Explanation, Suite
from suites.outcomes import FAILED, PASSED, Outcome
from suites.running import addresses, from_files
from unit.store.zookeeper_server import ZooKeeperServer

_NOT_RUN: Final = "not run"


@contextmanager
def kafka(suite: Suite, log: Path) -> Iterator[dict[str, str]]:
    """A fresh cluster of Apache Kafka with the settings of a suite: its addresses."""
    if suite.listeners:
        with from_files(suite, log, _broker) as words:
            yield words
        return
    racks = suite.racks.split(",") if suite.racks else []
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klamm-kafka-")))
        zookeeper = ZooKeeperServer()
        stack.callback(zookeeper.remove)
        zookeeper.start()
        found = []
        for at in range(suite.brokers):
            settings: dict[str, object] = {**suite.settings, "broker.id": at}
            if racks:
                settings["broker.rack"] = racks[at]
            address = f"{suite.host}:{free_port()}"
            server = kafka_server(
                work / f"broker-{at}",
                f"{zookeeper.connect_string}/suite",
                log.with_suffix(f".{at}.log"),
                settings,
                address=address,
            )
            found.append(stack.enter_context(server))
        yield addresses(",".join(found))


def _broker(settings: dict[str, str], place: Path, log: Path) -> AbstractContextManager[object]:
    directory, zookeeper = Path(settings["log.dirs"]), settings["zookeeper.connect"]
    address = settings["listeners"].split(",")[0].partition("://")[2]
    output = place.with_suffix(".output")
    return kafka_server(directory, zookeeper, output, settings, address=address)


def comparison(
    suite: str, known: tuple[Explanation, ...], outcomes: list[Outcome]
) -> list[tuple[str, str, str, str]]:
    """A row for each explained test: the suite, the test, its end on Kafka, the reason."""
    rows = []
    for each in known:
        for pattern in each.tests:
            covered = [o for o in outcomes if Explanation((pattern,), each.why).covers(o.test)]
            results = {o.result for o in covered}
            end = FAILED if FAILED in results else PASSED if PASSED in results else _NOT_RUN
            rows.append((suite, pattern, end, each.why))
    return rows


def as_table(rows: list[tuple[str, str, str, str]]) -> str:
    """The rows as Markdown."""
    lines = ["| Suite | Test | On Apache Kafka 3.9 | Reason |", "|---|---|---|---|"]
    lines += [f"| {suite} | `{test}` | {end} | {why} |" for suite, test, end, why in rows]
    return "\n".join(lines)
