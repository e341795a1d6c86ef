"""One log directory, two kinds of brokers.

klamm writes a directory with everything that can be in one: several segments, the codecs, a
transaction that was committed and one that was aborted, a group's offsets. Kafka's own tool looks
at each file; then a Kafka broker takes the directory over, on the same ZooKeeper, writes to it, and
klamm takes it back.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from interop_extra.kafka import dump
from interop_extra.kafka_server import VERSION, kafka_server
from interop_extra.lives import committed_values
from klamm import Cluster
from unit.store.zookeeper_server import ZooKeeperServer

TOPIC = "handed-over"
GROUP = "remembers"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "log.segment.bytes": 8_000,
    "log.index.interval.bytes": 256,
    "log.preallocate": True,  # of which nothing must be left when the other kind opens it
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 2,
}


def test_kafkas_tool_finds_no_fault_in_any_file(tmp_path: Path) -> None:
    with Cluster(1, settings=SETTINGS, data=tmp_path) as cluster:
        cluster.create_topic(TOPIC, 1, 1)
        _write(cluster.bootstrap_servers, "first")
        _commit(cluster.bootstrap_servers, 100)
    files = [
        path
        for path in sorted((tmp_path / "broker-0").glob("*-*/*"))
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
    ]
    kinds = {path.suffix for path in files if path.stat().st_size}
    assert kinds == {".log", ".index", ".timeindex", ".snapshot", ".txnindex"}
    assert len([path for path in files if path.suffix == ".log"]) > 5

    said = dump(VERSION, *files, flags=("--deep-iteration", "--print-data-log"))
    assert said.count("Dumping ") == len(files)
    assert said.count("isvalid: true") >= len(CODECS)
    assert said.count("endTxnMarker: ABORT") == 1
    assert "producerId" in said
    assert _faults(said) == []

    # That it would say so: the same index with one offset that no batch ends with.
    index = next(p for p in files if p.suffix == ".index" and TOPIC in str(p) and p.stat().st_size)
    copy = tmp_path / "damaged"
    shutil.copytree(index.parent, copy)
    content = bytearray((copy / index.name).read_bytes())
    content[3] ^= 1
    (copy / index.name).write_bytes(content)
    assert _faults(dump(VERSION, copy / index.name))


def _faults(said: str) -> list[str]:
    signs = ("mismatch", "isvalid: false", "corrupt", "non-consecutive", "out of order", "unknown")
    return [line for line in said.splitlines() if any(sign in line.lower() for sign in signs)]


def test_a_directory_goes_to_kafka_and_comes_back(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    connect = f"{zookeeper.connect_string}/handover"
    data = tmp_path / "data"
    with Cluster(1, settings=SETTINGS, data=data, zookeeper=connect) as cluster:
        cluster.create_topic(TOPIC, 1, 1)
        _write(cluster.bootstrap_servers, "klamm")
        _commit(cluster.bootstrap_servers, 100)
        first = committed_values(cluster.bootstrap_servers, TOPIC, 1)
    assert len(first) == len(set(first)) == 200 * len(CODECS) + 30

    with kafka_server(data / "broker-0", connect, tmp_path / "kafka.txt", SETTINGS) as bootstrap:
        assert committed_values(bootstrap, TOPIC, 1) == first
        assert _committed(bootstrap) == 100
        _write(bootstrap, "kafka")
        _commit(bootstrap, 1000)
        both = committed_values(bootstrap, TOPIC, 1)
    assert both[: len(first)] == first
    assert len(both) == len(set(both)) == 2 * len(first)

    with Cluster(1, settings=SETTINGS, data=data, zookeeper=connect) as cluster:
        cluster.wait_for_topic(TOPIC, partitions=1)
        assert committed_values(cluster.bootstrap_servers, TOPIC, 1) == both
        assert _committed(cluster.bootstrap_servers) == 1000
        _write(cluster.bootstrap_servers, "again")
        assert len(committed_values(cluster.bootstrap_servers, TOPIC, 1)) == 3 * len(first)


def _write(bootstrap: str, prefix: str) -> None:
    """Records in each codec, a transaction that counts and one that does not."""
    for codec in CODECS:
        producer = _producer(bootstrap, compression_type=codec, enable_idempotence=True)
        for at in range(200):
            producer.produce(TOPIC, key=f"k{at}", value=f"{prefix}-{codec}-{at}".ljust(80))
        assert producer.flush(60) == 0
    for end in ("kept", "dropped"):
        producer = _producer(bootstrap, transactional_id="hands-over")
        producer.init_transactions(60)
        producer.begin_transaction()
        for at in range(30):
            producer.produce(TOPIC, value=f"{prefix}-{end}-{at}")
        assert producer.flush(60) == 0
        if end == "kept":
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


def _producer(bootstrap: str, **settings: object) -> Producer:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 20, **dotted})


def _commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def _committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=60)
        assert found.error is None
        return int(found.offset)
    finally:
        consumer.close()
