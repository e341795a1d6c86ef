"""Listeners by name: each caller is sent where it came from, brokers go their own way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.model.errors import ErrorCode, UsageError
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import describe_cluster, find_coordinator, metadata
from klamm.store import layout
from unit.broker.brokers import world

NAMES = {
    "listeners": "INTERNAL://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "advertised.listeners": "INTERNAL://127.0.0.1:0,CLIENTS://localhost:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, settings=NAMES) as running:
        running.create_topic("T", 2, 2)
        running.wait_for_isr("T")
        yield running


async def _asked(servers: str) -> tuple[set[str], set[str], set[str]]:
    """The addresses in Metadata, DescribeCluster and FindCoordinator."""
    host, _, port = servers.partition(",")[0].rpartition(":")
    connection = await Connection.open(host, int(port))
    seen = await connection.request(ApiKey.METADATA, 9, metadata.Request(topics=[]))
    told = await connection.request(ApiKey.DESCRIBE_CLUSTER, 0, describe_cluster.Request())
    asked = find_coordinator.Request(key_type=0, coordinator_keys=["g"])
    while True:
        (found,) = (await connection.request(ApiKey.FIND_COORDINATOR, 4, asked)).coordinators
        if found.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            break
    await connection.close()
    return (
        {f"{b.host}:{b.port}" for b in seen.brokers},
        {f"{b.host}:{b.port}" for b in told.brokers},
        {f"{found.host}:{found.port}"},
    )


@pytest.mark.interop
@pytest.mark.parametrize(("name", "host"), [("INTERNAL", "127.0.0.1"), ("CLIENTS", "localhost")])
def test_a_caller_is_sent_to_the_listener_it_came_through(
    cluster: Cluster, name: str, host: str
) -> None:
    servers = cluster.bootstrap_on(name)
    assert {address.rpartition(":")[0] for address in servers.split(",")} == {host}
    brokers, described, coordinator = asyncio.run(_asked(servers))
    assert brokers == described == set(servers.split(","))
    assert coordinator < brokers


@pytest.mark.interop
def test_a_registration_names_every_listener_as_kafkas_does(cluster: Cluster) -> None:
    async def registered() -> dict[str, object]:
        session = await cluster._app.store.connect()
        node = await session.get(layout.broker_path(0))
        await session.close()
        assert node is not None
        read: dict[str, object] = json.loads(node.data)
        return read

    node = cluster._run(registered())
    one, two = (cluster.bootstrap_on(n).partition(",")[0] for n in ("INTERNAL", "CLIENTS"))
    assert node["version"] == 5
    assert node["endpoints"] == [f"INTERNAL://{one}", f"CLIENTS://{two}"]
    assert node["listener_security_protocol_map"] == {
        "INTERNAL": "PLAINTEXT",
        "CLIENTS": "PLAINTEXT",
    }
    assert f"{node['host']}:{node['port']}" == one


@pytest.mark.interop
def test_brokers_use_the_listener_between_them_and_come_back_where_they_were(
    cluster: Cluster,
) -> None:
    before = cluster.bootstrap_on("CLIENTS")
    cluster.restart_broker(1)
    cluster.wait_for_isr("T")
    assert cluster.bootstrap_on("CLIENTS") == before
    broker = cluster._app.brokers[0]
    proven = {c.listener for c in broker.listeners.connections if c.is_broker}
    assert proven == {"INTERNAL"}


@pytest.mark.interop
def test_nobody_is_sent_to_a_listener_that_is_not_there(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="no broker has a listener OTHER"):
        cluster.bootstrap_on("OTHER")


@pytest.mark.interop
def test_a_control_plane_has_a_listener_of_its_own() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CTRL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CTRL:PLAINTEXT",
        "control.plane.listener.name": "CTRL",
    }
    with Cluster(2, settings=settings) as cluster:
        cluster.create_topic("T", 2, 2)
        cluster.wait_for_isr("T")
        controller = cluster.wait_for_controller()
        told = cluster._app.brokers[1 - controller]
        names = {c.listener for c in told.listeners.connections if c.is_broker}
        assert names == {"PLAINTEXT", "CTRL"}


@pytest.mark.interop
async def test_a_leader_without_the_callers_listener_is_not_found(tmp_path: Path) -> None:
    """Broker 1 has a listener that broker 0 has not."""
    async with world(tmp_path, count=1) as w:
        w.settings = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL2://127.0.0.1:0"} | {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL2:PLAINTEXT"
        }
        other = await w.start(1)
        await w.create("t", (0, 1), (1, 0))
        connection = await Connection.open("127.0.0.1", other.listeners.ports["SSL2"])
        asked = metadata.Request(topics=[metadata.MetadataRequestTopic(name="t")])
        codes = {}
        for version in (5, 6):
            seen = await connection.request(ApiKey.METADATA, version, asked)
            assert [broker.node_id for broker in seen.brokers] == [1]
            (topic,) = seen.topics
            codes[version] = {p.partition_index: p.error_code for p in topic.partitions}
            gone = next(p for p in topic.partitions if p.partition_index == 0)
            assert gone.leader_id == -1
        assert codes[5] == {0: ErrorCode.LEADER_NOT_AVAILABLE, 1: 0}
        assert codes[6] == {0: ErrorCode.LISTENER_NOT_FOUND, 1: 0}
        await connection.close()


@pytest.mark.interop
async def test_a_coordinator_without_the_callers_listener_is_not_found(tmp_path: Path) -> None:
    """Broker 0 leads the offsets of all groups, and lacks a listener that broker 1 has."""
    async with world(tmp_path, count=1) as w:
        w.settings = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL2://127.0.0.1:0"} | {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL2:PLAINTEXT"
        }
        other = await w.start(1)
        await w.create("__consumer_offsets", (0, 1))
        asked = find_coordinator.Request(key_type=0, coordinator_keys=["g"])
        found = {}
        for listener in ("PLAINTEXT", "SSL2"):
            connection = await Connection.open("127.0.0.1", other.listeners.ports[listener])
            told = await connection.request(ApiKey.FIND_COORDINATOR, 4, asked)
            (one,) = told.coordinators
            found[listener] = (one.error_code, one.node_id)
            await connection.close()
        assert found == {
            "PLAINTEXT": (0, 0),
            "SSL2": (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1),
        }


@pytest.mark.interop
def test_a_cluster_that_listens_everywhere_hands_out_an_address() -> None:
    from klamm.app.one_process import ClusterApp
    from klamm.app.plan import Plan
    from klamm.broker.net.addresses import own_address

    if own_address() is None:
        pytest.skip("this machine reaches nobody")

    async def run() -> None:
        app = ClusterApp(Plan(brokers=1, host="0.0.0.0"))
        await app.start()
        try:
            assert app.bootstrap_servers.startswith(f"{own_address()}:")
        finally:
            await app.kill()
        app = ClusterApp(Plan(brokers=1, host="0.0.0.0", advertise="kafka.example"))
        # Brokers have to reach each other there too, so only the address is looked at.
        (place,) = app.plan.places(0)
        assert place.host == "0.0.0.0"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:0"}, "nonroutable meta-address"),
        ({"listeners": "A://:0"}, "No security protocol defined for listener A"),
        ({"listeners": "PLAINTEXT://:9092,SASL_SSL://:9093"}, "leave room for 3"),
        ({"listeners": "PLAINTEXT://:0", "port": 9}, "leave out --host"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, object], why: str) -> None:
    port = settings.pop("port", 0)
    assert isinstance(port, int)
    with pytest.raises(UsageError, match=why):
        Cluster(3, settings=settings, port=port)
