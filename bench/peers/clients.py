"""The clients of every system: librdkafka through Python, and Kafka's Java tools."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from peers.kafka import tool
from peers.systems import System
from peers.wire import Witness

Figures = dict[str, float]
QUIET: Final = {"log_level": 0}
_QUEUED_MAX: Final = 60_000  # of the 100,000 records that librdkafka's queue takes
now = time.perf_counter


def admin_of(system: System) -> AdminClient:
    return AdminClient({"bootstrap.servers": system.bootstrap, **QUIET})


def witnesses(system: System, limit_s: float = 90) -> dict[int, Witness]:
    """A connection to every broker, as soon as each listens."""
    end = now() + limit_s
    found: dict[int, Witness] = {}
    while len(found) < len(system.addresses):
        for broker, address in system.addresses.items():
            if broker not in found:
                try:
                    found[broker] = Witness(address)
                except OSError:
                    if now() > end:
                        raise TimeoutError(f"{system.name}: a broker does not listen") from None
        time.sleep(0.005)
    return found


def wait_for_brokers(system: System, limit_s: float = 90) -> None:
    """Until every broker knows all the others."""
    asked, end = witnesses(system, limit_s), now() + limit_s
    waiting = set(asked)
    while waiting:
        for broker in tuple(waiting):
            try:
                if len(asked[broker].ask().alive) == len(system.addresses):
                    waiting.discard(broker)
            except OSError:
                asked[broker] = Witness(system.addresses[broker])
        if now() > end:
            raise TimeoutError(f"{system.name}: the brokers do not find each other")
        time.sleep(0.005)
    for witness in asked.values():
        witness.close()


def create(system: System, name: str, partitions: int, copies: int) -> None:
    """Make a topic; again and again right after a start, when not every broker is registered."""
    if system.copies_max == 0:
        assert system.make_topic(name, partitions), f"{system.name} made no {name}"
        return
    admin, end = admin_of(system), now() + 90
    while True:
        try:
            topic = NewTopic(name, partitions, copies)
            admin.create_topics([topic], operation_timeout=60, request_timeout=60)[name].result(120)
            return
        except Exception as fault:
            if "exists" in str(fault).lower():
                return
            if now() > end:
                raise
            time.sleep(0.02)


def delete(system: System, *names: str) -> None:
    if system.copies_max == 0:
        return
    admin = admin_of(system)  # a name of its own: the futures die with their client
    for future in admin.delete_topics(list(names), request_timeout=60).values():
        future.result(120)


def first_record(system: System, topic: str) -> float:
    """Produce one record with acks=all and read it; the moment it was read."""
    producer = Producer({"bootstrap.servers": system.bootstrap, "linger.ms": 0, **QUIET})
    producer.produce(topic, b"x" * 100)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "first", **QUIET})
    consumer.assign([TopicPartition(topic, 0, 0)])
    end = now() + 60
    while now() < end:
        message = consumer.poll(1)
        if message is not None and not message.error():
            done = now()
            consumer.close()
            return done
    raise TimeoutError("the first record was not consumed")


def produce(
    system: System,
    topic: str,
    partitions: int,
    *,
    size: int,
    acks: str,
    seconds: float,
    batching: Mapping[str, object],
) -> tuple[int, Figures]:
    """Send for so long; how many records, and what it came to."""
    producer = Producer({"bootstrap.servers": system.bootstrap, "acks": acks, **QUIET, **batching})
    producer.list_topics(topic, timeout=30)
    payload = random.Random(1).randbytes(size)
    batch = [{"value": payload} for _ in range(500)]
    sent = turn = 0
    cpu, own, started = system.cpu_s(), time.process_time(), now()
    while now() < started + seconds:
        if len(producer) > _QUEUED_MAX:
            producer.poll(0.002)
            continue
        sent += producer.produce_batch(topic, batch, partition=turn % partitions)
        turn += 1
        producer.poll(0)
    assert producer.flush(120) == 0, "not every record was delivered"
    return sent, _rates(sent * size, now() - started, system.cpu_s() - cpu, own)


def _rates(size: int, took_s: float, cpu_s: float, own_before: float) -> Figures:
    gigabytes = max(size, 1) / 1e9
    return {
        "mb_s": size / 1e6 / took_s,
        "cpu_s_per_gb": cpu_s / gigabytes,
        "client_cpu_s_per_gb": (time.process_time() - own_before) / gigabytes,
        "cores": cpu_s / took_s,
    }


def check_count(system: System, topic: str, partitions: int, count: int) -> None:
    """What was acknowledged is there."""
    consumer = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "count", **QUIET})
    total = 0
    for at in range(partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, at), timeout=30)
        total += high - low
    consumer.close()
    assert total == count, f"{topic}: {total} on the brokers, {count} acknowledged"


def consume(system: System, topic: str, partitions: int, *, size: int, count: int) -> Figures:
    settings = {
        "bootstrap.servers": system.bootstrap,
        "group.id": "read",
        "enable.auto.commit": False,
        # By default librdkafka sleeps for a second whenever 100,000 records are queued.
        "fetch.queue.backoff.ms": 2,
        **QUIET,
    }
    consumer = Consumer(settings)
    consumer.list_topics(topic, timeout=30)
    cpu, own, started = system.cpu_s(), time.process_time(), now()
    consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
    seen = 0
    while seen < count and now() < started + 30:
        seen += len(consumer.consume(10_000, timeout=0.05))
    figures = _rates(seen * size, now() - started, system.cpu_s() - cpu, own)
    consumer.close()
    assert seen >= count, f"{topic}: {seen} of {count} were read"
    return figures


def _payloads(directory: Path, size: int) -> Path:
    """Text for the Java tool: making random bytes would be its limit."""
    path = directory / f"payload-{size}.txt"
    if not path.exists():
        letters, dice = "abcdefghijklmnopqrstuvwxyz", random.Random(2)
        path.write_text("\n".join("".join(dice.choices(letters, k=size)) for _ in range(50)))
    return path


def java_produce(system: System, topic: str, *, size: int, acks: str, count: int) -> Figures:
    """Kafka's own producer, 16 KB batches."""
    words = ["--topic", topic, "--num-records", str(count), "--throughput", "-1"]
    words += ["--payload-file", str(_payloads(system.directory, size)), "--producer-props"]
    words += [f"bootstrap.servers={system.bootstrap}", f"acks={acks}", "linger.ms=5"]
    cpu = system.cpu_s()
    text = _said(tool("3.9", "org.apache.kafka.tools.ProducerPerformance", *words))
    cpu = system.cpu_s() - cpu
    last = [line for line in text.splitlines() if "records sent" in line and "99.9th" in line]
    rate = float(last[-1].split(", ")[1].split()[0])
    return {"mb_s": rate * size / 1e6, "cpu_s_per_gb": cpu / (count * size / 1e9)}


