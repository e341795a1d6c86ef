"""What the data plane moves, and what that costs the broker's process and the client's.

Throughput depends on what else the machine does; processor time hardly does. So every measurement
tells both: MB/s as the client saw it, and MB for each second of processor time that the process of
all brokers used, and the client's. Who needed more of it was the limit. Batching is librdkafka's
default but for the linger it needs to fill a batch. Latency is from `produce` to the consumer's
hands, at a fixed rate that leaves the machine mostly idle.
"""

from __future__ import annotations

import statistics
import struct
import threading
import time
from collections.abc import Mapping
from functools import partial

import librdkafka
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from measure import Case, Figures, Meter, Running, cluster

PARTITIONS = 6
_MB = 1_000_000
_IDLE_CPU_S = 0.1  # of one second

DEFAULT: Mapping[str, object] = {"linger.ms": 10}
SMALL: Mapping[str, object] = {"linger.ms": 10, "batch.size": 16_384}
ALONE: Mapping[str, object] = {"linger.ms": 0, "batch.num.messages": 1}


def create(running: Running, partitions: int, copies: int, topic: str = "load") -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, copies)])[topic].result(timeout=60)


def fill(bootstrap: str, total: int, size: int, acks: str, batching: Mapping[str, object]) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": acks,
        "log_level": 0,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1 << 18,
        **batching,
    }
    librdkafka.produce(settings, "load", PARTITIONS, count=total // size, size=size)


def produce(
    total: int, *, size: int, acks: str, copies: int, batching: Mapping[str, object]
) -> Figures:
    with cluster(brokers=copies) as running:
        create(running, PARTITIONS, copies)
        with Meter(running.pid) as meter:
            fill(running.bootstrap, total, size, acks, batching)
        return meter.rates(total)


def produce_alone(count: int) -> Figures:
    """Every record in a request of its own."""
    with cluster(brokers=1) as running:
        create(running, PARTITIONS, 1)
        with Meter(running.pid) as meter:
            fill(running.bootstrap, count * 100, 100, "1", ALONE)
        return {
            "requests_per_s": count / meter.wall,
            "requests_per_broker_cpu_s": count / meter.cpu,
            "broker_cores": meter.cpu / meter.wall,
            "client_cores": meter.own_cpu / meter.wall,
        }


def consume(total: int, *, size: int) -> Figures:
    with cluster(brokers=1) as running:
        create(running, PARTITIONS, 1)
        fill(running.bootstrap, total, size, "1", DEFAULT)
        librdkafka.destroyer()
        with Meter(running.pid) as meter:
            drain(running.bootstrap, total // size)
        return meter.rates(total)


def drain(bootstrap: str, count: int, more: Mapping[str, object] | None = None) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "queued.min.messages": 1_000_000,
        "fetch.queue.backoff.ms": 5,
        **(more or {}),
    }
    librdkafka.consume(settings, "load", PARTITIONS, count=count)


def latency(*, acks: str, copies: int, rate: int, seconds: int = 10) -> Figures:
    with cluster(brokers=copies) as running:
        create(running, PARTITIONS, copies)
        took = _end_to_end(running.bootstrap, acks, rate, seconds)
    took.sort()
    cuts = statistics.quantiles(took, n=1000)
    return {"p50_ms": cuts[499], "p99_ms": cuts[989], "p999_ms": cuts[998]}


def _end_to_end(bootstrap: str, acks: str, rate: int, seconds: int) -> list[float]:
    took: list[float] = []
    count = rate * seconds
    listening, done = threading.Event(), threading.Event()

    def listen() -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
        consumer.assign([TopicPartition("load", at, 0) for at in range(PARTITIONS)])
        while len(took) < count:
            message: Message | None = consumer.poll(10)
            assert message is not None, f"{len(took)} of {count} came"
            if message.error() is None:
                value = message.value()
                assert isinstance(value, bytes)
                sent = struct.unpack_from(">d", value)[0]
                if sent:
                    took.append((time.perf_counter() - sent) * 1000)
                listening.set()
        consumer.close()
        done.set()

    thread = threading.Thread(target=listen)
    thread.start()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0})
    while not listening.wait(0.1):
        producer.produce("load", struct.pack(">d", 0.0) + bytes(92), partition=0)
        producer.poll(0)
    started = time.perf_counter()
    for at in range(count):
        while (ahead := started + at / rate - time.perf_counter()) > 0:
            producer.poll(min(ahead, 0.001))
        producer.produce(
            "load", struct.pack(">d", time.perf_counter()) + bytes(92), partition=at % PARTITIONS
        )
        producer.poll(0)
    producer.flush(30)
    assert done.wait(60)
    thread.join()
    return took


def idle(partitions: int, seconds: int = 10) -> Figures:
    """The processor time of three brokers whose partitions have nothing to do."""
    with cluster(brokers=3) as running:
        create(running, partitions, 3)
        _settle(running)
        with Meter(running.pid) as meter:
            time.sleep(seconds)
        return {"cpu_percent": 100 * meter.cpu / meter.wall}


def _settle(running: Running) -> None:
    """Wait for what the creation left to do: the ledger is still brought into its topic."""
    quiet_s = 0
    for _ in range(60):
        with Meter(running.pid) as meter:
            time.sleep(1)
        quiet_s = quiet_s + 1 if meter.cpu < _IDLE_CPU_S else 0
        if quiet_s == 3:
            return


# A core at 1 KB, acks=1. In time the first; the other one needs more of the client than there is.
_GOALS: Mapping[tuple[int, str, str], Mapping[str, float]] = {
    (1000, "1", "default"): {"mb_per_s": 500.0},
    (1000, "1", "16k"): {"mb_per_broker_cpu_s": 250.0},
}


def _produces() -> list[Case]:
    cases = []
    for acks, copies in (("1", 1), ("all", 3)):
        for batching, text, megabytes in ((DEFAULT, "default", 500), (SMALL, "16k", 200)):
            for size in (1000, 100):
                total = megabytes * _MB // copies // (1 if size == 1000 else 4)
                run = partial(
                    produce, total, size=size, acks=acks, copies=copies, batching=batching
                )
                goals = _GOALS.get((size, acks, text), {})
                what = f"{size} B, acks={acks}, RF {copies}, {text} batches"
                cases.append(Case(f"produce-{size}-{acks}-{text}", what, run, goals))
    return cases


def _latency(name: str, acks: str, copies: int, rate: int) -> Case:
    what = f"acks={acks}, RF {copies}, {rate} records a second"
    return Case(name, what, partial(latency, acks=acks, copies=copies, rate=rate))


CASES = (
    *_produces(),
    Case(
        "produce-alone",
        "100 B, acks=1, one record a request",
        partial(produce_alone, 100_000),
        {"requests_per_broker_cpu_s": 20_000.0},
    ),
    Case("consume-1000", "1000 B", partial(consume, 2000 * _MB, size=1000), {"mb_per_s": 800.0}),
    Case("consume-100", "100 B", partial(consume, 100 * _MB, size=100)),
    _latency("latency-1", "1", 1, 500),
    _latency("latency-all", "all", 3, 100),
    Case("idle-500", "500 partitions, RF 3", partial(idle, 500)),
    Case("idle-5000", "5000 partitions, RF 3", partial(idle, 5000)),
)
