"""Start, idle memory, a wide topic's birth and death."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from measure import Measure, Running, cluster, until

WIDE = 1_000


def start_to_ready() -> float:
    with cluster() as running:
        return running.ready_s


def idle_memory() -> float:
    with cluster() as running:
        time.sleep(3)  # what was only needed to start has been let go by then
        return _resident_mb(running.pid)


def wide_creation() -> float:
    with cluster() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        admin.list_topics(timeout=10)
        started = time.perf_counter()
        _create_wide(admin)
        return time.perf_counter() - started


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


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


MEASURES = (
    Measure("start", "process start to the ready line, 3 brokers", "s", start_to_ready, 1.0),
    Measure("idle-memory", "resident memory of 3 idle brokers", "MB", idle_memory, 150),
    Measure("create-1000", "1,000 partitions RF 3 until each leads", "s", wide_creation, 1.5),
    Measure("delete-1000", "delete them until the disk is clean", "s", wide_deletion),
)
