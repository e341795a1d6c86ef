"""Start, idle memory, a wide topic's birth and death."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from measure import Case, Figures, Measure, Meter, Running, cluster, resident_mb, until

WIDE = 1_000


def start_to_ready() -> float:
    with cluster():
        pass  # the first start after an installation compiles what it imports
    with cluster() as running:
        return running.ready_s


def idle_memory() -> float:
    with cluster() as running:
        time.sleep(3)  # what was only needed to start has been let go by then
        return resident_mb(running.pid)


def wide_creation() -> Figures:
    """The system's part is the making of two files a replica, and depends on the file system."""
    with cluster() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        admin.list_topics(timeout=10)
        with Meter(running.pid) as meter:
            _create_wide(admin)
        return {
            "wall_s": meter.wall,
            "broker_user_s": meter.user,
            "broker_system_s": meter.system,
            "client_cpu_s": meter.own_cpu,
        }


def wide_deletion() -> float:
    with cluster("-X", "log.segment.delete.delay.ms=0") as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        _create_wide(admin)
        until(lambda: _replicas_on_disk(running) == 3 * WIDE)
        started = time.perf_counter()
        admin.delete_topics(["wide"])["wide"].result(timeout=120)
        until(lambda: _replicas_on_disk(running) == 0)
        return time.perf_counter() - started


def _create_wide(admin: AdminClient) -> None:
    """Create the topic; done when each of its leaders has told its end offset."""
    admin.create_topics([NewTopic("wide", WIDE, 3)])["wide"].result(timeout=120)
    asked = {TopicPartition("wide", at): OffsetSpec.latest() for at in range(WIDE)}
    until(lambda: all(_answered(f) for f in admin.list_offsets(asked).values()))


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
    Measure("start", "process start to the ready line, 3 brokers", "s", start_to_ready, 1.0),
    Measure("idle-memory", "resident memory of 3 idle brokers", "MB", idle_memory, 150),
    Measure("delete-1000", "delete 1,000 partitions until the disk is clean", "s", wide_deletion),
)
CASES = (
    Case(
        "create-1000",
        "1,000 partitions RF 3 until each leads",
        wide_creation,
        limits={"wall_s": 1.5},
    ),
)
