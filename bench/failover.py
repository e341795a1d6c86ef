"""The controller dies: how long until every partition is led again.

Runs the cluster inside this process, because a broker is killed in the middle of it; the clock
stops when every remaining broker's metadata shows a live leader for every partition.
"""

from __future__ import annotations

import time

from confluent_kafka.admin import AdminClient, NewTopic
from measure import Measure

from klamm import Cluster
from klamm.view import BrokerView, ClusterView

TOPICS = 10


def failover(partitions: int) -> float:
    settings = {"auto.leader.rebalance.enable": "false"}
    with Cluster(3, settings=settings) as cluster:
        config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        admin = AdminClient(config)
        for number in range(TOPICS):
            topic = NewTopic(f"t{number}", partitions // TOPICS, 3)
            admin.create_topics([topic])[topic.topic].result(300)
        for number in range(TOPICS):
            cluster.wait_for_isr(f"t{number}", size=3, timeout_s=300)
        dead = cluster.wait_for_controller()
        started = time.perf_counter()
        cluster.kill_broker(dead)
        cluster.wait_until(lambda view: is_led(view, dead, partitions), 300)
        return time.perf_counter() - started


def is_led(view: ClusterView, dead: int, partitions: int) -> bool:
    return all(_led_count(broker, dead) >= partitions for broker in view.brokers.values())


def _led_count(broker: BrokerView, dead: int) -> int:
    return sum(
        info.leader not in (-1, dead)
        for topic in broker.topics
        for info in broker.partitions(topic).values()
    )


MEASURES = (
    Measure(
        "failover-1000", "controller killed, 1,000 partitions RF 3", "s", lambda: failover(1_000)
    ),
    Measure(
        "failover-10000", "controller killed, 10,000 partitions RF 3", "s", lambda: failover(10_000)
    ),
)
