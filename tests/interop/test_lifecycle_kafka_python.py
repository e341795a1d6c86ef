"""kafka-python, unmodified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import codec as kafka_codec
from kafka.admin import ConfigResource, ConfigResourceType

from interop.lifecycle import SETTINGS, PartitionFacts, Record, live_and_die
from klamm import Cluster


class KafkaPython:
    """How kafka-python does each step."""

    codecs = (
        "none",
        *(c for c in ("gzip", "snappy", "lz4", "zstd") if getattr(kafka_codec, f"has_{c}")()),
    )

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._admin.close()

    def create(self, topic: str, partitions: int, replication_factor: int) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": replication_factor}
        self._admin.create_topics({topic: wanted})

    def describe(self, topic: str) -> Mapping[int, PartitionFacts]:
        (described,) = self._admin.describe_topics([topic])
        return {
            p["partition_index"]: PartitionFacts(
                p["leader_id"], tuple(p["replica_nodes"]), tuple(p["isr_nodes"])
            )
            for p in described["partitions"]
        }

    def produce(self, topic: str, codec: str, records: Sequence[Record]) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all",
            linger_ms=5,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=record.partition,
                )
                for record in records
            ]
            producer.flush(timeout=60)
            for future in sent:
                future.get(timeout=10)
        finally:
            producer.close()

    def read(self, topic: str, partitions: Sequence[int], count: int) -> list[Record]:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, check_crcs=True)
        try:
            assigned = [TopicPartition(topic, at) for at in partitions]
            consumer.assign(assigned)
            consumer.seek_to_beginning(*assigned)
            found: list[Record] = []
            while len(found) < count:
                polled = consumer.poll(timeout_ms=10_000, max_records=5_000)
                assert polled, f"nothing more after {len(found)} of {count} records"
                found += [
                    Record(m.partition, m.key, m.value, tuple(m.headers))
                    for messages in polled.values()
                    for m in messages
                ]
            return found
        finally:
            consumer.close()

    def expand(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: total})

    def set_config(self, topic: str, name: str, value: str) -> None:
        self._alter(topic, {name: ("SET", value)})

    def delete_config(self, topic: str, name: str) -> None:
        self._alter(topic, {name: ("DELETE", None)})

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        described = self._admin.describe_configs([resource], config_filter="all")
        return str(described["topic"][topic][name]["value"])

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def _alter(self, topic: str, change: Mapping[str, object]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(change))
        self._admin.alter_configs([resource])


@pytest.mark.klamm(brokers=3, settings=SETTINGS)
def test_a_topics_life_with_kafka_python(klamm_cluster: Cluster) -> None:
    client = KafkaPython(klamm_cluster.bootstrap_servers)
    try:
        live_and_die(client, klamm_cluster, "life-of-a-topic")
    finally:
        client.close()
