"""What a client sees of replication: which replica it reads from, and what it is told."""

from __future__ import annotations

import json

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from klamm import Cluster

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def fill(cluster: Cluster, count: int, **config: object) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **config})
    for at in range(count):
        producer.produce("t", b"%d" % at, partition=0)
    assert producer.flush(30) == 0


def read(cluster: Cluster, count: int, **config: object) -> tuple[list[bytes], set[int]]:
    """The values of partition 0, and the brokers they were fetched from."""
    sources: set[int] = set()

    def note(text: str) -> None:
        partitions = json.loads(text)["topics"].get("t", {}).get("partitions", {})
        sources.add(partitions.get("0", {}).get("broker", -1))

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "enable.auto.commit": False,
            "statistics.interval.ms": 50,
            "stats_cb": note,
            **config,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(20)
        assert message is not None, f"{len(found)} of {count} records came"
        assert message.error() is None, message.error()
        value = message.value()
        assert isinstance(value, bytes)
        found.append(value)
    # The next fetch goes to the same broker, and so do the next statistics tell.
    sources.clear()
    for _ in range(200):
        if sources - {-1}:
            break
        consumer.poll(0.1)
    consumer.close()
    return found, sources - {-1}


def test_a_consumer_reads_from_the_replica_in_its_rack() -> None:
    racks = ("east", "west", "north")
    settings = {"replica.selector.class": RACK_AWARE}
    with Cluster(brokers=3, racks=racks, settings=settings) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        fill(cluster, 2_000)
        leader = cluster.wait_for_leader("t")
        near = (leader + 1) % 3
        expected = [b"%d" % at for at in range(2_000)]
        found, sources = read(
            cluster, 2_000, **{"client.rack": racks[near], "fetch.message.max.bytes": 2_000}
        )
        assert found == expected
        assert sources == {near}, f"the leader is {leader}"
        found, sources = read(cluster, 2_000)
        assert found == expected
        assert sources == {leader}


def test_too_few_replicas_in_sync_refuse_a_write_and_take_it_later() -> None:
    with Cluster(brokers=2, settings={"min.insync.replicas": "2"}) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=2)
        fill(cluster, 1)
        follower = 1 - cluster.wait_for_leader("t")
        cluster.kill_broker(follower)
        cluster.wait_for_isr("t", size=1)
        told: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "message.send.max.retries": 0,
                "delivery.timeout.ms": 5_000,
            }
        )
        producer.produce("t", b"refused", on_delivery=lambda error, _: told.append(error))
        assert producer.flush(10) == 0
        assert [error.name() for error in told] == ["NOT_ENOUGH_REPLICAS"]  # type: ignore[attr-defined]
        cluster.start_broker(follower)
        cluster.wait_for_isr("t", size=2)
        fill(cluster, 1)
        assert read(cluster, 2)[0] == [b"0", b"0"]


def test_deleted_records_do_not_come_back_with_another_leader() -> None:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        fill(cluster, 100)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        (answer,) = admin.delete_records([TopicPartition("t", 0, 40)]).values()
        assert answer.result(timeout=20).low_watermark == 40
        leader = cluster.wait_for_leader("t")
        cluster.kill_broker(leader)
        cluster.wait_for_leader("t", other_than=leader)
        # A client that knows nothing of the leader that died.
        later = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        (found,) = later.list_offsets({TopicPartition("t", 0): OffsetSpec.earliest()}).values()
        assert found.result(timeout=20).offset == 40
        assert read(cluster, 60, **{"auto.offset.reset": "earliest"})[0][0] == b"40"


def test_followers_get_every_batch_that_has_no_room_beside_others() -> None:
    """Twelve partitions at once, where an answer has room for one batch and a half."""
    with Cluster(2, **{"replica.fetch.response.max.bytes": 1500}) as cluster:
        cluster.create_topic("t", partitions=12, replication_factor=2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        for at in range(12):
            producer.produce("t", b"x" * 1000, partition=at)
        assert producer.flush(30) == 0
