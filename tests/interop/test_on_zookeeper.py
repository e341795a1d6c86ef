"""A cluster whose metadata is in a real ZooKeeper, in Kafka's layout."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from interop.lifecycle import SETTINGS, live_and_die
from interop.test_lifecycle_confluent import Confluent
from klamm import Cluster
from unit.store.zookeeper_server import SESSION_TIMEOUT_MS, ZooKeeperServer, why_not

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
