"""Clusters of both kinds that began in another way: klamm first, and from before topic ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mixed.cluster import MixedCluster
from mixed.conftest import Shown
from mixed.hosts import KAFKA, KLAMM
from mixed.test_mixed import check_equal_logs, coordinator, produce, read
from unit.store.zookeeper_server import ZooKeeperServer

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def empty(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[MixedCluster]:
    cluster = MixedCluster(f"{zookeeper.connect_string}/{tmp_path.name}", tmp_path)
    try:
        yield cluster
    finally:
        cluster.close()


def test_a_cluster_that_klamm_began(empty: MixedCluster, shown: Shown) -> None:
    with shown("klamm started first, Kafka joins and stays alone", "both") as said:
        few = {
            "offsets_topic_replication_factor": "2",
            "transaction_state_log_replication_factor": "2",
            "min_insync_replicas": "1",
        }
        for broker_id in (10, 11):
            empty.add(KLAMM, broker_id, **few)
        empty.start(10, 11)
        empty.create("t", [[10, 11], [11, 10]])
        produce(empty, "t", 2, 400)
        assert len(read(empty, "g", "t", 400)) == 400
        for broker_id in (1, 2):
            empty.add(KAFKA, broker_id, **few)
        empty.start(1, 2)
        empty.controlled_by(KAFKA)
        said.append("Kafka's controller took over")

        # Everything moves to the newcomers, the groups' topic too.
        _move_all(empty, {10: 1, 11: 2})
        for broker_id in (11, 10):
            empty.brokers[broker_id].stop()
        empty.wait_for_all()
        for topic, count in (("t", 2), ("__consumer_offsets", 8)):
            empty.settle(topic, count)
        produce(empty, "t", 2, 100)
        assert empty.kind(coordinator(empty, "g")) == KAFKA
        assert len(read(empty, "g", "t", 100)) == 100
        check_equal_logs(empty, "t", 2)
        said.append("all replicas moved, klamm stopped, the group went on")


def _move_all(cluster: MixedCluster, heirs: dict[int, int]) -> None:
    from klamm.model.names import TopicPartition as At

    moves = {
        At(topic, at): [heirs.get(broker, broker) for broker in replicas]
        for topic in cluster.children("/brokers/topics")
        for at, replicas in cluster.assignment(topic).items()
    }
    answers = cluster.klamm_admin(lambda admin: admin.reassign(moves))
    assert {answer.error_code for answer in answers.values()} == {0}, answers
    cluster.until(
        lambda: all(
            cluster.assignment(at.topic).get(at.partition) == replicas
            for at, replicas in moves.items()
        ),
        "the moves to end",
    )


def test_topics_without_ids(empty: MixedCluster, shown: Shown) -> None:
    with shown("inter.broker.protocol.version=2.7", "kafka, klamm, kafka") as said:
        for broker_id in (1, 2):
            empty.add(KAFKA, broker_id, inter_broker_protocol_version="2.7")
        empty.add(KLAMM, 10)
        empty.start(1, 2)
        empty.start(10)
        empty.controlled_by(KAFKA)
        ways = [[1, 10, 2], [10, 1, 2], [2, 1, 10]]
        empty.create("old", ways)
        assert "topic_id" not in (empty.node("/brokers/topics/old") or {})
        produce(empty, "old", 3, 600)
        check_equal_logs(empty, "old", 3)
        said.append("without ids: led and followed by both")

        empty.controlled_by(KLAMM)
        empty.settle("old", 3)
        produce(empty, "old", 3, 600)
        given = (empty.node("/brokers/topics/old") or {}).get("topic_id")
        assert given not in (None, NO_ID)
        empty.create("new", ways)
        said.append("klamm's controller gives ids")

        empty.controlled_by(KAFKA)
        for topic in ("old", "new"):
            empty.settle(topic, 3)
            produce(empty, topic, 3, 600)
            check_equal_logs(empty, topic, 3)
        # Whoever starts anew hears of no ids again.
        for broker_id in (1, 10):
            empty.brokers[broker_id].kill()
            empty.until(
                lambda gone=str(broker_id): gone not in empty.children("/brokers/ids"),
                "its session to end",
                40,
            )
            produce(empty, "old", 3, 60)
            empty.start(broker_id)
            for topic in ("old", "new"):
                empty.settle(topic, 3)
        produce(empty, "new", 3, 60)
        for topic in ("old", "new"):
            check_equal_logs(empty, topic, 3)
            empty.delete(topic)
        said.append("and Kafka's goes on without: restarts, equal logs, deletion")
