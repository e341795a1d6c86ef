"""Brokers die and return while topics are made, moved and removed; then the faults stop.

Afterwards the three places that hold the truth agree: the store, every broker's metadata, every
disk. The seed is printed by a failure and can be given in KLAMM_CHAOS_SEED.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from klamm import Cluster
from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition

SEED = int(os.environ.get("KLAMM_CHAOS_SEED", "7"))
SECONDS = float(os.environ.get("KLAMM_CHAOS_SECONDS", "12"))
SETTINGS = {
    "controlled.shutdown.retry.backoff.ms": "200",
    "klamm.delete.topic.retry.ms": "1000",
    "log.segment.delete.delay.ms": "100",
    "replica.lag.time.max.ms": "2000",
}


class Chaos:
    """One run; what a client is refused is part of it."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.dice = random.Random(seed)
        self.topics: list[str] = []
        self.down: list[int] = []
        self.made = 0
        quiet = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        self.admin = AdminClient(quiet)

    def step(self) -> None:
        dice = self.dice.random()
        try:
            if dice < 0.35:
                self.create()
            elif dice < 0.55:
                self.delete()
            elif dice < 0.7:
                self.lose_a_broker()
            elif dice < 0.9:
                self.start_a_broker()
            else:
                self.move()
        except (KafkaException, KlammError):
            return  # no controller just now, or too few brokers

    def create(self) -> None:
        self.made += 1
        name = f"t{self.made}"
        topic = NewTopic(name, self.dice.randint(1, 5), self.dice.randint(1, 3))
        self.admin.create_topics([topic], request_timeout=5)[name].result(6)
        self.topics.append(name)

    def delete(self) -> None:
        if self.topics:
            name = self.topics.pop(self.dice.randrange(len(self.topics)))
            self.admin.delete_topics([name], request_timeout=5)[name].result(6)

    def lose_a_broker(self) -> None:
        if len(self.down) < 2:
            broker = self.dice.choice(self.cluster.running)
            lose = (
                self.cluster.kill_broker if self.dice.random() < 0.6 else self.cluster.stop_broker
            )
            lose(broker)
            self.down.append(broker)

    def start_a_broker(self) -> None:
        if self.down:
            self.cluster.start_broker(self.down.pop(0))

    def move(self) -> None:
        if self.topics:
            partition = TopicPartition(self.dice.choice(self.topics), 0)
            target = self.dice.sample(self.cluster.running, 2)
            asyncio.run(self._move(partition, target))

    async def _move(self, partition: TopicPartition, target: list[int]) -> None:
        async with Client(self.cluster.bootstrap_servers, timeout_s=5) as client:
            await Admin(client).reassign({partition: target})


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_when_the_faults_stop_everything_agrees(tmp_path: Path) -> None:
    with Cluster(4, data=tmp_path, settings=SETTINGS) as cluster:
        chaos = Chaos(cluster, SEED)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or chaos.made < 5:
            chaos.step()
        while chaos.down:
            chaos.start_a_broker()
        deadline = time.monotonic() + 60
        while (wrong := next(disagreements(cluster), None)) and time.monotonic() < deadline:
            time.sleep(0.1)  # for what no broker announces: disks
        assert wrong is None, f"seed {SEED}: {wrong}"


def disagreements(cluster: Cluster) -> Iterator[str]:
    """Where the store, the metadata and the disks do not say the same."""
    paths = cluster.store_paths()
    yield from (path for path in paths if path.startswith("/admin/delete_topics/"))
    yield from (path for path in paths if path.startswith("/klamm/forgotten/"))
    stored = {path.split("/")[3] for path in paths if path.startswith("/brokers/topics/")}
    expected: set[tuple[int, str]] = set()
    for id, broker in cluster.view.brokers.items():
        if broker.topics != stored:
            yield f"broker {id} knows other topics: {set(broker.topics) ^ stored}"
        for topic in broker.topics:
            for index, info in broker.partitions(topic).items():
                if info.leader not in info.isr or set(info.isr) != set(info.replicas):
                    yield f"{topic}-{index} is not whole: {info}"
                expected |= {(replica, f"{topic}-{index}") for replica in info.replicas}
    found = {
        (int(path.parent.name.removeprefix("broker-")), path.name)
        for path in cluster.data.glob("broker-*/t*-*")
        if path.is_dir() and not path.name.endswith("-delete")
    }
    if found != expected:
        yield f"disks: {sorted(found - expected)} too many, {sorted(expected - found)} missing"
