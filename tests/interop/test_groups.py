"""Consumer groups with real clients: mixed members, static ones, a coordinator that dies."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, TopicPartition

from interop.members import KINDS, ConfluentMember, Member, Seen, running
from klamm import Cluster
from klamm.broker.coordinators.journal import partition_for
from klamm.model.names import CONSUMER_OFFSETS

SETTINGS = {"group.initial.rebalance.delay.ms": "100", "offsets.topic.num.partitions": "4"}
pytestmark = [
    pytest.mark.interop,
    # kafka-python leaves the sockets open with which it tried to reach a dead broker.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.klamm(settings=SETTINGS),
]
names = (f"name-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def name() -> str:
    """A name that no other test uses, for its topic and its group."""
    return next(names)


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


def test_members_of_three_libraries_share_one_group(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=6, replication_factor=3)
    first = produce(cluster, name, 0, 600)
    seen = Seen()
    members = [kind(cluster.bootstrap_servers, name, name, seen) for kind in KINDS]
    with running(*members):
        seen.wait_for(first)
        # Once all three are in, each has two of the six partitions and gets some of what follows.
        for more in range(1, 20):
            seen.wait_for(produce(cluster, name, 600 * more, 600))
            if len(seen.readers) == 3:
                break
        assert len(seen.readers) == 3, f"only {seen.readers} were given partitions"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_group_resumes_where_it_committed(cluster: Cluster, name: str, kind: type[Member]) -> None:
    cluster.create_topic(name, partitions=3, replication_factor=3)
    first = produce(cluster, name, 0, 300)
    seen = Seen()
    with running(kind(cluster.bootstrap_servers, name, name, seen)):
        seen.wait_for(first)
    kept = committed(cluster, name, name, 3)
    assert all(offset > 0 for offset in kept.values()), kept
    second = produce(cluster, name, 300, 300)
    again = Seen()
    with running(kind(cluster.bootstrap_servers, name, name, again)):
        again.wait_for(second)
    repeated = sum(again.times(value) for value in first)
    assert repeated <= 300 - sum(kept.values()) + 1


def test_coordinator_killed_while_members_read(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=6, replication_factor=3)
    first = produce(cluster, name, 0, 300)
    seen = Seen()
    members = [kind(cluster.bootstrap_servers, name, name, seen) for kind in KINDS]
    with running(*members):
        seen.wait_for(first)
        shard = partition_for(name, 4)
        cluster.wait_for_isr(CONSUMER_OFFSETS, shard, size=3)
        cluster.wait_for_isr(name, size=3)
        coordinator = cluster.wait_for_leader(CONSUMER_OFFSETS, shard)
        cluster.kill_broker(coordinator)
        seen.wait_for(produce(cluster, name, 300, 300))
        cluster.start_broker(coordinator)
        seen.wait_for(produce(cluster, name, 600, 300))


def test_static_member_returns_without_a_rebalance(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=4, replication_factor=3)
    servers = cluster.bootstrap_servers
    seen = Seen()
    stays = ConfluentMember(servers, name, name, seen, instance="stays")
    goes = ConfluentMember(servers, name, name, seen, instance="goes")
    with running(stays):
        with running(goes):
            for more in range(20):
                seen.wait_for(produce(cluster, name, 400 * more, 400))
                if len(seen.readers) == 2:
                    break
            assert len(seen.readers) == 2
        before = stays.assignments
        returned = ConfluentMember(servers, name, name, seen, instance="goes")
        with running(returned):
            seen.wait_for(produce(cluster, name, 10_000, 400))
        assert stays.assignments == before


def test_groups_are_listed_described_and_deleted(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=2, replication_factor=3)
    values = produce(cluster, name, 0, 100)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    seen = Seen()
    with running(ConfluentMember(cluster.bootstrap_servers, name, name, seen)):
        seen.wait_for(values)
        listed = admin.list_consumer_groups(request_timeout=10).result()
        assert name in [group.group_id for group in listed.valid]
        described = admin.describe_consumer_groups([name], request_timeout=10)[name].result()
        assert described.state.name == "STABLE"
        assert described.partition_assignor == "range"
        assert [len(m.assignment.topic_partitions) for m in described.members] == [2]
        with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([name], request_timeout=10)[name].result()
    admin.delete_consumer_groups([name], request_timeout=10)[name].result()
    assert set(committed(cluster, name, name, 2).values()) == {confluent_kafka.OFFSET_INVALID}
    with pytest.raises(confluent_kafka.KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups([name], request_timeout=10)[name].result()


def test_offsets_survive_the_crash_of_all_brokers_one_after_the_other(
    cluster: Cluster,
    name: str,
) -> None:
    cluster.create_topic(name, partitions=2, replication_factor=3)
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers.split(","),
        group_id=name,
        enable_auto_commit=False,
    )
    from kafka.structs import OffsetAndMetadata

    consumer.assign([TopicPartition(name, 0)])
    consumer.commit({TopicPartition(name, 0): OffsetAndMetadata(17, "here", -1)})
    consumer.close()
    for broker in range(3):
        cluster.wait_for_isr(CONSUMER_OFFSETS, size=3)
        cluster.kill_broker(broker)
        cluster.start_broker(broker)
    cluster.wait_for_isr(CONSUMER_OFFSETS, size=3)
    assert committed(cluster, name, name, 1) == {0: 17}


def test_offsets_of_a_deleted_topic_are_forgotten(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=1, replication_factor=3)
    values = produce(cluster, name, 0, 10)
    seen = Seen()
    with running(ConfluentMember(cluster.bootstrap_servers, name, name, seen)):
        seen.wait_for(values)
    assert committed(cluster, name, name, 1) == {0: 10}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([name], operation_timeout=10)[name].result()
    cluster.wait_for_no_topic(name)
    found = admin.list_consumer_group_offsets(
        [confluent_kafka.ConsumerGroupTopicPartitions(name)], request_timeout=10
    )[name].result()
    assert [at for at in found.topic_partitions if at.topic == name] == []


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
