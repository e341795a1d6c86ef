"""The work that is measured: each cell is done by every system that can do it.

A cold cell starts a cluster of its own. A live one is done on clusters that are up and warm.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from peers import clients
from peers.clients import QUIET, Figures, now
from peers.kafka import Kafka, tool
from peers.systems import Klamm, System
from peers.wire import Witness

PARTITIONS: Final = 6
_MANY: Final = 1_000
_SINGLE: Final = 200
_TOPICS: Final = 10
BATCHING: Final[Mapping[str, Mapping[str, object]]] = {
    "1mb": {},  # librdkafka's own: 5 ms of linger, batches of up to 1 MB
    "16kb": {"batch.size": 16_384},
}
_ONE_BY_ONE: Final[Mapping[str, object]] = {"linger.ms": 0, "batch.size": 400}


@dataclass(frozen=True, slots=True)
class Options:
    """How long a cell may take."""

    seconds: float = 3.0
    latency_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of work."""

    name: str
    what: str
    run: Callable[[System, str, Options], Figures]
    copies: int = 1
    is_cold: bool = False
    makes_topics: bool = True
    kills: bool = False

    def suits(self, system: System | type[System]) -> bool:
        """Whether a system can do this."""
        if self.kills and not system.may_be_killed:
            return False
        if self.makes_topics and system.copies_max == 0:
            return False
        return self.copies <= max(system.copies_max, 1)


def start(system: System, _: str, options: Options) -> Figures:
    """To the first record that was produced and read, and what an idle cluster takes."""
    system.prepare()
    started = now()
    system.start()
    clients.wait_for_brokers(system)
    clients.create(system, "first", 1, min(3, max(system.copies_max, 1)))
    read = clients.first_record(system, "first")
    figures = {"first_record_s": read - started, "first_record_cpu_s": system.cpu_s()}
    time.sleep(6)
    before, at = system.cpu_s(), now()
    time.sleep(4 * options.seconds)
    figures["idle_cpu_percent"] = 100 * (system.cpu_s() - before) / (now() - at)
    figures["idle_memory_mb"] = system.memory_mb()
    return figures


def _wait_led(
    asked: Mapping[int, Witness],
    wanted: Mapping[str, int],
    *,
    in_sync: int = 0,
    limit_s: float = 180,
    pause_s: float = 0.02,
) -> float:
    """Until each of these brokers shows a leader, and so many in sync, for every partition."""
    end = now() + limit_s
    for witness in asked.values():
        while True:
            topics = witness.ask().topics
            if all(
                sum(lead >= 0 and size >= in_sync for lead, size in topics.get(name, {}).values())
                >= count
                for name, count in wanted.items()
            ):
                break
            if now() > end:
                raise TimeoutError("not every partition is led")
            time.sleep(pause_s)
    return now()


