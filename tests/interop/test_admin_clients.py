"""Every administrative API through every admin client that has a call for it.

| API | confluent-kafka | kafka-python |
|---|---|---|
| CreateTopics, CreatePartitions, DeleteTopics | here | here |
| DescribeConfigs, IncrementalAlterConfigs, AlterConfigs | here | here |
| DescribeCluster, DeleteRecords, ListOffsets, Metadata | here | here |
| ElectLeaders | `test_controller_apis.py` | `test_controller_apis.py` |
| Alter- and ListPartitionReassignments | no call | `test_controller_apis.py` |
| DescribeLogDirs | no call | here |
| AlterReplicaLogDirs | no call | `test_log_dirs.py` |
| Alter- and DescribeUserScramCredentials | here | no call |
| Alter- and DescribeClientQuotas | no call | no call; `test_quotas.py` speaks the wire |

One cluster serves all tests; each has topics of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient, TopicPartition, admin, errors

from interop.lifecycle import Record
from interop.test_lifecycle_confluent import Confluent
from klamm import Cluster

S = 30  # seconds of patience


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"auto.leader.rebalance.enable": "false", "auto.create.topics.enable": "false"}
    with Cluster(3, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def confluent(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


@pytest.fixture(scope="module")
def python(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield client
    client.close()


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own: one partition on brokers 0, 1 and 2, with ten records."""
    name = request.node.name.removeprefix("test_")
    cluster.create_topic(name, partitions=1, replication_factor=3)
    cluster.wait_for_isr(name, size=3)
    records = [Record(0, b"k", b"v%d" % at, ()) for at in range(10)]
    Confluent(cluster.bootstrap_servers).produce(name, "none", records)
    return name


def code_of(call: Callable[[], object]) -> int:
    """The error code that a client makes of a refusal."""
    try:
        call()
    except KafkaException as refused:
        return int(refused.args[0].code())
    except errors.BrokerResponseError as refused:
        return int(refused.errno)
    pytest.fail("it was not refused")


