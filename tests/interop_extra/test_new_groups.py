"""Groups of the new protocol with Java; Kafka's own tool reads what klamm wrote of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from confluent_kafka import Producer

from interop_extra.kafka import VERSIONS, dump, java, shell
from interop_extra.toolbox import HERE, run
from klamm import Cluster
from klamm.broker.coordinators.journal import partition_for

VERSION = VERSIONS[-1]
TOPIC = GROUP = "new-in-java"
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}


def test_a_group_of_the_new_protocol_with_java(tmp_path: Path) -> None:
    with Cluster(data=tmp_path, settings=SETTINGS) as cluster:
        _live(cluster)
    shard = f"__consumer_offsets-{partition_for(GROUP, 3)}"
    files = sorted(tmp_path.glob(f"broker-*/{shard}/*.log"))
    dumped = dump(VERSION, files[0], flags=["--offsets-decoder"])
    pairs = re.findall(r"key: (\{.*\}) payload: (.*)", dumped)
    kinds = {_kind(json.loads(key)) for key, _ in pairs}
    # Offsets, and all six that a group of the new protocol has.
    assert {1, 3, 4, 5, 6, 7, 8} <= kinds, dumped
    values = [json.loads(value) for _, value in pairs if value != "<DELETE>"]
    assert all("data" in value for value in values), dumped
    # The members have left: what was said of them is taken back.
    gone = {_kind(json.loads(key)) for key, value in pairs if value == "<DELETE>"}
    assert {5, 7, 8} <= gone, dumped


def _live(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    cluster.create_topic(TOPIC, partitions=4, replication_factor=3)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(200):
        producer.produce(TOPIC, b"%d" % number, partition=number % 4)
    assert producer.flush(30) == 0
    source = str(HERE / "java" / "Groups.java")
    said = json.loads(run(java(VERSION, source, bootstrap, TOPIC, "200")).strip().splitlines()[-1])
    assert said == {
        "read": 200,
        "committed": 200,
        "group": "Consumer Stable uniform members=2 partitions=4",
    }
    where = ("--bootstrap-server", bootstrap)
    listed = shell(VERSION, "kafka-consumer-groups", *where, "--list", "--type", "consumer")
    assert listed.split()[-2:] == [GROUP, "Consumer"]


def _kind(key: dict[str, str]) -> int:
    """The version of a key is what its record is about; the tool has had two words for it."""
    return int(key.get("type", key.get("version", -1)))
