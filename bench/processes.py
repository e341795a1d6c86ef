"""A process a broker beside all brokers in one process, in the same run.

What is compared runs in turns on the same machine, so the ratios hold also where it is busy. Memory
is the proportional set size of the parent, the nursery and the brokers: what they share counts
once.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import bytes as data_plane
import librdkafka
from cluster_life import create_wide
from confluent_kafka.admin import AdminClient, NewTopic
from failover import TOPICS
from kazoo.client import KazooClient
from measure import Case, Figures, cluster, cpu_s, family

from klamm.app import control

APART = "--processes"
_PRODUCED = 200_000_000
_SIZE = 1_000


def proportional_mb(pid: int) -> float:
    """The memory of one process, its share of what it has in common with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024


def start(count: int = 5) -> Figures:
    """The medians of some starts of each kind, in turns."""
    taken: dict[str, list[float]] = {"apart_s": [], "one_process_s": []}
    for at in range(count + 1):
        for name, words in (("apart_s", [APART]), ("one_process_s", [])):
            with cluster(*words) as running:
                if at:  # the first start after an installation compiles what it imports
                    taken[name].append(running.ready_s)
    return {name: statistics.median(values) for name, values in taken.items()}


def idle_memory() -> Figures:
    with cluster(APART) as running:
        time.sleep(3)  # what was only needed to start has been let go by then
        sizes = [proportional_mb(pid) for pid in family(running.pid)]
        return {"total_mb": sum(sizes), "parent_mb": sizes[0], "processes": len(sizes)}


