"""The controller's own APIs, driven by real admin clients and by klamm's client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import kafka
import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    InvalidReplicationAssignmentError,
    NoReassignmentInProgressError,
)

from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.protocol.private import PrivateKey

SETTINGS = {"auto.leader.rebalance.enable": "false", "log.segment.delete.delay.ms": "100"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One that a test may take apart."""
    with Cluster(4, settings=SETTINGS, data=tmp_path) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    """One that all tests share which leave its brokers alone, and its data."""
    data = tmp_path_factory.mktemp("calm")
    with Cluster(4, settings=SETTINGS, data=data) as cluster:
        yield cluster, data


@pytest.fixture(scope="module")
def admin(calm: tuple[Cluster, Path]) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=calm[0].bootstrap_servers)) as client:
        yield client


def ask(cluster: Cluster, broker: int, key: PrivateKey, body: dict[str, Any]) -> dict[str, Any]:
    async def asked() -> dict[str, Any]:
        host, _, port = cluster.bootstrap_servers.split(",")[broker].rpartition(":")
        connection = await Connection.open(host, int(port))
        try:
            return await connection.ask(key, body)
        finally:
            await connection.close()

    return asyncio.run(asked())


def create(cluster: Cluster, replicas: list[int], name: str = "T") -> None:
    """A topic with one partition on these brokers."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    client.create_topics([NewTopic(name, 1, replica_assignment=[replicas])])[name].result(30)
    cluster.wait_for_topic(name)


def eventually(holds: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """For what no broker announces: the state of disks and of the store."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def leader_lost(cluster: Cluster) -> None:
    """T-0 prefers broker 1 and is led by broker 2, with 1 in sync again."""
    create(cluster, [1, 2])
    cluster.stop_broker(1)
    cluster.wait_for_leader("T", 0, other_than=1)
    cluster.start_broker(1)
    cluster.wait_for_isr("T", size=2)


def test_kafka_python_gives_leadership_back(cluster: Cluster) -> None:
    leader_lost(cluster)
    # A client from before would find its connections broken, and give up.
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.elect_leaders(0, {"T": [0]})
    seen = cluster.partition("T")
    assert seen is not None
    assert seen.leader == 1


def test_confluent_gives_leadership_back(cluster: Cluster) -> None:
    leader_lost(cluster)
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    partition = TopicPartition("T", 0)
    result = client.elect_leaders(ElectionType.PREFERRED, [partition]).result(30)
    assert [error for error in result.values() if error is not None] == []
    seen = cluster.partition("T")
    assert seen is not None
    assert seen.leader == 1
    again = client.elect_leaders(ElectionType.PREFERRED, [partition]).result(30)
    assert [error.code() for error in again.values()] == [84]  # not needed


def test_an_unclean_election_is_for_whoever_asks_for_it(cluster: Cluster) -> None:
    create(cluster, [1, 2])
    cluster.stop_broker(2)
    cluster.wait_for_isr("T", size=1)
    cluster.kill_broker(1)
    cluster.start_broker(2)
    cluster.wait_until(lambda view: 2 in view.brokers)
    alive = cluster.bootstrap_servers.split(",")[0]
    with closing(KafkaAdminClient(bootstrap_servers=alive)) as admin:  # gives up on a dead broker
        admin.elect_leaders(1, {"T": [0]})
    cluster.wait_for_leader("T", 0, other_than=1)


def test_a_partition_moves_and_its_old_logs_are_removed(
    calm: tuple[Cluster, Path], admin: KafkaAdminClient
) -> None:
    cluster, data = calm
    create(cluster, [0, 1], "moved")
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    for number in range(100):
        producer.send("moved", b"%d" % number)
    producer.flush()
    producer.close()
    partition = kafka.TopicPartition("moved", 0)
    assert admin.alter_partition_reassignments({partition: [2, 3]}) == {partition: None}
    cluster.wait_until(lambda view: _replicas_of(view, "moved") == (2, 3), timeout_s=60)
    assert admin.list_partition_reassignments() == {}
    eventually(lambda: _hosts(data, "moved-0") == {2, 3})
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    consumer.assign([partition])
    read = [next(consumer).value for _ in range(100)]
    consumer.close()
    assert read == [b"%d" % number for number in range(100)]


