"""The ledger as a topic: complete, in order, once; whatever happens to brokers and to the topic."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin import ResourceType as Kind

from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.model.names import KLAMM_LEDGER

_ENABLE = "klamm.ledger.topic.enable"
Number = tuple[int, int]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, settings={_ENABLE: "true"}) as running:
        running.create_topic("first", partitions=1, replication_factor=3)
        yield running


def _written(cluster: Cluster) -> dict[Number, dict[str, Any]]:
    """Every line in the brokers' files."""
    entries = (
        json.loads(line)
        for path in cluster.data.glob("broker-*/ledger-*.jsonl")
        for line in path.read_text().splitlines()
        if line.endswith("}")
    )
    return {(e["controller_epoch"], e["sequence"]): e for e in entries}


def _read(cluster: Cluster) -> list[tuple[str, dict[str, Any] | None]]:
    """Keys and entries of the topic as it is now."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(KLAMM_LEDGER, 0, 0)])
    found: list[tuple[str, dict[str, Any] | None]] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, "the topic can be read"
            fault = message.error()
            if fault is not None and fault.code() == KafkaError._PARTITION_EOF:
                return found
            assert fault is None, fault
            key, value = message.key(), message.value()
            assert key is not None
            found.append((key.decode(), None if value is None else json.loads(value)))
    finally:
        consumer.close()


def _numbers(cluster: Cluster) -> list[Number]:
    return [(e["controller_epoch"], e["sequence"]) for _, e in _read(cluster) if e is not None]


def _await_all(cluster: Cluster) -> list[Number]:
    """Until the topic has all that is not about itself; every one once."""
    deadline = time.monotonic() + 60
    while True:
        wanted = {n for n, e in _written(cluster).items() if e["topic"] != KLAMM_LEDGER}
        found = _numbers(cluster) if cluster.partition(KLAMM_LEDGER) else []
        if wanted <= set(found):
            assert len(found) == len(set(found)), "a line came twice"
            return found
        assert time.monotonic() < deadline, sorted(wanted - set(found))
        time.sleep(0.1)


def test_every_line_is_in_the_topic_in_order_under_its_subject(cluster: Cluster) -> None:
    found = _await_all(cluster)
    assert found == sorted(found)
    written = _written(cluster)
    for key, entry in _read(cluster):
        if entry is not None:
            assert key == entry["subject"]
            assert entry == written[entry["controller_epoch"], entry["sequence"]]
    topics = {e["topic"]: e["topic_id"] for e in written.values() if e["topic"]}
    assert all(topics.values())


def test_it_is_internal_compacted_and_closed_to_others(cluster: Cluster) -> None:
    _await_all(cluster)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    about = ConfigResource(Kind.TOPIC, KLAMM_LEDGER)
    configs = admin.describe_configs([about])[about].result(30)
    assert configs["cleanup.policy"].value == "compact"
    assert configs["min.compaction.lag.ms"].value == "604800000"
    (described,) = admin.describe_topics(TopicCollection([KLAMM_LEDGER])).values()
    assert described.result(30).is_internal
    faults: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(KLAMM_LEDGER, b"forged", on_delivery=lambda fault, _: faults.append(fault))
    producer.flush(30)
    assert [fault and fault.code() for fault in faults] == [KafkaError.TOPIC_EXCEPTION]


def test_what_happens_to_the_topic_itself_is_not_told_for_ever(cluster: Cluster) -> None:
    _await_all(cluster)
    own = [n for n, e in _written(cluster).items() if e["topic"] == KLAMM_LEDGER]
    assert own, "its creation is written down"
    cluster.create_topic("second", partitions=1, replication_factor=1)
    # What is about the topic travels with what is not.
    assert set(own) <= set(_await_all(cluster))
    lines = len(_written(cluster))
    cluster.create_topic("third", partitions=1, replication_factor=1)
    _await_all(cluster)
    # Nothing but the life of one small topic: created, New, Online; partition and replica.
    assert len(_written(cluster)) - lines == 5


def _story(
    cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["story", topic, "-o", "json", "-b", cluster.bootstrap_servers]) == 0
    told: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return told


def test_a_killed_controllers_lines_are_told_and_come_when_it_is_back(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.wait_for_isr(KLAMM_LEDGER, size=3)
    first = cluster.wait_for_controller()
    cluster.create_topic("of-the-dead", partitions=1, replication_factor=3)
    _await_all(cluster)
    cluster.create_topic("fourth", partitions=3, replication_factor=3)
    cluster.kill_broker(first)
    cluster.wait_for_controller(other_than=first)
    told = _story(cluster, "of-the-dead", capsys)
    assert told[0]["controller_id"] == first, "decided by a broker that is down"
    assert [e["after"] for e in told][:2] == ["created", "New"]
    cluster.create_topic("fifth", partitions=1, replication_factor=1)
    # A cursor that was not saved: the topic itself tells what it has.
    (cluster.data / f"broker-{first}" / "ledger-forwarded.json").unlink(missing_ok=True)
    cluster.start_broker(first)
    found = _await_all(cluster)
    assert len({epoch for epoch, _ in found}) == 2


def test_a_deleted_topic_is_made_again_with_everything(cluster: Cluster) -> None:
    before = set(_await_all(cluster))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([KLAMM_LEDGER])[KLAMM_LEDGER].result(30)
    cluster.wait_for_no_topic(KLAMM_LEDGER)
    cluster.create_topic("sixth", partitions=1, replication_factor=1)
    # Also from brokers that were controllers only once.
    assert before <= set(_await_all(cluster))


def test_without_enough_brokers_it_waits_and_nothing_else_does() -> None:
    with Cluster(2, settings={_ENABLE: "true"}) as cluster:
        other = 1 - cluster.wait_for_controller()
        cluster.stop_broker(other)
        cluster.create_topic("early", partitions=1, replication_factor=1)
        assert cluster.partition(KLAMM_LEDGER) is None
        cluster.start_broker(other)
        cluster.wait_for_topic(KLAMM_LEDGER)
        _await_all(cluster)


def test_switched_on_later_it_begins_with_what_is_on_the_disks() -> None:
    with Cluster(1) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=1)
        assert cluster.partition(KLAMM_LEDGER) is None
        entry = ConfigEntry(_ENABLE, "true", incremental_operation=AlterConfigOpType.SET)
        every = ConfigResource(Kind.BROKER, "0", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.incremental_alter_configs([every])[every].result(30)
        cluster.wait_for_topic(KLAMM_LEDGER)
        assert (1, 1) in _await_all(cluster)