def java_consume(system: System, topic: str, *, size: int, count: int) -> Figures:
    words = ["--bootstrap-server", system.bootstrap, "--topic", topic, "--messages", str(count)]
    cpu = system.cpu_s()
    text = _said(tool("3.9", "org.apache.kafka.tools.ConsumerPerformance", *words))
    cpu = system.cpu_s() - cpu
    line = [each for each in text.splitlines() if each[:2] == "20"]
    fields = [field.strip() for field in line[-1].split(",")]
    # Without the wait for the group.
    return {
        "mb_s": float(fields[9]) * size / 1e6,
        "cpu_s_per_gb": cpu / (float(fields[4]) * size / 1e9),
    }


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


def latency(system: System, topic: str, partitions: int, *, rate: int, seconds: float) -> Figures:
    """From `produce` to the hands of a consumer in another process, acks=all."""
    reader = subprocess.Popen(
        [sys.executable, "-m", "peers.reading", system.bootstrap, topic, str(partitions)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    settings = {"bootstrap.servers": system.bootstrap, "acks": "all", "linger.ms": 0, **QUIET}
    producer = Producer(settings)
    producer.list_topics(topic, timeout=30)
    started, sent, total = now(), 0, int(rate * seconds)
    while sent < total:
        due = int((now() - started) * rate)
        while sent < min(due, total):
            stamp = time.monotonic_ns().to_bytes(8, "big")
            producer.produce(topic, stamp + bytes(992), partition=sent % partitions)
            sent += 1
        producer.poll(0)
        time.sleep(max(0, started + (sent + 1) / rate - now()))
    assert producer.flush(30) == 0
    said, _ = reader.communicate(f"{total}\n", timeout=60)
    figures: Figures = json.loads(said)
    return figures
