"""kill -9 at bad moments: what was begun is finished or undone, what was acknowledged is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.process import Up, data_args, up
from klamm.datadir import count_logs
from klamm.protocol import batch as batches

PARTITIONS = 500
QUICK_DELETE = ("-X", "log.segment.delete.delay.ms=100")
pytestmark = pytest.mark.timeout(300)


def test_a_crash_while_500_partitions_are_created(tmp_path: Path) -> None:
    data = _crashed_in_the_middle(tmp_path, _crash_while_creating)
    with up(*data_args(data)) as second:
        # The topic was stored before any replica was told, so it must be finished, not undone.
        _await_leaders(second, "wide")
        _produce_one_each(second, "wide")
        assert len(_directories(data, "wide")) == 3 * PARTITIONS
        assert second.stop() == 0


def test_a_crash_while_500_partitions_are_deleted(tmp_path: Path) -> None:
    data = _crashed_in_the_middle(tmp_path, _crash_while_deleting)
    with up(*data_args(data), *QUICK_DELETE) as second:
        admin = _admin(second)
        _await(lambda: "wide" not in admin.list_topics(timeout=10).topics, pause_s=0.2)
        _await(lambda: not _directories(data, "wide"))
        # The name is free again in a moment, and nothing of the old topic shines through.
        _await(lambda: _is_created(second, NewTopic("wide", 1, 3)), pause_s=0.2)
        assert _read_all(second, "wide", 1) == []
        assert second.stop() == 0


def _crashed_in_the_middle(tmp_path: Path, crash: Callable[[Path], None]) -> Path:
    """Data of a cluster that died half-way; a crash that came too late is tried again."""
    for attempt in range(8):
        data = tmp_path / str(attempt)
        crash(data)
        if 0 < _logs_count(data) < 3 * PARTITIONS:
            return data
    raise AssertionError("every crash came too late")


def _crash_while_creating(data: Path) -> None:
    with up(*data_args(data)) as first:
        admin = _admin(first)
        admin.create_topics([NewTopic("wide", PARTITIONS, 3)])
        _await(lambda: _logs_count(data) > 0)
        first.crash()


def _crash_while_deleting(data: Path) -> None:
    with up(*data_args(data), *QUICK_DELETE) as first:
        admin = _admin(first)
        _create(first, NewTopic("wide", PARTITIONS, 3))
        _await_leaders(first, "wide")
        _produce_one_each(first, "wide")
        _await(lambda: len(_directories(data, "wide")) == 3 * PARTITIONS)
        admin.delete_topics(["wide"])
        _await(lambda: len(_directories(data, "wide")) < 3 * PARTITIONS - 20)
        first.crash()


def test_crashes_while_producing_lose_nothing_acknowledged(tmp_path: Path) -> None:
    acknowledged: set[bytes] = set()
    for round_ in range(3):
        with up(*data_args(tmp_path)) as running:
            if round_ == 0:
                _create(running, NewTopic("stream", 6, 3))
            acknowledged |= _produce_until_killed(running, round_)
    with up(*data_args(tmp_path)) as last:
        read = _read_all(last, "stream", 6)
        assert acknowledged - set(read) == set()
        assert len(read) == len(set(read)), "an idempotent producer's records are there once"
        assert last.stop() == 0
    assert _check_every_batch(tmp_path, "stream") > 0


def _produce_until_killed(running: Up, round_: int) -> set[bytes]:
    """Produce at full speed with acks=all; kill the cluster in the middle; what was acked."""
    acked: set[bytes] = set()
    enough = threading.Event()

    def settled(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acked.add(message.value())
            if len(acked) > 5_000:
                enough.set()

    producer = Producer(
        {
            "bootstrap.servers": running.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "log_level": 0,
            "message.timeout.ms": 60_000,
        }
    )
    at = 0
    while not enough.is_set():
        try:
            value = f"{round_}-{at}".encode()
            producer.produce("stream", value, partition=at % 6, on_delivery=settled)
        except BufferError:
            producer.poll(0.01)
            continue
        producer.poll(0)
        at += 1
    running.crash()
    assert len(acked) < at, "something must be under way when the cluster dies"
    producer.purge()
    producer.flush(5)
    return acked


def _check_every_batch(data: Path, topic: str) -> int:
    """Every batch in every replica's files has a valid CRC; how many there were."""
    count = 0
    for segment in data.glob(f"broker-*/{topic}-*/*.log"):
        content = memoryview(segment.read_bytes())
        for header, batch in batches.iter_batches(content):
            assert batches.crc_ok(batch), f"{segment} at offset {header.base_offset}"
            count += 1
    return count


def _produce_one_each(running: Up, topic: str) -> None:
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all"})
    for partition in range(PARTITIONS):
        producer.produce(
            topic,
            b"x",
            partition=partition,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failures == []


def _end(consumer: Consumer, topic: str, partition: int) -> int:
    """The end offset, as soon as a leader that has just begun may tell it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        except KafkaException as fault:
            code = fault.args[0].code()
            if code not in (KafkaError.OFFSET_NOT_AVAILABLE, KafkaError._UNKNOWN_PARTITION):
                raise
            assert time.monotonic() < deadline, f"{topic}-{partition} never has an end"
            time.sleep(0.05)
        else:
            return int(found[1])


def _read_all(running: Up, topic: str, partitions: int) -> list[bytes]:
    """Everything up to the end offsets of this moment."""
    consumer = Consumer(
        {"bootstrap.servers": running.bootstrap, "group.id": "reader", "check.crcs": True}
    )
    try:
        ends = {at: _end(consumer, topic, at) for at in range(partitions)}
        consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
        values: list[bytes] = []
        left = {at for at, end in ends.items() if end > 0}
        deadline = time.monotonic() + 60
        while left:
            assert time.monotonic() < deadline, f"{left} were not read to the end"
            for message in consumer.consume(10_000, timeout=1):
                assert message.error() is None, message.error()
                values.append(message.value())
                if message.offset() + 1 >= ends[message.partition()]:
                    left.discard(message.partition())
        return values
    finally:
        consumer.close()


def _admin(running: Up) -> AdminClient:
    return AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})


def _create(running: Up, new: NewTopic) -> None:
    admin = _admin(running)  # held until the answer is there
    admin.create_topics([new])[new.topic].result(timeout=60)


def _is_created(running: Up, new: NewTopic) -> bool:
    """False while an earlier topic of the name is still on its way out."""
    try:
        _create(running, new)
    except KafkaException as refused:
        if refused.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def _await_leaders(running: Up, topic: str) -> None:
    admin = _admin(running)

    def are_there() -> bool:
        found = admin.list_topics(timeout=10).topics.get(topic)
        led = [] if found is None else [p.leader >= 0 for p in found.partitions.values()]
        return len(led) == PARTITIONS and all(led)

    _await(are_there, pause_s=0.2)


def _logs_count(data: Path) -> int:
    return count_logs(data.glob("broker-*"))


def _directories(data: Path, topic: str) -> list[Path]:
    return list(data.glob(f"broker-*/{topic}-*"))


def _await(holds: Callable[[], bool], *, timeout_s: float = 60, pause_s: float = 0.005) -> None:
    """Look again until it holds; files and a foreign process tell us of no event."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(pause_s)
