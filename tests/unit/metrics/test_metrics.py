"""What Prometheus is told, from real brokers over a real socket."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from klamm.metrics.families import Collector
from klamm.metrics.server import MetricsServer
from unit.broker.brokers import World, fetch, produce, world

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


async def ask(server: MetricsServer, line: str) -> tuple[str, str]:
    """The status line and the body of what is answered to a request."""
    host, _, rest = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(rest.partition("/")[0]))
    writer.write(f"{line}\r\nHost: {host}\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return head.splitlines()[0], body


def sample(families: dict[str, Metric], name: str, **labels: str) -> float:
    found = [
        s.value
        for family in families.values()
        for s in family.samples
        if s.name == name and labels.items() <= s.labels.items()
    ]
    assert found, (name, labels)
    return sum(found)


async def scraped(w: World) -> dict[str, Metric]:
    server = MetricsServer(w.brokers)
    await server.start("127.0.0.1", 0)
    try:
        status, text = await ask(server, "GET /metrics HTTP/1.1")
        assert status == "HTTP/1.1 200 OK"
        return {family.name: family for family in text_string_to_metric_families(text)}
    finally:
        await server.stop()


async def test_brokers_tell_what_they_did(tmp_path: Path) -> None:
    async with world(tmp_path, klamm_metrics_port="0") as w:
        await w.create("t", (0, 1), (1, 0))
        connection = await w.connect(0)
        assert (await produce(connection, b"a", b"b", acks=-1)).error_code == 0
        await fetch(connection, 0)
        await connection.close()
        seen = await scraped(w)
        assert sample(seen, "klamm_controller_active_controller_count") == 1
        assert sample(seen, "klamm_controller_global_partition_count") == 2
        assert sample(seen, "klamm_controller_active_broker_count") == 3
        assert sample(seen, "klamm_broker_leader_count", broker="1") == 1
        assert sample(seen, "klamm_broker_partition_count", broker="2") == 0
        assert sample(seen, "klamm_broker_messages_in_total", broker="0") == 2
        bytes_in = sample(seen, "klamm_broker_bytes_in_total", broker="0")
        assert bytes_in > 60
        assert sample(seen, "klamm_broker_bytes_out_total", broker="0") == bytes_in
        assert sample(seen, "klamm_broker_replication_bytes_out_total", broker="0") == bytes_in
        assert sample(seen, "klamm_broker_replication_bytes_in_total", broker="1") == bytes_in
        took = "klamm_broker_request_seconds"
        assert sample(seen, f"{took}_count", broker="0", api="Produce") == 1
        total = sample(seen, f"{took}_sum", broker="0", api="Produce")
        busy = "klamm_broker_request_handler_seconds_total"
        assert 0 < sample(seen, busy, broker="0", api="Produce") < total
        assert sample(seen, "klamm_controller_event_time_seconds_count", state="TopicChange")
        queue = "klamm_controller_event_queue_time_seconds_count"
        assert sample(seen, queue, event="TopicsHint") >= 1


async def test_nobody_is_timed_where_nobody_looks(tmp_path: Path) -> None:
    async with world(tmp_path, 1) as w:
        await w.create("t", (0,))
        connection = await w.connect(0)
        await produce(connection, b"a")
        await connection.close()
        assert w.brokers[0].parts.metrics.requests == {}


async def test_only_the_metrics_are_served_and_only_to_be_read() -> None:
    server = MetricsServer({})
    await server.start("127.0.0.1", 0)
    assert (await ask(server, "GET / HTTP/1.1"))[0] == "HTTP/1.1 404 Not Found"
    assert (await ask(server, "POST /metrics HTTP/1.1"))[0] == "HTTP/1.1 405 Method Not Allowed"
    assert (await ask(server, "HEAD /metrics HTTP/1.1")) == ("HTTP/1.1 200 OK", "")
    await server.stop()


def test_the_page_names_every_metric_and_no_other() -> None:
    told = set()
    for family in Collector({}).collect():
        told.add(family.name + ("_total" if family.type == "counter" else ""))
    assert set(re.findall(r"^\| `(klamm_\w+)`", PAGE.read_text(), re.MULTILINE)) == told
