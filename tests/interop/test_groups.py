"""Consumer groups with real clients: mixed members, static ones, a coordinator that dies."""

from __future__ import annotations

import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, TopicPartition

from interop.members import KINDS, ConfluentMember, Member, Seen, running
from klamm import Cluster
from klamm.broker.coordinators.journal import partition_for
from klamm.model.names import CONSUMER_OFFSETS

pytestmark = [
    pytest.mark.interop,
    # kafka-python leaves the sockets open with which it tried to reach a dead broker.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.klamm(
        settings={
            "group.initial.rebalance.delay.ms": "100",
            "offsets.topic.num.partitions": "4",
        }
    ),
]


def produce(cluster: Cluster, topic: str, start: int, count: int) -> set[bytes]:
    """Values spread over all partitions."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5}
    )
    values = {b"%d" % number for number in range(start, start + count)}
    for value in values:
        producer.produce(topic, value, key=value)
    assert producer.flush(30) == 0
    return values


def committed(cluster: Cluster, group: str, topic: str, partitions: int) -> dict[int, int]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group}
    )
    asked = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]
    try:
        return {at.partition: at.offset for at in consumer.committed(asked, timeout=10)}
    finally:
        consumer.close()


def test_members_of_three_libraries_share_one_group(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=6, replication_factor=3)
    first = produce(klamm_cluster, "t", 0, 600)
    seen = Seen()
    members = [kind(klamm_cluster.bootstrap_servers, "g", "t", seen) for kind in KINDS]
    with running(*members):
        seen.wait_for(first)
        # Once all three are in, each has two of the six partitions and gets some of what follows.
        for more in range(1, 20):
            seen.wait_for(produce(klamm_cluster, "t", 600 * more, 600))
            if len(seen.readers) == 3:
                break
        assert len(seen.readers) == 3, f"only {seen.readers} were given partitions"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_group_resumes_where_it_committed(klamm_cluster: Cluster, kind: type[Member]) -> None:
    klamm_cluster.create_topic("t", partitions=3, replication_factor=3)
    first = produce(klamm_cluster, "t", 0, 300)
    seen = Seen()
    with running(kind(klamm_cluster.bootstrap_servers, "g", "t", seen)):
        seen.wait_for(first)
    kept = committed(klamm_cluster, "g", "t", 3)
    assert all(offset > 0 for offset in kept.values()), kept
    second = produce(klamm_cluster, "t", 300, 300)
    again = Seen()
    with running(kind(klamm_cluster.bootstrap_servers, "g", "t", again)):
        again.wait_for(second)
    repeated = sum(again.times(value) for value in first)
    assert repeated <= 300 - sum(kept.values()) + 1


def test_coordinator_killed_while_members_read(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=6, replication_factor=3)
    first = produce(klamm_cluster, "t", 0, 300)
    seen = Seen()
    members = [kind(klamm_cluster.bootstrap_servers, "g", "t", seen) for kind in KINDS]
    with running(*members):
        seen.wait_for(first)
        shard = partition_for("g", 4)
        klamm_cluster.wait_for_isr(CONSUMER_OFFSETS, shard, size=3)
        klamm_cluster.wait_for_isr("t", size=3)
        coordinator = klamm_cluster.wait_for_leader(CONSUMER_OFFSETS, shard)
        klamm_cluster.kill_broker(coordinator)
        seen.wait_for(produce(klamm_cluster, "t", 300, 300))
        klamm_cluster.start_broker(coordinator)
        seen.wait_for(produce(klamm_cluster, "t", 600, 300))


def test_static_member_returns_without_a_rebalance(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=4, replication_factor=3)
    servers = klamm_cluster.bootstrap_servers
    seen = Seen()
    stays = ConfluentMember(servers, "g", "t", seen, instance="stays")
    goes = ConfluentMember(servers, "g", "t", seen, instance="goes")
    with running(stays):
        with running(goes):
            for more in range(20):
                seen.wait_for(produce(klamm_cluster, "t", 400 * more, 400))
                if len(seen.readers) == 2:
                    break
            assert len(seen.readers) == 2
        before = stays.assignments
        returned = ConfluentMember(servers, "g", "t", seen, instance="goes")
        with running(returned):
            seen.wait_for(produce(klamm_cluster, "t", 10_000, 400))
        assert stays.assignments == before


def test_groups_are_listed_described_and_deleted(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=2, replication_factor=3)
    values = produce(klamm_cluster, "t", 0, 100)
    admin = AdminClient({"bootstrap.servers": klamm_cluster.bootstrap_servers})
    seen = Seen()
    with running(ConfluentMember(klamm_cluster.bootstrap_servers, "g", "t", seen)):
        seen.wait_for(values)
        listed = admin.list_consumer_groups(request_timeout=10).result()
        assert [group.group_id for group in listed.valid] == ["g"]
        described = admin.describe_consumer_groups(["g"], request_timeout=10)["g"].result()
        assert described.state.name == "STABLE"
        assert described.partition_assignor == "range"
        assert [len(m.assignment.topic_partitions) for m in described.members] == [2]
        with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups(["g"], request_timeout=10)["g"].result()
    admin.delete_consumer_groups(["g"], request_timeout=10)["g"].result()
    assert set(committed(klamm_cluster, "g", "t", 2).values()) == {confluent_kafka.OFFSET_INVALID}
    with pytest.raises(confluent_kafka.KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups(["g"], request_timeout=10)["g"].result()


def test_offsets_survive_the_crash_of_all_brokers_one_after_the_other(
    klamm_cluster: Cluster,
) -> None:
    klamm_cluster.create_topic("t", partitions=2, replication_factor=3)
    consumer = KafkaConsumer(
        bootstrap_servers=klamm_cluster.bootstrap_servers.split(","),
        group_id="g",
        enable_auto_commit=False,
    )
    from kafka.structs import OffsetAndMetadata

    consumer.assign([TopicPartition("t", 0)])
    consumer.commit({TopicPartition("t", 0): OffsetAndMetadata(17, "here", -1)})
    consumer.close()
    for broker in range(3):
        klamm_cluster.wait_for_isr(CONSUMER_OFFSETS, size=3)
        klamm_cluster.kill_broker(broker)
        klamm_cluster.start_broker(broker)
    klamm_cluster.wait_for_isr(CONSUMER_OFFSETS, size=3)
    assert committed(klamm_cluster, "g", "t", 1) == {0: 17}


def test_offsets_of_a_deleted_topic_are_forgotten(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=1, replication_factor=3)
    values = produce(klamm_cluster, "t", 0, 10)
    seen = Seen()
    with running(ConfluentMember(klamm_cluster.bootstrap_servers, "g", "t", seen)):
        seen.wait_for(values)
    assert committed(klamm_cluster, "g", "t", 1) == {0: 10}
    admin = AdminClient({"bootstrap.servers": klamm_cluster.bootstrap_servers})
    admin.delete_topics(["t"], operation_timeout=10)["t"].result()
    klamm_cluster.wait_for_no_topic("t")
    found = admin.list_consumer_group_offsets(
        [confluent_kafka.ConsumerGroupTopicPartitions("g")], request_timeout=10
    )["g"].result()
    assert [at for at in found.topic_partitions if at.topic == "t"] == []


@pytest.mark.klamm(settings={"klamm.delete.topic.keep.offsets": "true"})
def test_offsets_stay_while_a_deletion_hangs_where_that_is_asked_for(
    klamm_cluster: Cluster,
) -> None:
    klamm_cluster.create_topic("t", partitions=1, replication_factor=3)
    values = produce(klamm_cluster, "t", 0, 10)
    seen = Seen()
    with running(ConfluentMember(klamm_cluster.bootstrap_servers, "g", "t", seen)):
        seen.wait_for(values)
    admin = AdminClient({"bootstrap.servers": klamm_cluster.bootstrap_servers})
    shard = klamm_cluster.wait_for_leader(CONSUMER_OFFSETS, partition_for("g", 4))
    away = next(b for b in range(3) if b not in (shard, klamm_cluster.controller_id))
    klamm_cluster.stop_broker(away)
    admin.delete_topics(["t"], operation_timeout=10)["t"].result()
    klamm_cluster.wait_for_no_topic("t")

    def kept() -> int:
        found = admin.list_consumer_group_offsets(
            [confluent_kafka.ConsumerGroupTopicPartitions("g")], request_timeout=10
        )["g"].result()
        return sum(at.topic == "t" for at in found.topic_partitions)

    assert kept() == 1
    klamm_cluster.start_broker(away)
    deadline = time.monotonic() + 30
    while kept() and time.monotonic() < deadline:
        pass
    assert kept() == 0
