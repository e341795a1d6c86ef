"""Two topics exchange their names: whoever is away, leads or takes over meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from klamm import Cluster
from klamm.cli.asking import run
from klamm.client.addresses import parse_bootstrap
from klamm.client.aio import freezing
from klamm.client.blocking.lookup import Lookup
from klamm.client.requests import Committed
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import RequestRefused
from klamm.model.names import TopicPartition as Place
from klamm.model.names import id_from_text
from klamm.protocol.private import PrivateKey

T = TypeVar("T")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(brokers=3, data=tmp_path / "data") as running:
        yield running


def lookup_of(cluster: Cluster) -> Lookup:
    return Lookup(ConnectionOptions(bootstrap=parse_bootstrap(cluster.bootstrap_servers)))


def fill(cluster: Cluster, name: str, partitions: int, text: str, count: int = 30) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for i in range(count):
        producer.produce(name, f"{text}{i}", partition=i % partitions)
    assert producer.flush(30) == 0


def content(cluster: Cluster, name: str) -> list[list[str]]:
    """The records of each partition."""
    lookup = lookup_of(cluster)
    ends = lookup.latest([Place(name, p) for p in lookup.view([name]).topics[name].leaders])
    found: list[list[str]] = [[] for _ in ends]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "looks"})
    try:
        consumer.assign([TopicPartition(name, tp.partition, 0) for tp in ends])
        while sum(map(len, found)) < sum(ends.values()):
            message = consumer.poll(10)
            assert message is not None, found
            assert message.error() is None, message.error()
            found[message.partition()].append(message.value().decode())
    finally:
        consumer.close()
    return found


def made(cluster: Cluster) -> tuple[dict[str, str], dict[str, list[list[str]]]]:
    """Two frozen topics of different shapes: their ids and what is in them."""
    lookup = lookup_of(cluster)
    for name, partitions in (("old", 3), ("new", 2)):
        lookup.create(name, partitions, replicas=2, configs={})
        fill(cluster, name, partitions, name)
    lookup.commit("readers", {Place("old", 2): Committed(7)})
    run(cluster.bootstrap_servers, lambda admin: freezing.freeze(admin, ["old", "new"]))
    ids = {name: lookup.view([name]).topics[name].id for name in ("old", "new")}
    return ids, {name: content(cluster, name) for name in ("old", "new")}


def swap(cluster: Cluster, ids: dict[str, str], one: str = "old", other: str = "new") -> None:
    body = {"topic": one, "topic_id": ids[one], "other": other, "other_id": ids[other]}
    run(
        cluster.bootstrap_servers,
        lambda admin: admin.ask_controller(PrivateKey.SWAP_TOPICS, body),
    )
    cluster.wait_until(
        lambda view: all(
            broker._snapshot.topic_ids.get(one) == id_from_text(ids[other])
            for broker in view.brokers.values()
        )
    )


def unfreeze(cluster: Cluster, name: str) -> None:
    run(cluster.bootstrap_servers, lambda admin: freezing.unfreeze(admin, [name]))


def test_names_are_exchanged_and_back(cluster: Cluster) -> None:
    ids, before = made(cluster)
    swap(cluster, ids)
    swap(cluster, ids)  # whoever did not hear the answer asks again
    assert content(cluster, "old") == before["new"]
    assert content(cluster, "new") == before["old"]
    assert lookup_of(cluster).committed("readers") == {Place("old", 2): Committed(7)}
    unfreeze(cluster, "old")
    fill(cluster, "old", 2, "later", 4)
    cluster.wait_for_isr("old")
    assert [len(part) for part in content(cluster, "old")] == [17, 17]
    run(cluster.bootstrap_servers, lambda admin: freezing.freeze(admin, ["old"]))
    swap(cluster, {"old": ids["new"], "new": ids["old"]})
    assert content(cluster, "old") == before["old"]


def test_a_broker_that_was_away_finds_its_logs(cluster: Cluster) -> None:
    ids, _ = made(cluster)
    away = next(b for b in range(3) if b != cluster.controller_id)
    cluster.stop_broker(away)
    cluster.wait_until(lambda view: len(view.brokers) == 2)
    for name, partitions in (("old", 3), ("new", 2)):
        for partition in range(partitions):
            cluster.wait_for_leader(name, partition, other_than=away)
    swap(cluster, ids)
    cluster.start_broker(away)
    cluster.wait_for_isr("old")
    cluster.wait_for_isr("new")
    assert not list(cluster.data.rglob("*-stray"))
    assert not list(cluster.data.rglob("klamm-renamed*"))
    for other in range(3):
        if other != away:
            cluster.stop_broker(other)
    cluster.start_broker((away + 1) % 3)
    cluster.wait_for_isr("old", size=1)


def test_a_controller_that_dies_after_the_write_has_a_successor(cluster: Cluster) -> None:
    ids, before = made(cluster)
    swap(cluster, ids)
    controller = cluster.controller_id
    assert controller is not None
    cluster.kill_broker(controller)
    cluster.wait_for_controller(other_than=controller)
    cluster.start_broker(controller)
    cluster.wait_for_isr("old")
    cluster.wait_for_isr("new")
    assert content(cluster, "old") == before["new"]
    assert content(cluster, "new") == before["old"]


def test_what_stands_in_the_way_is_told(cluster: Cluster) -> None:
    ids, _ = made(cluster)
    with pytest.raises(RequestRefused, match="is another topic by now"):
        swap(cluster, {**ids, "new": "A" * 22})
    with pytest.raises(RequestRefused, match="no two such topics"):
        swap(cluster, {**ids, "none": ids["new"]}, other="none")
    unfreeze(cluster, "new")
    with pytest.raises(RequestRefused, match="topic new is created, not frozen"):
        swap(cluster, ids)
