"""Groups of the new protocol with Java; Kafka's own tool reads what klamm wrote of them."""

from __future__ import annotations

import json
import re

import pytest
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


@pytest.mark.klamm(brokers=3, settings=SETTINGS)
def test_a_group_of_the_new_protocol_with_java(klamm_cluster: Cluster) -> None:
    bootstrap = klamm_cluster.bootstrap_servers
    klamm_cluster.create_topic(TOPIC, partitions=4, replication_factor=3)
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
    assert listed.split() == [GROUP]
    klamm_cluster.stop()

    shard = f"__consumer_offsets-{partition_for(GROUP, 3)}"
    files = sorted(klamm_cluster.data.glob(f"broker-*/{shard}/*.log"))
    said_of = dump(VERSION, files[0], flags=["--offsets-decoder"])
    keys = [json.loads(found) for found in re.findall(r"key: (\{.*?\}) payload:", said_of)]
    # The versions of the keys say what kinds of records there are: offsets, and six of the group.
    kinds = {int(key.get("type", key.get("version", -1))) for key in keys}
    assert {1, 3, 4, 5, 6, 7, 8} <= kinds, said_of
    assert all(str(key["data"]["groupId" if "groupId" in key["data"] else "group"]) for key in keys)
