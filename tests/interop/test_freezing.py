"""A frozen topic: every broker refuses records, whoever leads and whoever is the controller."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.cli.asking import run
from klamm.cli.topics import changes as topic_changes
from klamm.client.aio import freezing
from klamm.client.aio.admin import Admin
from klamm.model.errors import ErrorCode, KlammError, RequestRefused
from klamm.protocol.private import PrivateKey

T = TypeVar("T")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"auto.leader.rebalance.enable": False, "transaction.state.log.num.partitions": 1}
    with Cluster(2, settings=settings) as running:
        yield running


def _do(cluster: Cluster, work: Callable[[Admin], Awaitable[T]]) -> T:
    return run(cluster.bootstrap_servers, work)


def _klamm(cluster: Cluster, *line: str) -> int:
    return main([*line, "-b", cluster.bootstrap_servers])


def _produce(cluster: Cluster, topic: str) -> str | None:
    """What a broker says against a record, if anything."""
    faults: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, b"v", partition=0, on_delivery=lambda fault, _: faults.append(fault))
    assert producer.flush(30) == 0
    return faults[0].name() if faults[0] else None


def test_a_frozen_topic_stays_frozen_through_failovers_and_restarts(cluster: Cluster) -> None:
    cluster.create_topic("kept", partitions=2, replication_factor=2)
    cluster.wait_for_isr("kept", size=2)
    assert _produce(cluster, "kept") is None
    assert _klamm(cluster, "topics", "freeze", "kept") == 0
    assert _produce(cluster, "kept") == "POLICY_VIOLATION"
    for _ in range(2):
        controller = cluster.controller_id
        assert controller is not None
        cluster.stop_broker(controller)
        cluster.wait_for_controller(other_than=controller)
        cluster.wait_for_leader("kept", other_than=controller)
        assert _produce(cluster, "kept") == "POLICY_VIOLATION"
        cluster.start_broker(controller)
        cluster.wait_for_isr("kept", size=2)
    assert _klamm(cluster, "topics", "unfreeze", "kept") == 0
    assert _produce(cluster, "kept") is None


def test_a_transaction_that_was_open_can_end(cluster: Cluster) -> None:
    cluster.create_topic("open", partitions=1, replication_factor=2)
    for commit in (True, False):
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"open-{commit}"}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("open", b"before")
        assert producer.flush(30) == 0
        assert _klamm(cluster, "topics", "freeze", "open") == 0
        if commit:
            producer.commit_transaction(30)
        else:
            producer.produce("open", b"after")
            with pytest.raises(KafkaException):
                producer.commit_transaction(30)
            producer.abort_transaction(30)
        assert _klamm(cluster, "topics", "unfreeze", "open") == 0


def test_groups_go_on_while_their_topic_is_frozen(cluster: Cluster) -> None:
    """What brokers write for clients is not what clients write, also where topics are internal."""
    cluster.create_topic("read", partitions=1, replication_factor=1)
    reach = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers"}
    consumer = Consumer(reach | {"enable.auto.commit": False})
    try:
        for offset, topic in ((3, "read"), (4, "__consumer_offsets"), (5, None)):
            place = TopicPartition("read", 0, offset)
            consumer.commit(offsets=[place], asynchronous=False)
            assert consumer.committed([place], 30)[0].offset == offset
            if topic is not None:
                assert _klamm(cluster, "topics", "freeze", topic) == 0
    finally:
        consumer.close()
    assert _klamm(cluster, "topics", "unfreeze", "__consumer_offsets") == 0


def test_records_on_too_few_replicas_are_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader may hold what is not committed yet, and may be part of the topic in a moment."""
    cluster.create_topic("slow", partitions=1, replication_factor=2)
    cluster.wait_for_isr("slow", size=2)
    answers = _do(cluster, lambda a: a.ask_brokers(PrivateKey.AT_REST, {"topics": ["slow"]}))
    copies = [copy for answer in answers.values() for copy in answer["partitions"]]
    assert [(c["partition"], c["frozen"], c["uncommitted"]) for c in copies] == [(0, False, 0)] * 2
    late = {"partitions": [{**copies[0], "frozen": True, "uncommitted": 3}]}
    assert list(freezing._restless(1, late)) == [
        "broker 1 has 3 records on too few replicas of slow-0"
    ]
    monkeypatch.setattr(freezing, "_PATIENCE_S", 0.0)
    with pytest.raises(
        KlammError, match=r"gave up after 0 s: broker . still takes records of slow"
    ):
        _do(cluster, lambda a: freezing.until_at_rest(a, ["slow"]))


def test_a_topic_that_has_taken_the_name_is_not_deleted(cluster: Cluster) -> None:
    cluster.create_topic("mine", partitions=1, replication_factor=1)
    ids = {"mine": uuid.uuid4()}
    with pytest.raises(RequestRefused) as refused:
        _do(cluster, lambda a: topic_changes.delete(a, ["mine"], False, False, ids))
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
    assert "mine" in _do(cluster, lambda a: a.topics())


@pytest.mark.parametrize("wrong", [{}, {"topic_id": "abcd"}, {"records": "many"}])
def test_what_describes_no_archive_is_not_written_down(
    cluster: Cluster, wrong: dict[str, str]
) -> None:
    whole = {"topic": "t", "topic_id": "A" * 22, "manifest": "", "sha256": "", "records": 1}
    body = whole | wrong if wrong else {}
    with pytest.raises(RequestRefused, match="this describes no archive"):
        _do(cluster, lambda a: a.ask_controller(PrivateKey.ARCHIVED, body))
