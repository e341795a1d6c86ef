"""The store's file is lost under a running cluster: nothing acknowledged is, and it says so."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.process import Up, data_args, refused, up
from klamm.store import backups

pytestmark = pytest.mark.timeout(300)
QUIET = {"log_level": 0}


@pytest.mark.one_process
def test_a_store_unlinked_under_a_cluster_is_noticed_and_repaired(tmp_path: Path) -> None:
    with up(*data_args(tmp_path)) as first:
        _create(first, "orders", 3)
        sent = _produce(first, "orders", 0)
        # Made after the first decisions; a topic whose node alone was made would come back empty.
        _await(lambda: len(list(tmp_path.glob("broker-*/__klamm_ledger-0"))) == 3)
        (tmp_path / "store.db").unlink()
        with pytest.raises(KafkaException):
            _create(first, "late", 1, timeout_s=3)
        sent += _produce(first, "orders", 1000)
        _await(lambda: any(b.is_rescue for b in _backups(tmp_path)))
        AdminClient(_to(first)).list_topics(timeout=10)  # it says so behind the rescue
        first.crash()
        assert first.process.stderr is not None
        told = [line for line in first.process.stderr if "the store is lost" in line]
        assert len(told) == 1
        assert "klamm store repair" in told[0]
    sentence = refused(*data_args(tmp_path))
    assert "klamm store repair --data" in sentence
    dry = _store("repair", tmp_path)
    assert "would rebuild" in dry
    assert not (tmp_path / "store.db").exists()
    assert "not known any more" not in _store("repair", tmp_path, "--execute")
    with up(*data_args(tmp_path)) as second:
        assert _read(second, "orders", 3) == sorted(sent)
        assert "late" not in AdminClient(_to(second)).list_topics(timeout=10).topics
        _create(second, "late", 1)
        assert second.stop() == 0


def test_a_store_cut_and_killed_at_once_is_rebuilt_from_the_logs_alone(tmp_path: Path) -> None:
    with up(*data_args(tmp_path), "-X", "klamm.store.backups=0") as first:
        _create(first, "orders", 3)
        _create(first, "single", 2, replicas=1)
        sent = _produce(first, "orders", 0)
        other = _produce(first, "single", 5000)
        os.truncate(tmp_path / "store.db", 0)
        first.crash()
    for found in _backups(tmp_path):  # it may have noticed within the moment
        found.path.unlink()
    (tmp_path / backups.LOST_MARK).unlink(missing_ok=True)
    assert "is empty, but there are" in refused(*data_args(tmp_path))
    told = _store("repair", tmp_path, "--execute")
    assert "orders: its settings" in told
    with up(*data_args(tmp_path)) as second:
        assert _read(second, "orders", 3) == sorted(sent)
        assert _read(second, "single", 2) == sorted(other)
        assert not list(tmp_path.glob("broker-*/*-stray"))
        more = _produce(second, "orders", 9000)
        assert _read(second, "orders", 3) == sorted(sent + more)
        assert second.stop() == 0


def _to(running: Up) -> dict[str, object]:
    return {"bootstrap.servers": running.bootstrap, **QUIET}


def _create(
    running: Up, topic: str, partitions: int, *, replicas: int = 3, timeout_s: float = 30
) -> None:
    wanted = NewTopic(topic, partitions, replicas)
    admin = AdminClient(_to(running))
    (done,) = admin.create_topics([wanted], request_timeout=timeout_s).values()
    done.result(timeout_s + 5)


def _produce(running: Up, topic: str, first: int) -> list[bytes]:
    """500 records, each acknowledged by all that are in sync.

    Not idempotent: a producer's id comes from the store.
    """
    acked: list[bytes] = []
    producer = Producer({**_to(running), "acks": "all"})
    for number in range(first, first + 500):
        producer.produce(
            topic,
            b"%d" % number,
            on_delivery=lambda error, message: None if error else acked.append(message.value()),
        )
    assert producer.flush(60) == 0
    assert len(acked) == 500
    return acked


def _read(running: Up, topic: str, partitions: int) -> list[bytes]:
    consumer = Consumer({**_to(running), "group.id": "reader"})
    try:
        places = [TopicPartition(topic, at) for at in range(partitions)]
        ends = [consumer.get_watermark_offsets(place, timeout=30)[1] for place in places]
        consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
        values: list[bytes] = []
        deadline = time.monotonic() + 60
        while len(values) < sum(ends):
            assert time.monotonic() < deadline, f"{len(values)} of {sum(ends)} were read"
            values += [m.value() for m in consumer.consume(1000, timeout=1) if not m.error()]
        return sorted(values)
    finally:
        consumer.close()


def _store(verb: str, data: Path, *more: str) -> str:
    command = [sys.executable, "-m", "klamm.cli", "store", verb, "--data", str(data), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _backups(data: Path) -> list[backups.Backup]:
    return backups.find(data / backups.DIRECTORY)


def _await(holds: Callable[[], bool], timeout_s: float = 30) -> None:
    """Files of another process tell us of no event."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.05)
