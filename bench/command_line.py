"""Commands as they are typed: the time until the prompt is back, and the processor's part of it."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

from confluent_kafka.admin import AdminClient, NewTopic
from measure import Case, Figures, cluster

PARTITIONS = 10_000
TOPICS = 10
TIMES = 9


def _typed(*words: str) -> Figures:
    """The medians of some runs of one command, after one that compiles what it imports."""
    taken = []
    for _ in range(TIMES + 1):
        before, started = _children_s(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "klamm", *words], stdout=subprocess.DEVNULL, check=True
        )
        taken.append((time.perf_counter() - started, _children_s() - before))
    wall, cpu = (statistics.median(values) for values in zip(*taken[1:], strict=True))
    return {"wall_s": wall, "cpu_s": cpu}


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def version() -> Figures:
    return _typed("version")


def status() -> Figures:
    """`klamm status` of a healthy cluster with many partitions."""
    with cluster() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        for number in range(TOPICS):
            topic = NewTopic(f"t{number}", PARTITIONS // TOPICS, 3)
            admin.create_topics([topic])[topic.topic].result(300)
        while _is_ill(running.bootstrap):
            time.sleep(0.5)
        return _typed("status", "-b", running.bootstrap)


def _is_ill(bootstrap: str) -> bool:
    words = [sys.executable, "-m", "klamm", "status", "-b", bootstrap]
    return subprocess.run(words, capture_output=True, check=False).returncode != 0


CASES = (
    Case("version", "klamm version", version, limits={"cpu_s": 0.12}),
    Case(
        "status-10000",
        "klamm status, 10,000 partitions RF 3",
        status,
        limits={"wall_s": 0.3, "cpu_s": 0.25},
    ),
)