def test_a_move_under_way_is_listed_and_called_off(
    calm: tuple[Cluster, Path], admin: KafkaAdminClient
) -> None:
    cluster, _ = calm
    create(cluster, [0, 1], "held")
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    for _ in range(4):
        producer.send("held", bytes(900_000))  # more than the one fetch that is always free
    producer.flush()
    producer.close()
    topic = ConfigResource(
        ConfigResourceType.TOPIC, "held", configs={"follower.replication.throttled.replicas": "*"}
    )
    broker = ConfigResource(
        ConfigResourceType.BROKER, "2", configs={"follower.replication.throttled.rate": "0"}
    )
    admin.alter_configs([topic, broker])
    eventually(lambda: _rate(admin) == "0")
    partition = kafka.TopicPartition("held", 0)
    assert admin.alter_partition_reassignments({partition: [0, 2]}) == {partition: None}
    (move,) = admin.list_partition_reassignments().values()
    assert (move["adding_replicas"], move["removing_replicas"]) == ([2], [1])
    assert admin.alter_partition_reassignments({partition: None}) == {partition: None}
    cluster.wait_until(lambda view: _replicas_of(view, "held") == (0, 1))
    assert admin.list_partition_reassignments() == {}
    admin.reset_configs([broker])


def _rate(admin: KafkaAdminClient) -> str | None:
    """The throttle in force on broker 2."""
    name = "follower.replication.throttled.rate"
    broker = ConfigResource(ConfigResourceType.BROKER, "2", configs={name: None})
    found = admin.describe_configs([broker], config_filter="all")["broker"]["2"]
    return str(found[name]["value"])


def test_moves_that_cannot_be_are_refused(
    calm: tuple[Cluster, Path], admin: KafkaAdminClient
) -> None:
    create(calm[0], [0, 1], "fixed")
    partition = kafka.TopicPartition("fixed", 0)
    with pytest.raises(NoReassignmentInProgressError):
        _only(admin.alter_partition_reassignments({partition: None}))
    with pytest.raises(InvalidReplicationAssignmentError):
        _only(admin.alter_partition_reassignments({partition: [0, 9]}))


def _only(results: dict[Any, Any]) -> None:
    for error in results.values():
        if error is not None:
            raise error


def test_the_story_of_a_topic_is_told_by_the_controller(calm: tuple[Cluster, Path]) -> None:
    cluster, _ = calm
    create(cluster, [0, 1], "told")
    controller = cluster.wait_for_controller()
    assert isinstance(controller, int)
    story = ask(cluster, controller, PrivateKey.STORY, {"topic": "told"})
    subjects = [entry["subject"] for entry in story["entries"]]
    assert subjects[0] == "topic told"
    assert "told-0 on broker 1" in subjects


def test_states_are_told_and_a_decision_wakes_whoever_waits_for_it(
    calm: tuple[Cluster, Path],
) -> None:
    cluster, _ = calm
    create(cluster, [0, 1], "stated")
    controller = cluster.wait_for_controller()
    assert isinstance(controller, int)
    found = ask(cluster, controller, PrivateKey.STATES, {"topics": ["stated"], "machines": True})
    assert [machine["entity"] for machine in found["machines"]] == ["topic", "partition", "replica"]
    partition = found["topics"][0]["partitions"][0]
    assert partition["replica_states"] == ["Online", "Online"]
    assert (partition["state"], partition["leader"], partition["isr"]) == ("Online", 0, [0, 1])
    waiting = {"place": found["place"], "wait_ms": 20_000}
    with ThreadPoolExecutor(1) as pool:
        news = pool.submit(ask, cluster, controller, PrivateKey.STATES, waiting)
        create(cluster, [1], "awaited")
        told = news.result(30)
    assert {line["topic"] for line in told["lines"]} >= {"awaited"}
    assert told["gap"] is False
    assert [topic["name"] for topic in told["topics"]] == ["awaited"]
    old = {"place": [found["place"][0] - 1, 0]}
    assert ask(cluster, controller, PrivateKey.STATES, old)["gap"] is True
    other = next(id for id in range(4) if id != controller)
    assert ask(cluster, other, PrivateKey.STATES, {})["error_code"] == 41
    wrong = ask(cluster, controller, PrivateKey.STATES, {"place": "here"})
    assert wrong["error_code"] == 42


