"""Exactly once under fire: kills of every kind in one seeded run, and every row is there once.

`make fire` runs twenty kills on three brokers of klamm and on three of Apache Kafka 3.9; without it
a smoke of one kill runs. `KLAMM_FIRE_SEED` and `KLAMM_FIRE_KILLS` choose another run.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fire.burning import KINDS, Fire
from fire.standalone import standalone
from interop_extra.kafka import jars
from klamm import Cluster
from mixed.cluster import MixedCluster
from mixed.hosts import KAFKA, KAFKA_VERSION, KLAMM
from unit.store.zookeeper_server import ZooKeeperServer, why_not

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
SEED = int(os.environ.get("KLAMM_FIRE_SEED", "17"))
KILLS = int(os.environ.get("KLAMM_FIRE_KILLS", "20"))
BROKERS = (1, 2, 3)


class Burnt:
    """Three broker processes on a ZooKeeper."""

    def __init__(self, cluster: MixedCluster) -> None:
        self._cluster = cluster
        self.bootstrap = cluster.bootstrap

    def burn(self, broker: int) -> None:
        self._cluster.brokers[broker].kill()
        # Apache Kafka does not start while the session of its former life is not over.
        self._cluster.until(
            lambda: str(broker) not in self._cluster.children("/brokers/ids"),
            f"broker {broker} to be missed",
        )
        self._cluster.start(broker)


class Alone:
    """One cluster in this process, whose brokers stay."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def burn(self, broker: int) -> None:
        raise AssertionError(f"broker {broker} is not to be killed")


@pytest.fixture(autouse=True)
def _ends_when_told() -> Iterator[None]:
    """Whoever stops a long run with SIGTERM hears of it, and no process stays behind."""

    def end(*_: object) -> None:
        pytest.exit("the fire was stopped by SIGTERM")

    before = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, before)


def _kinds(count: int) -> list[str]:
    """Each kind about as often as the others, in an order of the seed's."""
    kinds = [KINDS[at % len(KINDS)] for at in range(count)]
    random.Random(SEED).shuffle(kinds)
    return kinds


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    if reason := why_not():
        pytest.skip(reason)
    server = ZooKeeperServer()
    server.start()
    yield server
    server.remove()


def test_smoke(tmp_path: Path) -> None:
    """The driver, on one broker; tasks that die are in tests/spark/test_once.py."""
    with Cluster(brokers=1) as cluster:
        fire = Fire(Alone(cluster.bootstrap_servers), tmp_path, master="local[2]", seed=SEED)
        try:
            fire.run(["driver"])
        finally:
            fire.close()


@pytest.mark.skipif(not os.environ.get("KLAMM_FIRE"), reason="minutes: run it with make fire")
def test_executor_of_a_spark_cluster(tmp_path: Path) -> None:
    """A user's program on `spark://` with two workers, and an executor that is killed."""
    with Cluster(brokers=1) as cluster, standalone(tmp_path, 2) as master:
        fire = Fire(Alone(cluster.bootstrap_servers), tmp_path, master=master, seed=SEED)
        try:
            fire.run(["executor", "executor"])
        finally:
            fire.close()


@pytest.mark.skipif(not os.environ.get("KLAMM_FIRE"), reason="minutes: run it with make fire")
@pytest.mark.parametrize("kind", [KLAMM, KAFKA])
def test_every_row_is_there_once(zookeeper: ZooKeeperServer, tmp_path: Path, kind: str) -> None:
    if kind == KAFKA:
        jars(KAFKA_VERSION)  # or the reason why they cannot be had
    cluster = MixedCluster(f"{zookeeper.connect_string}/{kind}", tmp_path)
    try:
        for broker in BROKERS:
            more = {"default_replication_factor": "3", "offsets_topic_num_partitions": "3"}
            cluster.add(kind, broker, **more, transaction_state_log_num_partitions="3")
        cluster.start(*BROKERS)
        fire = Fire(Burnt(cluster), tmp_path, master="local-cluster[2,1,768]", seed=SEED)
        try:
            fire.run(_kinds(KILLS))
        finally:
            fire.close()
        assert sum(fire.killed.values()) == KILLS
    finally:
        cluster.close()
