"""Clients from before 0.11, with message sets of formats 0 and 1, over the wire."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.record import MemoryRecords

from interop.wire import Wire, codes, topic
from klamm import Cluster
from klamm.model.errors import ErrorCode as E
from klamm.protocol.apis import ApiKey
from klamm.protocol.message_sets.layout import message
from klamm.protocol.messages import fetch, produce

COUNT = 300
CODECS = ("none", "gzip", "snappy", "lz4")


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Cluster(1) as cluster:
        yield Wire(cluster)


def make(wire: Wire, name: str, **configs: str) -> str:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    assert codes(wire.create(topic(name, 1, 1, configs=named))) == [E.NONE]
    return name


def send(wire: Wire, version: int, name: str, data: bytes | None, acks: int = -1) -> Any:
    """What is said to one Produce for one partition."""
    partition = produce.PartitionProduceData(0, data)
    asked = produce.Request(None, acks, 10_000, [produce.TopicProduceData(name, [partition])])
    (answer,) = wire.ask(ApiKey.PRODUCE, version, asked).responses
    return answer.partition_responses[0]


def ask(wire: Wire, version: int, name: str, offset: int, **more: Any) -> Any:
    """What is said to one Fetch of one partition."""
    wanted = fetch.FetchPartition(
        0, fetch_offset=offset, partition_max_bytes=more.pop("room", 1 << 20)
    )
    asked = fetch.Request(
        max_wait_ms=more.pop("wait_ms", 0),
        min_bytes=1,
        topics=[fetch.FetchTopic(topic=name, partitions=[wanted])],
    )
    (answer,) = wire.ask(ApiKey.FETCH, version, asked).responses
    return answer.partitions[0]


def seen(data: bytes) -> list[tuple[int, bytes | None]]:
    """Offsets and values of a message set, as an old client reads it."""
    found = []
    sets = MemoryRecords(data)
    while (each := sets.next_batch()) is not None:
        assert each.validate_crc()
        found += [(record.offset, record.value) for record in each]
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", [(0, 8, 2), (0, 9), (0, 10)])
def test_kafka_python_as_of_then(wire: Wire, version: tuple[int, ...], codec: str) -> None:
    name = make(wire, f"python-{'.'.join(map(str, version))}-{codec}")
    common = {"bootstrap_servers": wire.cluster.bootstrap_servers, "api_version": version}
    producer = KafkaProducer(
        **common,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=False,
        linger_ms=20,
    )
    timed = version >= (0, 10)
    sent = [
        producer.send(name, b"v%d" % n, b"k%d" % n, timestamp_ms=1_000 + n if timed else None)
        for n in range(COUNT)
    ]
    assert [each.get(20).offset for each in sent] == list(range(COUNT))
    producer.close()
    consumer = KafkaConsumer(
        **common, auto_offset_reset="earliest", enable_auto_commit=False, consumer_timeout_ms=10_000
    )
    consumer.assign([TopicPartition(name, 0)])
    got = [next(consumer) for _ in range(COUNT)]
    consumer.close()
    assert [(r.offset, r.key, r.value) for r in got] == [
        (n, b"k%d" % n, b"v%d" % n) for n in range(COUNT)
    ]
    assert [r.timestamp for r in got] == [1_000 + n if timed else None for n in range(COUNT)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", ["0.8.2", "0.9.0", "0.10.0"])
def test_librdkafka_as_of_then(wire: Wire, version: str, codec: str) -> None:
    name = make(wire, f"librdkafka-{version}-{codec}")
    common = {
        "bootstrap.servers": wire.cluster.bootstrap_servers,
        "api.version.request": "false",
        "broker.version.fallback": version,
        "log_level": 0,
    }
    refused: list[Any] = []
    producer = Producer({**common, "compression.type": codec, "linger.ms": 20})
    for n in range(COUNT):
        producer.produce(
            name,
            b"v%d" % n,
            b"k%d" % n,
            on_delivery=lambda fault, _: refused.append(fault) if fault else None,
        )
    assert producer.flush(20) == 0
    assert not refused
    consumer = Consumer({**common, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([Place(name, 0, 0)])
    got = [m for m in consumer.consume(COUNT, 20) if not m.error()]
    consumer.close()
    assert [(m.offset(), m.key(), m.value()) for m in got] == [
        (n, b"k%d" % n, b"v%d" % n) for n in range(COUNT)
    ]


def test_each_version_has_its_answer(wire: Wire) -> None:
    name = make(wire, "answers")
    for at, version in enumerate((0, 1, 2)):
        said = send(wire, version, name, message(min(version, 1), 5, 1_000, None, b"%d" % version))
        assert (said.error_code, said.base_offset, said.log_append_time_ms) == (0, at, -1)
    for version, magic in ((0, 0), (1, 0), (2, 1), (3, 1)):
        said = ask(wire, version, name, 1)
        assert (said.error_code, said.high_watermark, said.records[16]) == (0, 3, magic)
        assert seen(said.records) == [(1, b"1"), (2, b"2")]
    assert ask(wire, 4, name, 0).records[16] == 2


def test_the_broker_s_time_is_answered_and_told(wire: Wire) -> None:
    name = make(wire, "stamped", message_timestamp_type="LogAppendTime")
    said = send(wire, 2, name, message(1, 0, 5, None, b"v"))
    assert said.log_append_time_ms > 1_000_000_000_000
    (each,) = MemoryRecords(ask(wire, 2, name, 0).records).next_batch()
    assert (each.timestamp, each.timestamp_type) == (said.log_append_time_ms, 1)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", E.NONE),  # as in Kafka: there is nothing to write, and nothing is wrong
        (message(0, 0, -1, None, b"v")[:-1], E.NONE),
        (None, E.INVALID_RECORD),
        (message(0, 0, -1, b"k", b"v")[:-1] + b"x", E.CORRUPT_MESSAGE),
        (message(0, 0, -1, None, b"v"), E.INVALID_RECORD),  # no key in a compacted topic
        (message(0, 0, -1, b"k", bytes(2_000)), E.MESSAGE_TOO_LARGE),
        (message(0, 0, -1, b"k", bytes(700)) * 2, E.MESSAGE_TOO_LARGE),
        (message(0, 0, -1, None, b"no gzip", 1), E.INVALID_RECORD),
    ],
)
def test_what_cannot_be_is_refused(wire: Wire, data: bytes | None, code: E) -> None:
    wire.create(
        topic("narrow", 1, 1, configs={"cleanup.policy": "compact", "max.message.bytes": "1000"})
    )
    said = send(wire, 2, "narrow", data)
    assert (said.error_code, said.base_offset) == (code, -1)


def test_what_old_readers_cannot_have(wire: Wire) -> None:
    off = make(wire, "off", message_downconversion_enable="false")
    zstd = make(wire, "zstd")
    stored = make(wire, "stored-zstd", compression_type="zstd")
    producer = Producer(
        {"bootstrap.servers": wire.cluster.bootstrap_servers, "compression.type": "zstd"}
    )
    for name in (off, zstd, stored):
        producer.produce(name, b"v" * 500, headers={"h": b"x"})
    assert producer.flush(10) == 0
    assert ask(wire, 3, off, 0).error_code == E.UNSUPPORTED_VERSION
    assert ask(wire, 4, off, 0).error_code == E.NONE
    assert ask(wire, 3, zstd, 0).error_code == E.UNSUPPORTED_COMPRESSION_TYPE
    assert ask(wire, 9, stored, 0).error_code == E.UNSUPPORTED_COMPRESSION_TYPE
    assert ask(wire, 10, stored, 0).error_code == E.NONE


def test_a_batch_larger_than_asked_for_is_sent_all_the_same(wire: Wire) -> None:
    name = make(wire, "large-batch")
    send(wire, 1, name, message(0, 0, -1, None, bytes(50_000)))
    assert [offset for offset, _ in seen(ask(wire, 1, name, 0, room=1_000).records)] == [0]


def test_markers_are_passed_over(wire: Wire) -> None:
    name = make(wire, "transactions")
    producer = Producer(
        {"bootstrap.servers": wire.cluster.bootstrap_servers, "transactional.id": "old-readers"}
    )
    producer.init_transactions(20)
    for _ in range(3):
        producer.begin_transaction()
        producer.produce(name, b"v", headers={"h": b"x"})
        producer.commit_transaction(20)
    assert seen(ask(wire, 2, name, 0).records) == [(0, b"v"), (2, b"v"), (4, b"v")]
    assert seen(ask(wire, 2, name, 1, room=78).records) == [(2, b"v")]
    # Only a marker is left: that is nothing, and a reader that waits is not answered at once.
    began = time.monotonic()
    assert ask(wire, 2, name, 5, wait_ms=300).records == b""
    assert time.monotonic() - began > 0.25
