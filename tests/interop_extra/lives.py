"""The short life that every foreign client leads, and what everyone has to see of it.

Each client is a program with two commands. `live` creates a topic, writes to it idempotently in
every codec the client has, reads it as a group of two, commits, runs one transaction to its end and
aborts another, alters a setting and adds partitions; it prints what it saw. `die` deletes the topic
and the group. Between the two the cluster itself and another client are asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from interop.lifecycle import check_nothing_left
from klamm import Cluster

EACH = 200
IN_TRANSACTION = 30
SETTINGS = {"log.segment.delete.delay.ms": "200", "auto.create.topics.enable": "false"}


def lead(
    program: Callable[[str, str, str], str], cluster: Cluster, topic: str, codecs: int
) -> None:
    """Let `program(command, bootstrap, topic)` live and die, and look at what it leaves."""
    bootstrap = cluster.bootstrap_servers
    total = EACH * codecs
    said = json.loads(program("live", bootstrap, topic).strip().splitlines()[-1])
    expected = {
        "read": total,
        "committed": total,
        "ends": total,
        "group": "empty",
        "kept": IN_TRANSACTION,
        "dropped": 0,
        "retention": "86400001",
    }
    assert said == expected, said
    cluster.wait_for_topic(topic, partitions=6)
    values = committed_values(bootstrap, topic, 3)
    assert len(values) == total + IN_TRANSACTION, "another client reads as many, and no more"
    assert len(set(values)) == len(values), "idempotence: nothing is there twice"

    program("die", bootstrap, topic)
    check_nothing_left(cluster, topic)


def committed_values(bootstrap: str, topic: str, partitions: int) -> list[bytes]:
    """All committed values of the first partitions, read with librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "a-second-witness",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
        values: list[bytes] = []
        ended = 0
        while ended < partitions:
            message = consumer.poll(30)
            assert message is not None, f"nothing more after {len(values)} records"
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                ended += 1
            else:
                values.append(message.value())
        return values
    finally:
        consumer.close()