def throughput(rounds: int = 3) -> Figures:
    """Medians in MB/s: produce with acks=all to three replicas, and consume, in turns.

    And the processor seconds that a produced GB takes, which say something on busy machines too.
    """
    rates: dict[str, list[float]] = {}
    for _ in range(rounds):
        for kind, words in (("apart", [APART]), ("one_process", [])):
            with cluster(*words) as running:
                data_plane.create(running, data_plane.PARTITIONS, 3)
                begun = time.perf_counter()
                with _Meters(running.pid) as meters:
                    data_plane.fill(running.bootstrap, _PRODUCED, _SIZE, "all", data_plane.DEFAULT)
                filled = time.perf_counter()
                librdkafka.destroyer()
                drained = time.perf_counter()
                data_plane.drain(running.bootstrap, _PRODUCED // _SIZE)
                ended = time.perf_counter()
            rates.setdefault(f"produce_{kind}", []).append(_PRODUCED / (filled - begun) / 1e6)
            rates.setdefault(f"consume_{kind}", []).append(_PRODUCED / (ended - drained) / 1e6)
            per_gb = 1e9 / _PRODUCED
            rates.setdefault(f"produce_{kind}_brokers_cpu_s_gb", []).append(meters.total_s * per_gb)
            rates.setdefault(f"produce_{kind}_client_cpu_s_gb", []).append(meters.own_s * per_gb)
    figures = {name: statistics.median(values) for name, values in rates.items()}
    for what in ("produce", "consume"):
        figures[f"{what}_ratio"] = figures[f"{what}_apart"] / figures[f"{what}_one_process"]
    return figures


def wide_creation(kinds: Mapping[str, Sequence[str]], rounds: int = 3) -> Figures:
    """Medians of creating 1,000 partitions on clusters of some kinds, in turns."""
    taken: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, words in kinds.items():
            with cluster(*words) as running:
                admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
                admin.list_topics(timeout=10)
                with _Meters(running.pid) as meters:
                    begun = time.perf_counter()
                    create_wide(admin)
                    taken.setdefault(f"{name}_s", []).append(time.perf_counter() - begun)
                taken.setdefault(f"{name}_cpu_s", []).append(meters.total_s)
    return {name: statistics.median(values) for name, values in taken.items()}


class _Meters:
    """The processor time of a cluster's processes, and of this one, over a stretch of work."""

    def __init__(self, pid: int) -> None:
        self._before = {each: sum(cpu_s(each)) for each in family(pid)}
        self.taken_s: dict[int, float] = {}
        self.own_s = time.process_time()

    def __enter__(self) -> _Meters:
        return self

    def __exit__(self, *_: object) -> None:
        self.own_s = time.process_time() - self.own_s
        for pid, before in self._before.items():
            with suppress(OSError):  # it was killed meanwhile
                self.taken_s[pid] = sum(cpu_s(pid)) - before

    @property
    def total_s(self) -> float:
        return sum(self.taken_s.values())


def failover(partitions: int, *words: str) -> Figures:
    """kill -9 of the controller's process until the others show a live leader for all.

    The client looks ten times a second: more would take the cores from those who are measured.
    `missed_s` is the time after which the dead broker was missed, which is at once where the parent
    has the store, and a session's time on a ZooKeeper; what counts is `led_s`, the rest.
    """
    with cluster(APART, "-X", "auto.leader.rebalance.enable=false", *words) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        for number in range(TOPICS):
            topic = NewTopic(f"t{number}", partitions // TOPICS, 3)
            admin.create_topics([topic])[topic.topic].result(300)
        asyncio.run(control.ask(running.data, "in-sync", timeout_s=300))
        status = asyncio.run(control.ask(running.data, "status"))
        dead = next(broker for broker in status["brokers"] if broker["controller"])
        others = [broker for broker in status["brokers"] if broker is not dead]
        lookers = [
            AdminClient({"bootstrap.servers": broker["address"], "log_level": 0})
            for broker in others
        ]
        store = KazooClient(status["zookeeper"])
        store.start()
        try:
            with _Meters(running.pid) as meters:
                begun = time.perf_counter()
                os.kill(dead["pid"], 9)
                while store.exists(f"/brokers/ids/{dead['id']}"):
                    time.sleep(0.02)
                missed = time.perf_counter()
                while not all(_is_led(looker, dead["id"], partitions) for looker in lookers):
                    time.sleep(0.1)
                ended = time.perf_counter()
        finally:
            store.stop()
            store.close()
        brokers_s = sorted(meters.taken_s[broker["pid"]] for broker in others)
        return {
            "missed_s": missed - begun,
            "led_s": ended - missed,
            "broker_cpu_s": brokers_s[0],
            "controller_cpu_s": brokers_s[1],
            "rest_cpu_s": meters.total_s - sum(brokers_s),
            "client_cpu_s": meters.own_s,
        }


def _is_led(admin: AdminClient, dead: int, partitions: int) -> bool:
    """Whether one broker tells its clients of live leaders only."""
    topics = admin.list_topics(timeout=60).topics.values()
    leaders = [p.leader for topic in topics for p in topic.partitions.values()]
    return sum(leader not in (-1, dead) for leader in leaders) >= partitions


CASES = (
    Case("apart-start", "3 processes to the ready line", start, limits={"apart_s": 1.5}),
    Case("apart-idle", "memory of 3 idle processes", idle_memory, limits={"total_mb": 130.0}),
    Case(
        "apart-throughput",
        "acks=all RF 3 and consume, MB/s",
        throughput,
        goals={"produce_ratio": 1.0, "consume_ratio": 1.0},
    ),
    Case(
        "apart-create-1000",
        "1,000 partitions RF 3 until each leads",
        lambda: wide_creation({"apart": [APART], "one_process": []}),
        limits={"apart_s": 2.0},
    ),
    Case(
        "apart-create-1000-zookeeper",
        "the same on a ZooKeeper",
        lambda: wide_creation({"zookeeper": [APART, "--zookeeper"]}),
        limits={"zookeeper_s": 3.0},
    ),
    Case(
        "apart-failover-10000",
        "kill -9 of the controller, 10,000 partitions",
        lambda: failover(10_000),
        limits={"led_s": 5.0},
    ),
    Case(
        "apart-failover-10000-zookeeper",
        "the same on a ZooKeeper, past its session",
        lambda: failover(10_000, "--zookeeper"),
        limits={"led_s": 5.0},
    ),
)