def done(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(S)


def test_confluent_creates_grows_and_deletes(confluent: AdminClient, cluster: Cluster) -> None:
    settings = {"retention.ms": "5000"}
    new = NewTopic("a", 2, 2, config=settings)
    done(confluent.create_topics([new], validate_only=True))
    assert cluster.partition("a") is None
    done(confluent.create_topics([new]))
    assert code_of(lambda: done(confluent.create_topics([new]))) == 36
    cluster.wait_for_topic("a", partitions=2)
    done(confluent.create_partitions([NewPartitions("a", 3, [[2, 0]])]))
    cluster.wait_for_topic("a", partitions=3)
    assert code_of(lambda: done(confluent.create_partitions([NewPartitions("a", 3)]))) == 37
    described = done(confluent.describe_topics(TopicCollection(["a"])))
    assert [p.replicas[0].id for p in described.partitions[2:]] == [2]
    done(confluent.delete_topics(["a"]))
    assert code_of(lambda: done(confluent.delete_topics(["a"]))) == 3


def test_kafka_python_creates_grows_and_deletes(python: KafkaAdminClient, cluster: Cluster) -> None:
    wanted = {"b": {"num_partitions": 2, "replication_factor": 2, "configs": {"retention.ms": 5}}}
    python.create_topics(wanted, validate_only=True)
    assert cluster.partition("b") is None
    python.create_topics(wanted)
    assert code_of(lambda: python.create_topics(wanted)) == 36
    cluster.wait_for_topic("b", partitions=2)
    python.create_partitions({"b": {"count": 3, "assignments": [[2, 0]]}})
    cluster.wait_for_topic("b", partitions=3)
    assert code_of(lambda: python.create_partitions({"b": 3})) == 37
    (described,) = python.describe_topics(["b"])
    assert [p["replica_nodes"] for p in described["partitions"][2:]] == [[2, 0]]
    python.delete_topics(["b"])
    assert code_of(lambda: python.delete_topics(["b"])) == 3


def test_confluent_reads_and_changes_settings(confluent: AdminClient, topic: str) -> None:
    def settings() -> dict[str, Any]:
        found: dict[str, Any] = done(
            confluent.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        )
        return found

    def change(name: str, value: str | None, how: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=how)
        done(
            confluent.incremental_alter_configs(
                [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
            )
        )

    assert settings()["retention.ms"].is_default
    change("retention.ms", "7000", AlterConfigOpType.SET)
    change("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    now = settings()
    assert (now["retention.ms"].value, now["cleanup.policy"].value) == ("7000", "delete,compact")
    change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    change("retention.ms", None, AlterConfigOpType.DELETE)
    now = settings()
    assert (now["retention.ms"].is_default, now["cleanup.policy"].value) == (True, "compact")
    # The older call replaces everything.
    whole = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "60000"})
    with pytest.deprecated_call():
        done(confluent.alter_configs([whole]))
    now = settings()
    assert (now["segment.ms"].value, now["cleanup.policy"].value) == ("60000", "delete")
    broker = done(confluent.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert broker["broker.id"].value == "1"
    assert code_of(lambda: change("no.such", "1", AlterConfigOpType.SET)) == 40


@pytest.mark.parametrize("incremental", [True, False])
def test_kafka_python_reads_and_changes_settings(
    python: KafkaAdminClient, cluster: Cluster, incremental: bool
) -> None:
    name = f"settings-{incremental}"
    cluster.create_topic(name)
    kind = admin.ConfigResourceType.TOPIC

    def overrides() -> dict[str, str]:
        found = python.describe_configs([admin.ConfigResource(kind, name)])
        return {key: entry["value"] for key, entry in found["topic"].get(name, {}).items()}

    def changed(configs: Any) -> list[admin.ConfigResource]:
        return [admin.ConfigResource(kind, name, configs=configs)]

    python.alter_configs(changed({"retention.ms": "7000"}), incremental=incremental)
    python.alter_configs(changed({"segment.ms": "60000"}), incremental=incremental)
    assert overrides() == {"retention.ms": "7000", "segment.ms": "60000"}
    python.reset_configs(changed(["retention.ms"]), incremental=incremental)
    assert overrides() == {"segment.ms": "60000"}


def test_both_describe_the_cluster(
    confluent: AdminClient, python: KafkaAdminClient, cluster: Cluster
) -> None:
    controller = cluster.wait_for_controller()
    one = confluent.describe_cluster().result(S)
    other = python.describe_cluster()
    assert one.controller.id == other["controller_id"] == controller
    assert one.cluster_id == other["cluster_id"]
    ports = {node.id: node.port for node in one.nodes}
    assert ports == {node["broker_id"]: node["port"] for node in other["brokers"]}
    assert sorted(ports) == [0, 1, 2]


def test_confluent_makes_credentials_and_finds_them(confluent: AdminClient) -> None:
    (found,) = confluent.describe_user_scram_credentials(["ann"]).values()
    with pytest.raises(KafkaException) as unknown:
        found.result(S)
    assert unknown.value.args[0].name() == "RESOURCE_NOT_FOUND"
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    wish = UserScramCredentialUpsertion("ann", info, b"secret", b"salt")
    (made,) = confluent.alter_user_scram_credentials([wish]).values()
    assert made.result(S) is None
    assert "ann" in confluent.describe_user_scram_credentials().result(S)


def test_confluent_deletes_records(confluent: AdminClient, topic: str) -> None:
    done(confluent.delete_records([Partition(topic, 0, 4)]))
    partition = Partition(topic, 0)
    ends = [
        done(confluent.list_offsets({partition: spec})).offset
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    ]
    assert ends == [4, 10]
    assert code_of(lambda: done(confluent.delete_records([Partition(topic, 0, 99)]))) == 1


def test_kafka_python_deletes_records(python: KafkaAdminClient, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    python.delete_records({partition: 4})
    found = [python.list_partition_offsets({partition: at})[partition].offset for at in (-2, -1)]
    assert found == [4, 10]
    assert code_of(lambda: python.delete_records({partition: 99})) == 1


def test_kafka_python_measures_logs(python: KafkaAdminClient, topic: str) -> None:
    found = python.describe_log_dirs([topic])
    sizes = [
        partition["partition_size"]
        for broker in found
        for directory in broker["log_dirs"]
        for about in directory["topics"]
        for partition in about["partitions"]
    ]
    assert len(sizes) == 3
    assert len(set(sizes)) == 1
    assert sizes[0] > 10
