"""How many bytes a second librdkafka moves through one broker process.

The client runs in a process of its own on the same machine, so what is measured is both ends on the
cores there are. Batching is librdkafka's default but for the linger it needs to fill a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from measure import Measure, cluster

TOTAL_BYTES = {100: 100_000_000, 1000: 1_000_000_000}
_CHUNK = 10_000
_MB = 1_000_000


def produce(size: int, *, acks: str, copies: int) -> float:
    """MB/s until the last record is acknowledged."""
    with cluster(brokers=copies) as running:
        _create(running.bootstrap, copies)
        return _fill(running.bootstrap, size, acks)


def consume(size: int) -> float:
    """MB/s of a topic that lies in the page cache."""
    with cluster(brokers=1) as running:
        _create(running.bootstrap, 1)
        _fill(running.bootstrap, size, "1")
        return _drain(running.bootstrap, size)


def _create(bootstrap: str, copies: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("load", 6, copies)])["load"].result(timeout=30)


def _fill(bootstrap: str, size: int, acks: str) -> float:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "linger.ms": 10,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "error_cb": _raise,
        }
    )
    count = TOTAL_BYTES[size] // size
    chunks = [[{"value": b"x" * size, "partition": at % 6} for at in range(_CHUNK)]] * (
        count // _CHUNK
    )
    started = time.perf_counter()
    for chunk in chunks:
        while len(producer) > 500_000:
            producer.poll(0.005)
        queued = producer.produce_batch("load", chunk)
        assert queued == len(chunk), "the queue was full"
    left = producer.flush(120)
    assert left == 0, f"{left} records were not delivered"
    return count * size / (time.perf_counter() - started) / _MB


def _drain(bootstrap: str, size: int) -> float:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 10,
        }
    )
    count = TOTAL_BYTES[size] // size
    try:
        consumer.assign([TopicPartition("load", at, 0) for at in range(6)])
        started = time.perf_counter()
        seen = 0
        while seen < count:
            messages = consumer.consume(min(_CHUNK, count - seen), timeout=30)
            assert messages, f"nothing more after {seen} of {count} records"
            seen += len(messages)
        return count * size / (time.perf_counter() - started) / _MB
    finally:
        consumer.close()


def _raise(error: KafkaError) -> None:
    raise SystemExit(f"librdkafka: {error}")


def _measure(name: str, what: str, run: Callable[[], float], goal: float | None = None) -> Measure:
    return Measure(name, what, "MB/s", run, goal, less_is_better=False)


_ACKS_1 = partial(produce, acks="1", copies=1)
_ACKS_ALL = partial(produce, acks="all", copies=3)

MEASURES = (
    _measure("produce-1k", "1 KB records, acks=1, RF 1", partial(_ACKS_1, 1000), 500),
    _measure("produce-1k-all", "1 KB records, acks=all, RF 3", partial(_ACKS_ALL, 1000)),
    _measure("produce-100", "100 B records, acks=1, RF 1", partial(_ACKS_1, 100)),
    _measure("produce-100-all", "100 B records, acks=all, RF 3", partial(_ACKS_ALL, 100)),
    _measure("consume-1k", "1 KB records", partial(consume, 1000), 800),
    _measure("consume-100", "100 B records", partial(consume, 100)),
)
