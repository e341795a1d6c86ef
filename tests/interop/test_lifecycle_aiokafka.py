"""aiokafka, unmodified."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka import codec as aiokafka_codec
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from interop.lifecycle import SETTINGS, PartitionFacts, Record, live_and_die
from klamm import Cluster


class Aiokafka:
    """How aiokafka does each step, each step on one runner's loop."""

    codecs = (
        "none",
        *(c for c in ("gzip", "snappy", "lz4", "zstd") if getattr(aiokafka_codec, f"has_{c}")()),
    )

    def __init__(self, bootstrap: str, runner: asyncio.Runner) -> None:
        self._bootstrap = bootstrap
        self._run = runner.run
        self._admin = self._run(self._started())

    def close(self) -> None:
        self._run(self._admin.close())

    def create(self, topic: str, partitions: int, replication_factor: int) -> None:
        new = NewTopic(topic, partitions, replication_factor)
        answer = self._run(self._admin.create_topics([new]))
        assert [error[1] for error in answer.topic_errors] == [0]

    def describe(self, topic: str) -> Mapping[int, PartitionFacts]:
        (described,) = self._run(self._admin.describe_topics([topic]))
        return {
            p["partition"]: PartitionFacts(p["leader"], tuple(p["replicas"]), tuple(p["isr"]))
            for p in described["partitions"]
        }

    def produce(self, topic: str, codec: str, records: Sequence[Record]) -> None:
        self._run(self._produce(topic, codec, records))

    def read(self, topic: str, partitions: Sequence[int], count: int) -> list[Record]:
        return self._run(self._read(topic, partitions, count))

    def expand(self, topic: str, total: int) -> None:
        answer = self._run(self._admin.create_partitions({topic: NewPartitions(total)}))
        assert [error[1] for error in answer.topic_errors] == [0]

    def set_config(self, topic: str, name: str, value: str) -> None:
        self._alter(topic, {name: value})

    def delete_config(self, topic: str, name: str) -> None:
        # aiokafka knows only the older request, which replaces all overrides by those named.
        self._alter(topic, {})

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._run(self._admin.describe_configs([resource]))
        (described,) = answer.resources
        return str({entry[0]: entry[1] for entry in described[4]}[name])

    def delete(self, topic: str) -> None:
        answer = self._run(self._admin.delete_topics([topic]))
        assert [error[1] for error in answer.topic_error_codes] == [0]

    def topics(self) -> set[str]:
        return set(self._run(self._admin.list_topics()))

    async def _started(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        return admin

    async def _produce(self, topic: str, codec: str, records: Sequence[Record]) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all",
            linger_ms=5,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=record.partition,
                )
                for record in records
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    async def _read(self, topic: str, partitions: Sequence[int], count: int) -> list[Record]:
        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, check_crcs=True)
        await consumer.start()
        try:
            assigned = [TopicPartition(topic, at) for at in partitions]
            consumer.assign(assigned)
            await consumer.seek_to_beginning(*assigned)
            found: list[Record] = []
            while len(found) < count:
                polled = await consumer.getmany(timeout_ms=10_000, max_records=5_000)
                assert polled, f"nothing more after {len(found)} of {count} records"
                found += [
                    Record(m.partition, m.key, m.value, tuple(m.headers))
                    for messages in polled.values()
                    for m in messages
                ]
            return found
        finally:
            await consumer.stop()

    def _alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        (answer,) = self._run(self._admin.alter_configs([resource]))
        assert [resource[0] for resource in answer.resources] == [0]


@pytest.mark.klamm(brokers=3, settings=SETTINGS)
def test_a_topics_life_with_aiokafka(klamm_cluster: Cluster) -> None:
    with asyncio.Runner() as runner:
        client = Aiokafka(klamm_cluster.bootstrap_servers, runner)
        try:
            live_and_die(client, klamm_cluster, "life-of-a-topic")
        finally:
            client.close()
