"""Start, idle memory, a wide topic's birth and death."""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import Future

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from measure import Case, Figures, Measure, Meter, Running, cluster, resident_mb, until

WIDE = 1_000


def start_to_ready(count: int = 5) -> Figures:
    """The median of some starts: wall time, and the processor time in it."""
    with cluster():
        pass  # the first start after an installation compiles what it imports
    taken = []
    for _ in range(count):
        with cluster() as running:
            taken.append((running.ready_s, running.ready_cpu_s))
    wall, cpu = (statistics.median(values) for values in zip(*taken, strict=True))
    return {"wall_s": wall, "cpu_s": cpu}


def idle_memory() -> float:
    with cluster() as running:
        time.sleep(3)  # what was only needed to start has been let go by then
        return resident_mb(running.pid)


def wide_creation() -> Figures:
    """Until each leader answers; none of the replicas has a file by then."""
    with cluster() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        admin.list_topics(timeout=10)
        with Meter(running.pid) as meter:
            create_wide(admin)
        return {
            "wall_s": meter.wall,
            "broker_user_s": meter.user,
            "broker_system_s": meter.system,
            "client_cpu_s": meter.own_cpu,
        }


def wide_deletion() -> float:
    with cluster("-X", "log.segment.delete.delay.ms=0") as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        create_wide(admin)
        _write_to_each(running)  # a replica has a directory when it has a record
        until(lambda: _replicas_on_disk(running) == 3 * WIDE)
        started = time.perf_counter()
        admin.delete_topics(["wide"])["wide"].result(timeout=120)
        until(lambda: _replicas_on_disk(running) == 0)
        return time.perf_counter() - started


def create_wide(admin: AdminClient) -> None:
    """Create the topic; done when each of its leaders has told its end offset."""
    admin.create_topics([NewTopic("wide", WIDE, 3)])["wide"].result(timeout=120)
    asked = {TopicPartition("wide", at): OffsetSpec.latest() for at in range(WIDE)}
    until(lambda: all(_answered(f) for f in admin.list_offsets(asked).values()))


def _write_to_each(running: Running) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all", "log_level": 0})
    for at in range(WIDE):
        producer.produce("wide", b"x" * 100, partition=at)
    if producer.flush(120):
        raise SystemExit("not every leader took a record")


def _answered(future: Future[object]) -> bool:
    try:
        future.result(timeout=60)
    except KafkaException:
        return False
    return True


def _replicas_on_disk(running: Running) -> int:
    brokers = (entry for entry in running.data.iterdir() if entry.name.startswith("broker-"))
    return sum(name.startswith("wide-") for broker in brokers for name in os.listdir(broker))


MEASURES = (
    Measure("idle-memory", "resident memory of 3 idle brokers", "MB", idle_memory, 150),
    Measure("delete-1000", "delete 1,000 partitions until the disk is clean", "s", wide_deletion),
)
CASES = (
    Case(
        "start",
        "process start to the ready line, 3 brokers",
        start_to_ready,
        limits={"wall_s": 1.0},
    ),
    Case(
        "create-1000",
        "1,000 partitions RF 3 until each leads",
        wide_creation,
        limits={"wall_s": 1.5},
    ),
)
