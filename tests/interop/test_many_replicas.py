"""10,000 replicas in a process that may open 1,024 files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.process import Up, data_args, up
from klamm.log.disk.names import REGISTER
from klamm.log.disk.register import read_register

FILES = 1024
TOPICS = 4
PARTITIONS = 834  # of each topic: 4 * 834 * 3 = 10,008 replicas
# Every thirteenth partition is written and read, which is still more files than may be open.
SAMPLE = range(0, PARTITIONS, 13)
LIMITED = ("bash", "-c", f'ulimit -n {FILES} && exec "$@"', "limited")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_ten_thousand_replicas_live_with_a_thousand_files(tmp_path: Path) -> None:
    with up(*data_args(tmp_path), launcher=LIMITED) as first:
        admin = AdminClient({"bootstrap.servers": first.bootstrap})
        for at in range(TOPICS):
            new = NewTopic(f"wide-{at}", PARTITIONS, 3)
            admin.create_topics([new], operation_timeout=120)[new.topic].result(timeout=120)
        _wait_for_logs(tmp_path)
        _write(first)
        assert _read(first) == TOPICS * len(SAMPLE)
        assert _open_files(first) < FILES
        first.crash()
    with up(*data_args(tmp_path), launcher=LIMITED) as second:
        assert _read(second) == TOPICS * len(SAMPLE)
        assert _open_files(second) < FILES
        assert second.stop() == 0


def _wait_for_logs(data: Path) -> None:
    """Until every replica is there: they are shown before."""
    end = time.monotonic() + 120
    while _replicas_count(data) < TOPICS * PARTITIONS * 3:
        assert time.monotonic() < end, f"{_replicas_count(data)} replicas were made"
        time.sleep(0.1)


def _replicas_count(data: Path) -> int:
    """The replicas without a record yet, which are lines of the brokers' registers."""
    registers = map(read_register, map(str, data.glob(f"broker-*/{REGISTER}")))
    return sum(found.topic.startswith("wide-") for each in registers for found in each)


def _open_files(running: Up) -> int:
    return len(list(Path(f"/proc/{running.process.pid}/fd").iterdir()))


def _write(running: Up) -> None:
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all"})
    for at in range(TOPICS):
        for partition in SAMPLE:
            producer.produce(
                f"wide-{at}",
                b"x" * 100,
                partition=partition,
                on_delivery=lambda error, _message: failures.append(error) if error else None,
            )
    assert producer.flush(120) == 0
    assert failures == []


def _read(running: Up) -> int:
    wanted = TOPICS * len(SAMPLE)
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "r"})
    try:
        consumer.assign([TopicPartition(f"wide-{t}", p, 0) for t in range(TOPICS) for p in SAMPLE])
        found = 0
        for _ in range(120):
            found += len(consumer.consume(wanted - found, timeout=1))
            if found == wanted:
                break
        return found
    finally:
        consumer.close()
