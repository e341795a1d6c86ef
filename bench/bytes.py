"""What the data plane moves, and what that costs the broker's process.

    python bench/bytes.py [NAME ...] [--megabytes N] [--list]

Throughput depends on what else the machine does; the broker's own processor time hardly does. So
every measurement tells both: MB/s as the client saw it, and MB for each second of processor time
that the process of all brokers used. Latency is from `produce` to the consumer's hands, at a fixed
rate that leaves the machine mostly idle. Results go to `bench/results/bytes-<time>.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from measure import Running, cluster

RESULTS = Path(__file__).parent / "results"
TICKS = os.sysconf("SC_CLK_TCK")
PARTITIONS = 6
_MB = 1_000_000
_CHUNK = 5_000

DEFAULT: Mapping[str, object] = {"linger.ms": 10}
SMALL: Mapping[str, object] = {"linger.ms": 10, "batch.size": 16_384}

Result = dict[str, float]


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement."""

    name: str
    what: str
    run: Callable[[int], Result]


def cpu_s(pid: int) -> float:
    """The processor time a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass(slots=True)
class Meter:
    """Wall and processor time of a stretch of work."""

    running: Running
    wall: float = 0.0
    cpu: float = 0.0

    def __enter__(self) -> Meter:
        self.wall, self.cpu = time.perf_counter(), cpu_s(self.running.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self.wall
        self.cpu = cpu_s(self.running.pid) - self.cpu

    def rates(self, size: int) -> Result:
        return {
            "mb_per_s": size / self.wall / _MB,
            "mb_per_cpu_s": size / max(self.cpu, 1 / TICKS) / _MB,
            "cpu_s": self.cpu,
        }


def create(running: Running, partitions: int, copies: int, topic: str = "load") -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, copies)])[topic].result(timeout=60)


def fill(bootstrap: str, total: int, size: int, acks: str, batching: Mapping[str, object]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 18,
            **batching,
        }
    )
    chunk = [{"value": b"x" * size, "partition": at % PARTITIONS} for at in range(_CHUNK)]
    for _ in range(max(total // size // _CHUNK, 1)):
        while len(producer) * size > 64 * _MB:
            producer.poll(0.002)
        assert producer.produce_batch("load", chunk) == len(chunk), "the queue was full"
    assert producer.flush(300) == 0, "records were not delivered"


def produce(
    total: int, *, size: int, acks: str, copies: int, batching: Mapping[str, object]
) -> Result:
    with cluster(brokers=copies) as running:
        create(running, PARTITIONS, copies)
        with Meter(running) as meter:
            fill(running.bootstrap, total, size, acks, batching)
        return meter.rates(max(total // size // _CHUNK, 1) * _CHUNK * size)


def consume(total: int, *, size: int) -> Result:
    with cluster(brokers=1) as running:
        create(running, PARTITIONS, 1)
        fill(running.bootstrap, total, size, "1", DEFAULT)
        count = max(total // size // _CHUNK, 1) * _CHUNK
        with Meter(running) as meter:
            drain(running.bootstrap, count)
        return meter.rates(count * size)


def drain(bootstrap: str, count: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 5,
        }
    )
    try:
        consumer.assign([TopicPartition("load", at, 0) for at in range(PARTITIONS)])
        seen = 0
        while seen < count:
            messages = consumer.consume(min(10_000, count - seen), timeout=30)
            assert messages, f"nothing more after {seen} of {count}"
            seen += len(messages)
    finally:
        consumer.close()


def latency(total: int, *, acks: str, copies: int, rate: int = 500, seconds: int = 10) -> Result:
    with cluster(brokers=copies) as running:
        create(running, PARTITIONS, copies)
        took = _end_to_end(running.bootstrap, acks, rate, seconds)
    took.sort()
    cuts = statistics.quantiles(took, n=1000)
    return {"p50_ms": cuts[499], "p99_ms": cuts[989], "p999_ms": cuts[998], "rate": rate}


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


def idle(total: int, *, partitions: int, seconds: int = 10) -> Result:
    """The processor time of three brokers whose partitions have nothing to do."""
    with cluster(brokers=3) as running:
        create(running, partitions, 3)
        time.sleep(3)
        with Meter(running) as meter:
            time.sleep(seconds)
        return {"cpu_percent": 100 * meter.cpu / meter.wall, "partitions": partitions}


def _produces() -> list[Case]:
    cases = []
    for size in (1000, 100):
        for acks, copies in (("1", 1), ("all", 3)):
            for batching, text in ((DEFAULT, "default"), (SMALL, "16k")):

                def run(
                    total: int,
                    size: int = size,
                    acks: str = acks,
                    copies: int = copies,
                    batching: Mapping[str, object] = batching,
                ) -> Result:
                    return produce(total, size=size, acks=acks, copies=copies, batching=batching)

                name = f"produce-{size}-{acks}-{text}"
                what = f"{size} B records, acks={acks}, RF {copies}, {text} batches"
                cases.append(Case(name, what, run))
    return cases


CASES = (
    *_produces(),
    Case("consume-1000", "1000 B records", lambda total: consume(total, size=1000)),
    Case("consume-100", "100 B records", lambda total: consume(total, size=100)),
    Case("latency-1", "acks=1, RF 1", lambda total: latency(total, acks="1", copies=1)),
    Case(
        "latency-all",
        "acks=all, RF 3",
        lambda total: latency(total, acks="all", copies=3, rate=100),
    ),
    Case("idle-500", "500 partitions, RF 3", lambda total: idle(total, partitions=500)),
    Case("idle-5000", "5000 partitions, RF 3", lambda total: idle(total, partitions=5000)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.names or case.name in options.names]
    lines = []
    for case in chosen:
        if options.list:
            print(f"{case.name:26} {case.what}")
            continue
        load = os.getloadavg()[0]
        result = case.run(options.megabytes * _MB)
        shown = "  ".join(f"{key} {value:.2f}" for key, value in result.items())
        print(f"{case.name:26} {shown}", flush=True)
        lines.append({"name": case.name, "what": case.what, "load_before": load, **result})
    if lines:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / time.strftime("bytes-%Y%m%d-%H%M%S.json", time.gmtime())
        machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
        path.write_text(json.dumps({"machine": machine, "results": lines}, indent=2) + "\n")
        print(f"written to {path}")


if __name__ == "__main__":
    main()
