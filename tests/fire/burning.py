"""A program that writes exactly once, a feeder, and the kills."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from fire import processes
from fire.program import BRIEF
from klamm.client import metadata
from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.errors import Unreachable
from klamm.client.metadata import TRANSACTION_KEY
from klamm.client.settings import ConnectionOptions
from klamm.protocol.apis import ApiKey

PARTITIONS = 3
PATIENCE_S = 600
KINDS = ("task", "executor", "driver", "coordinator", "leader")


class Brokers(Protocol):
    """What is burnt of a cluster."""

    bootstrap: str

    def burn(self, broker: int) -> None:
        """Kills a broker, and has it back."""


class Feeder(threading.Thread):
    """Writes 0, 1, 2... to the source until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20}
        )
        self._topic, self._end = topic, threading.Event()
        self.written = 0

    def run(self) -> None:
        while not self._end.wait(0.05):
            # A broker that has just started may deny the topic, which is thrown here.
            with contextlib.suppress(KafkaException, BufferError):
                for _ in range(20):
                    key = b"%d" % (self.written % 97)
                    self._producer.produce(self._topic, b"%d" % self.written, key)
                    self.written += 1
            self._producer.poll(0)

    def stop(self) -> None:
        self._end.set()
        self.join()
        assert self._producer.flush(120) == 0


class Fire:
    """One seeded run."""

    def __init__(self, brokers: Brokers, place: Path, *, master: str, seed: int) -> None:
        self._brokers, self._place, self._master = brokers, place, master
        self._random = random.Random(seed)
        self._lookup = Lookup(ConnectionOptions(bootstrap=parse_bootstrap(brokers.bootstrap)))
        self.source, self.target = "fuel", "ashes"
        for topic in (self.source, self.target):
            self._create(topic)
        self._checkpoint = place / "checkpoint"
        self._said = (place / "program.log").open("ab")
        self._program = self._launch()
        self.killed: Counter[str] = Counter()

    def _create(self, topic: str) -> None:
        """A topic that is led. Three cold JVMs on a busy machine may take a minute for it."""
        with contextlib.suppress(Unreachable):
            self._lookup.create(topic, PARTITIONS, configs={})
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = self._lookup.view([topic]).topics.get(topic)
            if found and len(found.leaders) == PARTITIONS and all(found.leaders.values()):
                return
            assert time.monotonic() < deadline, f"{topic} got no leaders"
            time.sleep(0.5)

    def _launch(self) -> subprocess.Popen[bytes]:
        words = (self._brokers.bootstrap, self.source, self.target, str(self._checkpoint))
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("program.py")), *words, self._master],
            stdout=self._said,
            stderr=self._said,
            env=os.environ | {"SPARK_SUBMIT_OPTS": BRIEF},
        )

    def close(self) -> None:
        processes.kill(*reversed(processes.below(self._program.pid)), self._program.pid)
        self._program.wait()
        self._said.close()

    def _batches(self) -> int:
        """How many micro-batches count as done."""
        done = (self._checkpoint / "commits").glob("*")
        return max((int(p.name) for p in done if p.name.isdigit()), default=-1)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            code = self._program.poll()
            assert code is None, f"the program ended with {code}: {self.last_words()}"
            assert time.monotonic() < deadline, f"{what} did not come: {self.last_words()}"
            time.sleep(0.1)

    def last_words(self) -> str:
        return (self._place / "program.log").read_text(errors="replace")[-3000:]

    def run(self, kinds: list[str]) -> None:
        """Feeds, kills these in turn, each at some moment of a running query, and lets it end."""
        feeder = Feeder(self._brokers.bootstrap, self.source)
        feeder.start()
        for kind in kinds:
            at = self._batches()
            self._until(lambda at=at: self._batches() > at, "a micro-batch")
            time.sleep(self._random.uniform(0, 0.6))  # somewhere within the next one
            getattr(self, f"_kill_{kind}")()
            self.killed[kind] += 1
            self._said.write(f"killed: {kind}, after micro-batch {at}\n".encode())
            self._said.flush()
        feeder.stop()
        self._until(self._is_done, "the end")
        self._check(feeder.written)

    def _is_done(self) -> bool:
        at = self._batches()
        if at < 0:
            return False
        lines = (self._checkpoint / "offsets" / str(at)).read_text().splitlines()
        ends = json.loads(lines[-1])["topics"][self.source]
        tps = [metadata.TopicPartition(self.source, p) for p in range(PARTITIONS)]
        latest = self._lookup.latest(tps)
        return {tp.partition: offset for tp, offset in latest.items()} == {
            int(p): offset for p, offset in ends.items()
        }

    def _check(self, written: int) -> None:
        """A reader of committed records sees every value once."""
        found = _committed(self._brokers.bootstrap, self.target)
        twice = [value for value, count in found.items() if count > 1]
        lost = [i for i in range(written) if b"%d" % i not in found]
        assert (twice[:5], lost[:5], len(found)) == ([], [], written)

    def _kill_task(self) -> None:
        self._until(lambda: bool(processes.workers(self._program)), "a worker")
        processes.kill(*processes.workers(self._program))

    def _kill_executor(self) -> None:
        self._until(lambda: bool(self._executors()), "an executor")
        processes.kill(self._random.choice(self._executors()))

    def _executors(self) -> list[int]:
        """They are the program's own, or those of the workers that we have started."""
        is_elsewhere = self._master.startswith("spark://")
        return processes.executors(os.getpid() if is_elsewhere else self._program.pid)

    def _kill_driver(self) -> None:
        """Its executors live on until they notice."""
        orphans = self._executors()
        processes.kill(self._program.pid, *processes.jvm(self._program))
        self._program.wait()
        self._program = self._launch()
        at = self._batches()
        self._until(lambda: self._batches() > at, "a micro-batch of the new driver")
        processes.kill(*orphans)

    def _kill_coordinator(self) -> None:
        query = json.loads((self._checkpoint / "metadata").read_text())["id"]
        name = f"klamm-sink-{query}-0"
        question = metadata.coordinator_request(name, TRANSACTION_KEY)
        answer = self._lookup.ask(ApiKey.FIND_COORDINATOR, question)
        self._brokers.burn(metadata.coordinator_of(name, answer).id)

    def _kill_leader(self) -> None:
        view = self._lookup.view([self.target])
        at = metadata.TopicPartition(self.target, self._random.randrange(PARTITIONS))
        ids = {address: broker for broker, address in view.brokers.items()}
        self._brokers.burn(ids[view.leader(at).address])


def _committed(bootstrap: str, topic: str) -> Counter[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "ashes",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        found, ended = Counter[bytes](), set[int]()
        while len(ended) < PARTITIONS:
            for message in consumer.consume(1000, timeout=5):
                fault = message.error()
                if fault is None:
                    found[message.value()] += 1
                elif fault.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        return found
    finally:
        consumer.close()