def failover(partitions: int) -> Callable[[System, str, Options], Figures]:
    """kill -9 of the controller's process, until the others show live leaders for all."""

    def run(system: System, _: str, __: Options) -> Figures:
        system.prepare()
        system.start()
        clients.wait_for_brokers(system)
        topics = {f"t{at}": partitions // _TOPICS for at in range(_TOPICS)}
        asked = clients.witnesses(system)
        for name, count in topics.items():
            clients.create(system, name, count, 3)
        _wait_led(asked, topics, in_sync=3, limit_s=300, pause_s=0.2)
        time.sleep(3)
        dead = system.controller()
        others = {broker: each for broker, each in asked.items() if broker != dead}
        seen = next(iter(others.values())).ask().topics
        led = sum(leader == dead for name in topics for leader, _ in seen[name].values())
        return _watch_failover(system, dead, led, others, topics)

    return run


def _watch_failover(
    system: System,
    dead: int,
    led: int,
    others: Mapping[int, Witness],
    topics: Mapping[str, int],
) -> Figures:
    """`led` is how many partitions the dead one led."""
    total = sum(topics.values())
    pause_s = 0.02 if total <= 2_000 else 0.1
    started = now()
    system.kill(dead)
    first = 0.0
    waiting = set(others)
    while waiting:
        for broker in tuple(waiting):
            found = others[broker].ask().topics
            leaders = [leader for name in topics for leader, _ in found.get(name, {}).values()]
            left = sum(leader not in others for leader in leaders)
            if not first and sum(leader == dead for leader in leaders) < led:
                first = now()
            if not left and len(leaders) == total:
                waiting.discard(broker)
        if now() - started > 180:
            raise TimeoutError("not every partition is led again")
        time.sleep(pause_s)
    all_led = now()
    producer = Producer({"bootstrap.servers": _address(system, min(others)), **QUIET})
    for at in range(min(200, total // _TOPICS)):
        producer.produce("t0", b"x", partition=at)
    assert producer.flush(120) == 0, "a partition takes no records"
    first = first or all_led
    return {
        "noticed_s": first - started,
        "first_to_last_s": all_led - first,
        "all_led_s": all_led - started,
        "written_s": now() - started,
    }


def _address(system: System, broker: int) -> str:
    host, port = system.addresses[broker]
    return f"{host}:{port}"


def listing(system: System, _: str, __: Options) -> Figures:
    """The command that lists topics, from its start to its end."""
    env: Mapping[str, str] | None = None
    if isinstance(system, Klamm):
        command, env = (
            system.command("topics", "list", "-b", system.bootstrap),
            system.environment(),
        )
    else:
        line = system.line if isinstance(system, Kafka) else "3.9"
        words = ("--bootstrap-server", system.bootstrap, "--list")
        command = tool(line, "org.apache.kafka.tools.TopicCommand", *words, heap="-Xmx256M")
    walls = []
    for _ in range(3):
        begun = now()
        subprocess.run(command, check=True, capture_output=True, env=env)
        walls.append(now() - begun)
    return {"wall_s": statistics.median(walls)}


def latency(system: System, topic: str, options: Options) -> Figures:
    clients.create(system, topic, PARTITIONS, 3)
    time.sleep(0.5)
    return clients.latency(system, topic, PARTITIONS, rate=300, seconds=options.latency_seconds)


def moving(size: int, batching: str, copies: int) -> Callable[[System, str, Options], Figures]:
    """Produce, and with large batches consume as well."""

    def run(system: System, topic: str, options: Options) -> Figures:
        clients.create(system, topic, PARTITIONS, copies)
        time.sleep(0.3)
        count, figures = clients.produce(
            system,
            topic,
            PARTITIONS,
            size=size,
            acks="all" if copies > 1 else "1",
            seconds=options.seconds,
            batching=BATCHING[batching],
        )
        found = {f"produce.{name}": value for name, value in figures.items()}
        if not system.keeps_records:
            return found
        clients.check_count(system, topic, PARTITIONS, count)
        if batching == "1mb" and size == 1_000:
            figures = clients.consume(system, topic, PARTITIONS, size=size, count=count)
            found |= {f"consume.{name}": value for name, value in figures.items()}
        return found

    return run


def java(system: System, topic: str, options: Options) -> Figures:
    """Kafka's own producer and consumer."""
    count = int(100_000 * options.seconds)
    clients.create(system, topic, PARTITIONS, 1)
    time.sleep(0.3)
    wrote = clients.java_produce(system, topic, size=1_000, acks="1", count=count)
    read = clients.java_consume(system, topic, size=1_000, count=count)
    return {f"produce.{name}": value for name, value in wrote.items()} | {
        f"consume.{name}": value for name, value in read.items()
    }


def topics(system: System, topic: str, _: Options) -> Figures:
    """1,000 partitions, 1,000 topics at once, 200 one by one, and all of them deleted."""
    admin = clients.admin_of(system)
    asked = clients.witnesses(system)
    wide, prefix = f"{topic}-wide", f"{topic}-each"
    figures: Figures = {}
    cpu, started = system.cpu_s(), now()
    clients.create(system, wide, _MANY, 3)
    figures["wide_led_s"] = _wait_led(asked, {wide: _MANY}) - started
    _write_to_each(system, wide, _MANY)
    figures["wide_written_s"] = now() - started
    figures["wide_cpu_s"] = system.cpu_s() - cpu
    names = [f"{prefix}-{at}" for at in range(_MANY)]
    cpu, started = system.cpu_s(), now()
    made = admin.create_topics(
        [NewTopic(name, 1, 3) for name in names], operation_timeout=60, request_timeout=120
    )
    for future in made.values():
        future.result(180)
    figures["bulk_answered_s"] = now() - started
    figures["bulk_led_s"] = _wait_led(asked, dict.fromkeys(names, 1)) - started
    figures["bulk_cpu_s"] = system.cpu_s() - cpu
    single = [f"{prefix}-one-{at}" for at in range(_SINGLE)]
    started = now()
    for name in single:
        admin.create_topics([NewTopic(name, 1, 3)], request_timeout=30)[name].result(60)
    figures["single_per_s"] = _SINGLE / (now() - started)
    _wait_led(asked, dict.fromkeys(single, 1))
    time.sleep(1)
    started = now()
    clients.delete(system, *names, *single)
    figures["deleted_unseen_s"] = _wait_unseen(asked, prefix) - started
    figures["deleted_disk_s"] = wait_clean(system, prefix) - started
    clients.delete(system, wide)
    wait_clean(system, wide)
    return figures


def _write_to_each(system: System, topic: str, partitions: int) -> None:
    settings = {"bootstrap.servers": system.bootstrap, "acks": "1", "linger.ms": 5, **QUIET}
    producer = Producer(settings)
    for at in range(partitions):
        producer.produce(topic, b"x" * 100, partition=at)
    assert producer.flush(120) == 0, "not every leader took its record"


def _wait_unseen(asked: Mapping[int, Witness], prefix: str) -> float:
    """Until no broker's metadata has such a topic."""
    end = now() + 180
    for witness in asked.values():
        while any(name.startswith(prefix) for name in witness.ask().topics):
            if now() > end:
                raise TimeoutError("still in the metadata")
            time.sleep(0.02)
    return now()


def wait_clean(system: System, prefix: str) -> float:
    """Until nothing of such topics is on a disk."""
    end = now() + 180
    while system.copies_on_disk(prefix):
        if now() > end:
            raise TimeoutError("still on the disk")
        time.sleep(0.05)
    return now()


CELLS: Final = (
    Cell("start", "start to the first record, idle", start, is_cold=True, makes_topics=False),
    Cell("list", "the command that lists topics", listing),
    Cell("latency", "300 records a second, acks=all, RF 3", latency, copies=3),
    Cell("rf1-1mb", "1 KB, 1 MB batches, RF 1", moving(1_000, "1mb", 1), makes_topics=False),
    Cell("rf3-1mb", "1 KB, 1 MB batches, RF 3, acks=all", moving(1_000, "1mb", 3), copies=3),
    Cell("rf1-16kb", "1 KB, 16 KB batches, RF 1", moving(1_000, "16kb", 1), makes_topics=False),
    Cell("rf3-16kb", "1 KB, 16 KB batches, RF 3, acks=all", moving(1_000, "16kb", 3), copies=3),
    Cell("rf1-100b", "100 B, 1 MB batches, RF 1", moving(100, "1mb", 1), makes_topics=False),
    Cell("rf3-100b", "100 B, 1 MB batches, RF 3, acks=all", moving(100, "1mb", 3), copies=3),
    Cell("java", "Java, 1 KB, 16 KB batches, RF 1", java),
    Cell("topics", "topics and partitions made and deleted", topics, copies=3),
    Cell(
        "failover-1000",
        "controller killed, 1,000 partitions",
        failover(1_000),
        copies=3,
        is_cold=True,
        kills=True,
    ),
    Cell(
        "failover-10000",
        "controller killed, 10,000 partitions",
        failover(10_000),
        copies=3,
        is_cold=True,
        kills=True,
    ),
)


def warm_up(system: System, seconds: float) -> None:
    """The live cells' work for so long: a JVM needs it until its compiler has seen it all."""
    end, turn = now() + seconds, 0
    while now() < end:
        for copies in sorted({1, max(system.copies_max, 1)}):
            topic = f"warm-{turn}-{copies}"
            clients.create(system, topic, PARTITIONS, copies)
            acks = "all" if copies > 1 else "1"
            for batching in (*BATCHING.values(), _ONE_BY_ONE):
                count, _ = clients.produce(
                    system, topic, PARTITIONS, size=300, acks=acks, seconds=1.5, batching=batching
                )
                if system.keeps_records:
                    clients.consume(system, topic, PARTITIONS, size=300, count=count)
            clients.delete(system, topic)
            wait_clean(system, topic)
        turn += 1
