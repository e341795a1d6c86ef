"""Members of consumer groups, one kind for each client library, each in a thread of its own.

A member reads until it is told to stop, commits what it read, and notes every record. What goes
wrong in it is kept and raised when it is stopped, so that no test passes over a dead member.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import aiokafka
import confluent_kafka
import kafka

SESSION_MS = 6_000


class Seen:
    """What the members of a group have read, and who waits for how much."""

    def __init__(self) -> None:
        self._values: dict[bytes, int] = defaultdict(int)
        self._readers: dict[bytes, set[str]] = defaultdict(set)
        self._changed = threading.Condition()

    def add(self, reader: str, value: bytes) -> None:
        with self._changed:
            self._values[value] += 1
            self._readers[value].add(reader)
            self._changed.notify_all()

    def wait_for(self, wanted: set[bytes], timeout_s: float = 60) -> None:
        with self._changed:
            done = self._changed.wait_for(lambda: wanted <= self._values.keys(), timeout_s)
            missing = sorted(wanted - self._values.keys())
        assert done, f"{len(missing)} records were never read, among them {missing[:5]}"

    def wait_for_readers(self, readers: set[str], timeout_s: float = 60) -> None:
        """Wait until each of these has read something."""
        with self._changed:
            done = self._changed.wait_for(lambda: readers <= self.readers, timeout_s)
            assert done, f"only {self.readers} of {readers} have read anything"

    @property
    def readers(self) -> set[str]:
        return set().union(*self._readers.values()) if self._readers else set()

    def times(self, value: bytes) -> int:
        return self._values[value]


class Member:
    """One consumer in a thread."""

    kind = "none"

    def __init__(
        self, servers: str, group: str, topic: str, seen: Seen, *, instance: str | None = None
    ) -> None:
        self.servers = servers
        self.group = group
        self.topic = topic
        self.seen = seen
        self.instance = instance
        self.name = f"{self.kind}-{id(self):x}"
        self.assignments = 0  # how often it was given partitions
        self._stop = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name=self.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), f"{self.name} does not stop"
        if self._fault is not None:
            raise self._fault

    def _guarded(self) -> None:
        try:
            self.read()
        except BaseException as fault:  # noqa: BLE001 - raised where the test can see it
            self._fault = fault

    def read(self) -> None:
        raise NotImplementedError


class ConfluentMember(Member):
    """librdkafka."""

    kind = "confluent"

    def settings(self) -> dict[str, str | int | bool]:
        return {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "range",
        }

    def read(self) -> None:
        settings = self.settings() | {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        if self.instance is not None:
            settings["group.instance.id"] = self.instance
        consumer = confluent_kafka.Consumer(settings)

        def assigned(_: object, __: object) -> None:
            self.assignments += 1

        consumer.subscribe([self.topic], on_assign=assigned)
        try:
            while not self._stop.is_set():
                message = consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                value = message.value()
                assert value is not None
                self.seen.add(self.name, value)
                consumer.commit(message=message, asynchronous=True)
        finally:
            consumer.close()


class NewProtocolMember(ConfluentMember):
    """librdkafka with the group protocol of KIP-848; the broker says how often it reports."""

    kind = "confluent-848"

    def settings(self) -> dict[str, str | int | bool]:
        return {"group.protocol": "consumer"}


class KafkaPythonMember(Member):
    """kafka-python."""

    kind = "kafka-python"

    def read(self) -> None:
        consumer = kafka.KafkaConsumer(
            self.topic,
            bootstrap_servers=self.servers.split(","),
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            max_poll_interval_ms=20_000,
            metadata_max_age_ms=1000,
            partition_assignment_strategy=[_range_assignor()],
        )
        try:
            while not self._stop.is_set():
                for records in consumer.poll(timeout_ms=100).values():
                    for record in records:
                        self.seen.add(self.name, record.value)
                consumer.commit_async()
        finally:
            consumer.close()


def _range_assignor() -> object:
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    return RangePartitionAssignor


class AiokafkaMember(Member):
    """aiokafka."""

    kind = "aiokafka"

    def read(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        consumer = aiokafka.AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.servers,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=True,
            auto_commit_interval_ms=200,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=1000,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        await consumer.start()
        try:
            while not self._stop.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    for record in records:
                        assert record.value is not None
                        self.seen.add(self.name, record.value)
        finally:
            await consumer.stop()


KINDS = (ConfluentMember, KafkaPythonMember, AiokafkaMember)


@contextmanager
def running(*members: Member) -> Iterator[None]:
    """Members that read while the block runs."""
    for member in members:
        member.start()
    try:
        yield
    finally:
        faults = []
        for member in members:
            try:
                member.stop()
            except Exception as fault:  # noqa: BLE001 - all members are stopped first
                faults.append(fault)
    if faults:
        raise faults[0]
