"""A cluster whose metadata is in a real ZooKeeper, in Kafka's layout."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from interop.lifecycle import SETTINGS, live_and_die
from interop.process import data_args, refused, up
from interop.test_lifecycle_confluent import Confluent
from klamm import Cluster
from klamm.broker.access.lists import Edit
from klamm.broker.term.standby import Standby
from klamm.cli.__main__ import main
from klamm.security.authorization.acls import (
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.store import layout
from klamm.store.port import Create
from klamm.store.zookeeper import ZooKeeperStore
from unit.broker.brokers import until
from unit.broker.standing_by import Writer, check
from unit.store.zookeeper_server import (
    SESSION_TIMEOUT_MS,
    ZooKeeperEnsemble,
    ZooKeeperServer,
    why_not,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.zookeeper,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def test_a_topics_life_on_zookeeper(zookeeper: ZooKeeperServer) -> None:
    with Cluster(3, settings=SETTINGS, zookeeper=f"{zookeeper.connect_string}/life") as cluster:
        live_and_die(Confluent(cluster.bootstrap_servers), cluster, "life-of-a-topic")


def test_a_zookeeper_of_the_clusters_own_comes_and_goes_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A session of a killed broker lasts for its time: as short as may be.
    quick = ("-X", f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}")
    args = (*data_args(tmp_path, brokers=2), *quick)
    with up(*args, "--zookeeper") as first:
        client = Confluent(first.bootstrap)
        client.create("kept", 2, 2)
        with reader(first.more["zookeeper"]) as tool:
            assert "kept" in tool.get_children("/brokers/topics")
            for write in (
                lambda: tool.delete("/controller"),
                lambda: tool.set("/brokers/topics/kept", b""),
                lambda: tool.get("/config/users"),
            ):
                with pytest.raises(NoAuthError):
                    write()
        first.crash()
    assert "start it with --zookeeper" in refused(*args)
    with up(*args, "--zookeeper-nodes", "1") as second:
        assert "kept" in Confluent(second.bootstrap).topics()
        assert second.stop() == 0
        host, _, port = second.more["zookeeper"].partition("/")[0].rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
    stopped = ["--brokers", "--offline", "--data", str(tmp_path)]
    assert main(["configs", "set", "max.connections=9", *stopped]) == 0
    capsys.readouterr()
    assert main(["configs", "get", *stopped]) == 0
    assert "max.connections" in capsys.readouterr().out


def test_a_setting_is_undone_past_the_brokers(
    zookeeper: ZooKeeperServer, capsys: pytest.CaptureFixture[str]
) -> None:
    connect = f"{zookeeper.connect_string}/offline"
    offline = ["--brokers", "--offline", "--zookeeper", connect]
    with Cluster(1, zookeeper=connect) as cluster:
        broker = cluster._app.brokers[0]
        assert main(["configs", "set", "max.connections=9", *offline]) == 0
        cluster._run(broker.parts.dynamic_config.caught_up())
        assert broker.parts.settings.int("max.connections") == 9, "a running broker hears of it"
    assert main(["configs", "unset", "max.connections", *offline]) == 0
    capsys.readouterr()
    assert main(["configs", "get", *offline]) == 0
    assert capsys.readouterr().out == ""


async def test_a_standby_has_at_hand_what_would_be_read(zookeeper: ZooKeeperServer) -> None:
    dice = random.Random(5)
    store = ZooKeeperStore(f"{zookeeper.connect_string}/standby")
    try:
        session, other = await store.connect(), await store.connect()
        for path in layout.with_parents([*layout.ROOTS, layout.FORGOTTEN]):
            await other.multi([Create(path)])
        writer = Writer(other, dice)
        for _ in range(5):
            standby = Standby(session, calm_s=0)
            await until(lambda standby=standby: standby.is_current, "it never had everything")
            for _ in range(dice.randrange(60)):
                await writer.do_something()
            assert await check(standby, session)
            await standby.close()
    finally:
        await store.close()


def test_another_broker_takes_over_when_the_controller_dies(zookeeper: ZooKeeperServer) -> None:
    settings = {"zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS}
    connect = f"{zookeeper.connect_string}/failover"
    with Cluster(3, settings=settings, zookeeper=connect) as cluster:
        cluster.create_topic("t", partitions=6, replication_factor=3)
        cluster.wait_for_isr("t", size=3)
        first = cluster.controller_id
        cluster.kill_broker(first)
        cluster.wait_for_controller(other_than=first)
        cluster.wait_for_isr("t", size=2)
        # What any tool for Kafka on ZooKeeper would find there.
        from kazoo.client import KazooClient

        tool = KazooClient(zookeeper.connect_string)
        tool.start()
        try:
            controller = json.loads(tool.get("/failover/controller")[0])
            state = json.loads(tool.get("/failover/brokers/topics/t/partitions/0/state")[0])
            brokers = tool.get_children("/failover/brokers/ids")
        finally:
            tool.stop()
            tool.close()
        assert controller["brokerid"] == cluster.controller_id
        assert sorted(state["isr"]) == sorted(int(broker) for broker in brokers)
        assert first not in state["isr"]


def test_no_broker_leads_while_zookeeper_is_away_and_one_does_when_it_is_back(
    zookeeper: ZooKeeperServer,
) -> None:
    settings = {"zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS}
    with Cluster(2, settings=settings, zookeeper=f"{zookeeper.connect_string}/away") as cluster:
        zookeeper.kill()
        # Nobody asks for anything meanwhile: the controller has to notice by itself.
        _until(lambda: cluster.controller_id is None)
        zookeeper.start()
        cluster.wait_for_controller(timeout_s=60)
        cluster.create_topic("t", partitions=2, replication_factor=2, timeout_s=60)
        cluster.wait_for_isr("t", size=2, timeout_s=60)


def _until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Look again until it holds: of the end of a term nobody is told."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.02)


CHANGES = 60  # of a topic's settings, while the ensemble loses its leader


def test_a_topics_life_while_zookeeper_loses_a_server_and_gets_it_back() -> None:
    """Sessions move to another server, nobody is taken for dead, no write is done twice."""
    ensemble = ZooKeeperEnsemble()
    try:
        ensemble.start()
        connect = f"{ensemble.connect_string}/ensemble"
        with Cluster(3, settings=SETTINGS, zookeeper=connect) as cluster, reader(connect) as tool:
            live_without_a_server(ensemble, cluster, tool)
    finally:
        ensemble.remove()


def live_without_a_server(ensemble: ZooKeeperEnsemble, cluster: Cluster, tool: Any) -> None:
    client = Confluent(cluster.bootstrap_servers)
    client.create("t", 3, 3)
    cluster.wait_for_isr("t", size=3)
    registered = [tool.get(f"/brokers/ids/{broker}")[1].czxid for broker in range(3)]
    epoch = tool.get("/controller_epoch")[0]

    lost = ensemble.leader()
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change_often, client)
        # Some changes before, some on their way, most after.
        tool_waits_for(lambda: len(tool.get_children("/config/changes")) >= 5)
        lost.kill()
        changing.result(120)
    client.expand("t", 5)
    cluster.wait_for_isr("t", size=3)
    lost.launch()
    lost.wait()
    client.create("u", 2, 3)
    cluster.wait_for_isr("u", size=3)

    assert tool.get("/config/topics/t")[1].version == CHANGES
    assert len(tool.get_children("/config/changes")) == CHANGES
    assert tool.get("/brokers/topics/t")[1].version == 1
    assert [tool.get(f"/brokers/ids/{broker}")[1].czxid for broker in range(3)] == registered
    assert tool.get("/controller_epoch")[0] == epoch
    states = [json.loads(tool.get(f"/brokers/topics/t/partitions/{p}/state")[0]) for p in range(5)]
    assert {state["leader_epoch"] for state in states} == {0}
    for topic in ("t", "u"):
        client.delete(topic)
    tool_waits_for(lambda: tool.get_children("/brokers/topics") == [])
    assert tool.get_children("/admin/delete_topics") == []


def change_often(client: Confluent) -> None:
    for number in range(CHANGES):
        client.set_config("t", "retention.ms", str(1_000_000 + number))


@contextmanager
def reader(connect: str) -> Iterator[Any]:
    """What any tool sees; it looks again where a server is lost under it."""
    from kazoo.client import KazooClient
    from kazoo.retry import KazooRetry

    tool = KazooClient(connect, command_retry=KazooRetry(max_tries=-1, max_delay=1))
    tool.start()
    try:
        yield SimpleNamespace(
            get=lambda path: tool.retry(tool.get, path),
            get_children=lambda path: tool.retry(tool.get_children, path),
            set=tool.set,
            delete=tool.delete,
        )
    finally:
        tool.stop()
        tool.close()


def tool_waits_for(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_lists_that_anybody_writes_into_kafkas_nodes_hold(zookeeper: ZooKeeperServer) -> None:
    """A cluster that comes from Kafka, or is shared with it, keeps its lists."""
    from kazoo.client import KazooClient

    connect = f"{zookeeper.connect_string}/lists"
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    orders = Pattern(ResourceType.TOPIC, "orders", PatternType.PREFIXED)
    other = Pattern(ResourceType.GROUP, "billing")
    read = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)
    with Cluster(2, settings=settings, zookeeper=connect) as cluster:
        here, there = (cluster._app.brokers[at].parts.lists for at in (0, 1))
        assert here is not None
        assert there is not None
        assert cluster._run(here.write({orders: Edit(frozenset({read}))})) == {}
        client = KazooClient(connect)
        client.start(10)
        try:
            data, _ = client.get("/kafka-acl-extended/prefixed/Topic/orders")
            assert json.loads(data)["acls"][0]["principal"] == "User:alice"
            client.create("/kafka-acl/Group/billing", data)
            change = "/kafka-acl-changes/acl_changes_"
            client.create(change, b"GROUP:billing", sequence=True)
        finally:
            client.stop()
            client.close()
        cluster._run(until(lambda: there.snapshot.acls(other) == {read}, "it was never heard of"))
        assert there.snapshot.acls(orders) == {read}
