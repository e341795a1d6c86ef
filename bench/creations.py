"""Twenty thousand partitions are made: how long that takes, and what others notice of it."""

from __future__ import annotations

import statistics
import threading
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from measure import Case, Figures, Meter, cluster, until

TOPICS, PARTITIONS = 20, 1_000
_PAUSE_S = 0.01


class Neighbour:
    """Somebody who writes a record now and then, and waits for each."""

    def __init__(self, bootstrap: str) -> None:
        self.waited_s: list[float] = []
        self._over = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Neighbour:
        self._write()  # finding the leader is not what is measured
        self.waited_s.clear()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self._write()
            time.sleep(_PAUSE_S)

    def _write(self) -> None:
        began = time.perf_counter()
        self._producer.produce("neighbour", b"x" * 100)
        self._producer.flush(120)
        self.waited_s.append(time.perf_counter() - began)


def many_creations() -> Figures:
    """A producer's waiting while 20,000 partitions, RF 1, come up on one broker after another."""
    with cluster() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("neighbour", 1, 1)])["neighbour"].result(timeout=60)
        with Neighbour(running.bootstrap) as neighbour, Meter(running.pid) as meter:
            names = [f"many-{number}" for number in range(TOPICS)]
            wanted = [NewTopic(name, PARTITIONS, 1) for name in names]
            for made in admin.create_topics(wanted, operation_timeout=300).values():
                made.result(timeout=300)
            for name in names:
                until(lambda name=name: _is_led(admin, name), timeout_s=300)
        waited = sorted(neighbour.waited_s)
        return {
            "wall_s": meter.wall,
            "broker_cpu_s": meter.cpu,
            "waits": float(len(waited)),
            "median_ms": statistics.median(waited) * 1000,
            "p99_ms": waited[int(len(waited) * 0.99)] * 1000,
            "worst_ms": waited[-1] * 1000,
        }


def _is_led(admin: AdminClient, topic: str) -> bool:
    found = admin.list_topics(topic, timeout=60).topics[topic].partitions
    return len(found) == PARTITIONS and all(p.leader >= 0 for p in found.values())


CASES = (
    Case(
        "create-20000",
        "20,000 partitions RF 1, and the waiting of a producer meanwhile",
        many_creations,
        limits={"p99_ms": 250.0},
    ),
)
