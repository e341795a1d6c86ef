"""`klamm.Cluster`, the door most users come through."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from klamm import Cluster
from klamm.model.errors import UsageError


def test_importing_klamm_imports_no_cluster() -> None:
    code = "import sys, klamm; print([m for m in sys.modules if m.startswith('klamm.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['klamm.version']"


def test_a_cluster_has_as_many_brokers_as_asked_and_a_controller(klamm_cluster: Cluster) -> None:
    assert klamm_cluster.running == [0, 1, 2]
    assert len(set(klamm_cluster.bootstrap_servers.split(","))) == 3
    assert klamm_cluster.controller_id in klamm_cluster.running
    assert klamm_cluster.wait_for_controller() == klamm_cluster.controller_id


def test_nothing_is_left_after_it() -> None:
    before = threading.active_count()
    with Cluster(2) as cluster:
        data = cluster.data
        cluster.create_topic("t", partitions=20, replication_factor=2)
        assert list(data.glob("broker-0/t-*"))
        started = time.monotonic()
    assert time.monotonic() - started < 5.0, "teardown of temporary data is quick"
    assert not data.exists()
    assert threading.active_count() == before


def test_a_broker_comes_back_on_its_port_with_its_records(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=3, replication_factor=3)
    bootstrap = klamm_cluster.bootstrap_servers
    produced = _produce(bootstrap, "t", 300)
    for stop in (klamm_cluster.stop_broker, klamm_cluster.kill_broker):
        stop(1)
        assert klamm_cluster.running == [0, 2]
        klamm_cluster.wait_for_isr("t", size=2)
        klamm_cluster.wait_for_leader("t", 0, other_than=1)
        produced |= _produce(bootstrap, "t", 300, mark=stop.__name__)
        klamm_cluster.start_broker(1)
        klamm_cluster.wait_for_isr("t", size=3)
    assert klamm_cluster.bootstrap_servers == bootstrap
    assert _read(bootstrap, "t", 3, len(produced)) == produced


def test_when_the_controller_dies_another_takes_over(klamm_cluster: Cluster) -> None:
    first = klamm_cluster.wait_for_controller()
    klamm_cluster.kill_broker(first)
    second = klamm_cluster.wait_for_controller(other_than=first)
    assert second in klamm_cluster.running
    klamm_cluster.create_topic("by-the-second", partitions=2, replication_factor=2)
    klamm_cluster.start_broker(first)
    assert klamm_cluster.wait_for_controller() == second


def test_data_that_was_given_a_place_stays(tmp_path: Path) -> None:
    with Cluster(2, data=tmp_path) as cluster:
        cluster.create_topic("t", replication_factor=2)
        produced = _produce(cluster.bootstrap_servers, "t", 100)
        cluster.kill()
    with Cluster(2, data=tmp_path) as cluster:
        cluster.wait_for_topic("t", partitions=1)
        assert _read(cluster.bootstrap_servers, "t", 1, 100) == produced
    assert (tmp_path / "broker-0" / "t-0").is_dir()


def test_after_a_restart_leaders_and_in_sync_sets_are_what_they_were(tmp_path: Path) -> None:
    with Cluster(3, data=tmp_path) as cluster:
        cluster.create_topic("t", partitions=9, replication_factor=3)
        before = {at: cluster.partition("t", at) for at in range(9)}
        assert len({p.leader for p in before.values() if p}) == 3
    with Cluster(3, data=tmp_path) as cluster:
        cluster.wait_for_topic("t", partitions=9)
        assert {at: cluster.partition("t", at) for at in range(9)} == before


def test_a_log_that_lost_its_topic_id_to_a_crash_gets_it_back(tmp_path: Path) -> None:
    with Cluster(3, data=tmp_path) as cluster:
        cluster.create_topic("t", partitions=6, replication_factor=3)
    ids = list(tmp_path.glob("broker-*/t-*/partition.metadata"))
    was = {path: path.read_text() for path in ids}
    for path in ids[::2]:
        path.unlink()
    with Cluster(3, data=tmp_path) as cluster:
        cluster.wait_for_isr("t", size=3)
        started = time.monotonic()
        _produce(cluster.bootstrap_servers, "t", 100)
        assert time.monotonic() - started < 10, "every follower fetches every partition"
        assert {path: path.read_text() for path in ids} == was


def test_clusters_live_side_by_side() -> None:
    with Cluster(1) as one, Cluster(1) as two:
        one.create_topic("only-in-one")
        assert "only-in-one" in one.view.brokers[0].topics
        assert "only-in-one" not in two.view.brokers[0].topics
        assert one.data != two.data


async def test_async_with_gives_methods_to_await() -> None:
    async with Cluster(3) as cluster:
        await cluster.create_topic("t", replication_factor=3)
        leader = await cluster.wait_for_leader("t")
        await cluster.stop_broker(leader)
        assert await cluster.wait_for_leader("t", other_than=leader) != leader
        await cluster.start_broker(leader)
        await cluster.wait_for_isr("t", size=3)
        assert cluster.running == [0, 1, 2]


def test_settings_come_as_mapping_or_keywords() -> None:
    with Cluster(1, settings={"num.partitions": 4}, auto_create_topics_enable=False) as cluster:
        assert cluster.settings.int("num.partitions") == 4
        assert cluster.settings.bool("auto.create.topics.enable") is False


def test_replicas_are_spread_over_racks() -> None:
    with Cluster(4, racks=["a", "a", "b", "b"]) as cluster:
        cluster.create_topic("t", partitions=8, replication_factor=2)
        for at in range(8):
            found = cluster.partition("t", at)
            assert found is not None
            assert len({broker // 2 for broker in found.replicas}) == 2


def test_waiting_in_vain_says_for_what(klamm_cluster: Cluster) -> None:
    with pytest.raises(TimeoutError, match=r"topic_is_led\(.never"):
        klamm_cluster.wait_for_topic("never", timeout_s=0.2)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"brokers": 0}, "at least one broker"),
        ({"brokers": 2, "racks": ["a"]}, "1 racks were named for 2 brokers"),
        ({"settings": {"num.partition": 1}}, "num.partitions"),
        ({"log_retention_msec": 1}, "log.retention.ms"),
    ],
)
def test_a_wrong_wish_is_refused_where_it_is_made(wish: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Cluster(**wish)  # type: ignore[arg-type]


def test_misuse_is_explained(klamm_cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="broker 0 already runs"):
        klamm_cluster.start_broker(0)
    with pytest.raises(UsageError, match="no broker 7 in a cluster of 3"):
        klamm_cluster.stop_broker(7)
    with pytest.raises(RuntimeError, match="does not run"):
        Cluster(1).stop_broker(0)


def _produce(bootstrap: str, topic: str, count: int, mark: str = "first") -> set[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    values = {f"{mark}-{at}".encode() for at in range(count)}
    failures: list[object] = []
    for at, value in enumerate(sorted(values)):
        producer.produce(
            topic,
            value,
            key=str(at).encode(),
            on_delivery=lambda error, _m: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failures == []
    return values


def _read(bootstrap: str, topic: str, partitions: int, count: int) -> set[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "r"})
    try:
        consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
        values: set[bytes] = set()
        while len(values) < count:
            messages = consumer.consume(count, timeout=10)
            assert messages, f"{len(values)} of {count}"
            values |= {message.value() for message in messages}
        return values
    finally:
        consumer.close()