def test_a_stuck_deletion_is_explained_and_can_be_ended(cluster: Cluster, tmp_path: Path) -> None:
    controller = cluster.wait_for_controller()
    absent = next(id for id in range(4) if id != controller)
    create(cluster, [absent, controller])
    cluster.kill_broker(absent)
    cluster.wait_for_leader("T", 0, other_than=absent)
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    client.delete_topics(["T"])["T"].result(30)

    def waiting() -> list[tuple[str, int, str]]:
        answer = ask(cluster, controller, PrivateKey.EXPLAIN, {"topic": "T"})
        return [(w["what"], w["broker"], w["why"]) for w in answer["waiting"]]

    # The copy of the broker that is there goes in a moment; the other one is what it waits for.
    eventually(lambda: waiting() == [("deletion", absent, "broker is down")])
    refused = ask(cluster, controller, PrivateKey.FORGET_REPLICA, {"topic": "T", "broker": 9})
    assert refused["error_code"] == 42
    body = {"topic": "T", "broker": absent}
    assert ask(cluster, controller, PrivateKey.FORGET_REPLICA, body)["error_code"] == 0
    eventually(lambda: not any(path.endswith("/T") for path in cluster.store_paths()))
    assert absent in _hosts(tmp_path, "T-0")
    cluster.start_broker(absent)
    eventually(lambda: _hosts(tmp_path, "T-0") == set())


def test_a_plan_is_made_and_not_followed(calm: tuple[Cluster, Path]) -> None:
    cluster, _ = calm
    create(cluster, [0, 1], "planned")
    controller = cluster.wait_for_controller()
    wanted = [{"topic": "planned", "partition": 0, "replicas": [2, 3]}]
    plan = ask(cluster, controller, PrivateKey.PLAN, {"kind": "move", "partitions": wanted})
    assert (plan["error_code"], plan["refused"]) == (0, [])
    assert [m["after"] for m in plan["moves"] if m["subject"] == "planned-0 replicas"] == [
        "2,3,0,1"
    ]
    wanted[0]["replicas"] = [9]
    plan = ask(cluster, controller, PrivateKey.PLAN, {"kind": "move", "partitions": wanted})
    assert [r["error_code"] for r in plan["refused"]] == [39]
    plan = ask(cluster, controller, PrivateKey.PLAN, {"kind": "delete", "topics": ["planned"]})
    assert plan["moves"][0]["after"] == "queued for deletion"
    assert ask(cluster, controller, PrivateKey.PLAN, {"kind": "guess"})["error_code"] == 42
    assert _replicas_of(cluster.view, "planned") == (0, 1)


def test_calling_a_deletion_off_is_opt_in(calm: tuple[Cluster, Path]) -> None:
    cluster, _ = calm
    controller = cluster.wait_for_controller()
    answer = ask(cluster, controller, PrivateKey.CANCEL_DELETION, {"topic": "T"})
    assert answer["error_code"] == 42
    assert "klamm.delete.topic.cancel.enable" in answer["error_message"]


def _replicas_of(view: Any, topic: str) -> tuple[int, ...]:
    found = view.partition(topic, 0)
    return tuple(found.replicas) if found else ()


def _hosts(data: Path, partition: str) -> set[int]:
    """The brokers with a live log of this partition."""
    return {int(path.parent.name.removeprefix("broker-")) for path in data.glob(f"*/{partition}")}
