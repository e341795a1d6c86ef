"""librdkafka, through confluent-kafka, unmodified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from interop.lifecycle import SETTINGS, PartitionFacts, Record, live_and_die
from klamm import Cluster


class Confluent:
    """How confluent-kafka does each step."""

    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int, replication_factor: int) -> None:
        new = NewTopic(topic, partitions, replication_factor)
        for future in self._admin.create_topics([new]).values():
            future.result(timeout=30)

    def describe(self, topic: str) -> Mapping[int, PartitionFacts]:
        described = self._admin.list_topics(topic, timeout=10).topics[topic]
        return {
            at: PartitionFacts(p.leader, tuple(p.replicas), tuple(p.isrs))
            for at, p in described.partitions.items()
        }

    def produce(self, topic: str, codec: str, records: Sequence[Record]) -> None:
        failures: list[KafkaError] = []

        def settled(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "compression.type": codec,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        for record in records:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=record.partition,
                on_delivery=settled,
            )
        assert producer.flush(60) == 0
        assert failures == []

    def read(self, topic: str, partitions: Sequence[int], count: int) -> list[Record]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "reads-by-assignment",
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, at, 0) for at in partitions])
            found: list[Record] = []
            while len(found) < count:
                messages = consumer.consume(count - len(found), timeout=10)
                assert messages, f"nothing more after {len(found)} of {count} records"
                found += map(_record, messages)
            return found
        finally:
            consumer.close()

    def expand(self, topic: str, total: int) -> None:
        for future in self._admin.create_partitions([NewPartitions(topic, total)]).values():
            future.result(timeout=30)

    def set_config(self, topic: str, name: str, value: str) -> None:
        self._alter(topic, name, value, AlterConfigOpType.SET)

    def delete_config(self, topic: str, name: str) -> None:
        self._alter(topic, name, None, AlterConfigOpType.DELETE)

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (future,) = self._admin.describe_configs([resource]).values()
        return str(future.result(timeout=10)[name].value)

    def delete(self, topic: str) -> None:
        for future in self._admin.delete_topics([topic]).values():
            future.result(timeout=30)

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=10).topics)

    def _alter(self, topic: str, name: str, value: str | None, op: AlterConfigOpType) -> None:
        entry = ConfigEntry(
            name,
            value,
            source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
            incremental_operation=op,
        )
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(timeout=30)


def _record(message: Message) -> Record:
    assert message.error() is None, message.error()
    headers = tuple(message.headers() or ())
    return Record(message.partition(), message.key(), message.value(), headers)


@pytest.mark.klamm(brokers=3, settings=SETTINGS)
def test_a_topics_life_with_confluent_kafka(klamm_cluster: Cluster) -> None:
    live_and_die(Confluent(klamm_cluster.bootstrap_servers), klamm_cluster, "life-of-a-topic")
