"""Clients that go on while things break, and the notes that the checks are made from."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer

from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.protocol.messages.create_topics import CreatableTopic

_QUICK = {"reconnect.backoff.max.ms": 300, "retry.backoff.ms": 50, "log_level": 0}


class Worker(threading.Thread):
    """A thread that works until it is told to halt."""

    def __init__(self, name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.halting = threading.Event()

    def halt(self, timeout_s: float = 150) -> None:
        self.halting.set()
        self.join(timeout_s)
        assert not self.is_alive(), f"{self.name} does not end"


class Transactions(Worker):
    """One transactional producer: what it committed, what it aborted, what it does not know."""

    def __init__(self, servers: str, topic: str, partitions: int, name: str, seed: int) -> None:
        super().__init__(name)
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._dice = random.Random(seed)
        self.committed: list[bytes] = []
        self.aborted: list[bytes] = []
        self.unknown: list[list[bytes]] = []

    def run(self) -> None:
        number = 0
        while not self.halting.is_set():
            try:
                producer = self._initialised()
                while not self.halting.is_set():
                    self._one(producer, number)
                    number += 1
            except KafkaException:
                number += 1  # fenced, or out of reach for too long: begin anew

    def _initialised(self) -> Producer:
        producer = Producer(
            {
                **_QUICK,
                "bootstrap.servers": self._servers,
                "transactional.id": self.name,
                "transaction.timeout.ms": 20_000,
                "message.timeout.ms": 15_000,
            }
        )
        producer.init_transactions(60)
        return producer

    def _one(self, producer: Producer, number: int) -> None:
        values = [f"{self.name}-{number}-{at}".encode() for at in range(4)]
        commits = self._dice.random() < 0.7
        producer.begin_transaction()
        try:
            for at, value in enumerate(values):
                producer.produce(self._topic, value, partition=(number + at) % self._partitions)
            if commits:
                self._commit(producer, values)
            else:
                producer.abort_transaction(30)
                self.aborted += values
        except KafkaException as fault:
            if not commits:
                self.aborted += values  # nobody has asked for a commit
            elif values not in self.unknown:
                self.aborted += values
            if fault.args[0].txn_requires_abort():
                producer.abort_transaction(30)
            else:
                raise
        self.halting.wait(0.02)

    def _commit(self, producer: Producer, values: list[bytes]) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                producer.commit_transaction(30)
            except KafkaException as fault:
                error = fault.args[0]
                if error.txn_requires_abort():
                    raise
                if error.retriable() and time.monotonic() < deadline:
                    continue
                self.unknown.append(values)
                raise
            self.committed += values
            return


class Readers(Worker):
    """A member of a group that reads everything, committing as it goes."""

    def __init__(self, servers: str, topic: str, group: str, name: str) -> None:
        super().__init__(name)
        self._settings = {
            **_QUICK,
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
            "isolation.level": "read_committed",
        }
        self._topic = topic
        self.seen: set[bytes] = set()

    def run(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        try:
            while not self.halting.is_set():
                messages = consumer.consume(500, 0.2)
                self.seen.update(m.value() or b"" for m in messages if m.error() is None)
                if messages:
                    try:
                        consumer.commit(asynchronous=False)
                    except KafkaException:
                        continue  # it was moved, or its coordinator: read again
        finally:
            consumer.close()


class Churn(Worker):
    """An operator who creates, grows, moves and deletes topics all the while."""

    def __init__(self, servers: str, brokers: tuple[int, ...], seed: int) -> None:
        super().__init__("churn")
        self._servers = servers
        self._brokers = brokers
        self._dice = random.Random(seed)
        self._made = 0
        self.topics: dict[str, int] = {}  # those that should be there, with their partitions
        self.done: dict[str, int] = {}
        self.refused = 0

    def run(self) -> None:
        while not self.halting.is_set():
            try:
                asyncio.run(self._work())
            except (KlammError, OSError, TimeoutError):
                self.refused += 1
                self.halting.wait(0.2)

    async def _work(self) -> None:
        async with Client(self._servers) as client:
            admin = Admin(client)
            while not self.halting.is_set():
                step = self._dice.choice((self._create, self._create, self._grow, self._move))
                if len(self.topics) > 6:
                    step = self._remove
                await step(admin)
                name = step.__name__.strip("_")
                self.done[name] = self.done.get(name, 0) + 1
                await asyncio.sleep(0.1)

    async def _create(self, admin: Admin) -> None:
        self._made += 1
        name, count = f"churn-{self._made}", self._dice.randint(1, 4)
        (made,) = await admin.create_topics([CreatableTopic(name, count, 3)])
        if not made.error_code:
            self.topics[name] = count

    async def _grow(self, admin: Admin) -> None:
        if self.topics:
            name = self._dice.choice(list(self.topics))
            grown = await admin.create_partitions(name, self.topics[name] + 1)
            self.topics[name] += not grown.error_code

    async def _move(self, admin: Admin) -> None:
        if self.topics:
            name = self._dice.choice(list(self.topics))
            replicas = self._dice.sample(self._brokers, self._dice.randint(2, 3))
            await admin.reassign({TopicPartition(name, 0): replicas})

    async def _remove(self, admin: Admin) -> None:
        name = self._dice.choice(list(self.topics))
        del self.topics[name]
        await admin.delete_topics([name])


def run_all(workers: list[Worker], work: Callable[[], None]) -> None:
    """Do this while all of them work; they are halted whatever comes of it."""
    for worker in workers:
        worker.start()
    try:
        work()
    finally:
        for worker in workers:
            worker.halting.set()
        for worker in workers:
            worker.halt()
