"""The life of a topic, told once and lived by every client library.

A client brings an adapter that says how it does each step; `live_and_die` walks the steps and
compares what the client sees with what was asked. The cluster it runs on is real, and so is what is
looked at afterwards: the store, every broker's metadata, the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from klamm import Cluster

RECORDS = 10_000
# Short enough to see the files go, long enough to see that they go later.
SETTINGS = {"log.segment.delete.delay.ms": "200", "auto.create.topics.enable": "false"}


class Record(NamedTuple):
    """What is compared: everything a user hands over."""

    partition: int
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


class PartitionFacts(NamedTuple):
    """One partition as a client describes it."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Client(Protocol):
    """How one library does each step."""

    codecs: Sequence[str]

    def create(self, topic: str, partitions: int, replication_factor: int) -> None: ...
    def describe(self, topic: str) -> Mapping[int, PartitionFacts]: ...
    def produce(self, topic: str, codec: str, records: Sequence[Record]) -> None: ...
    def read(self, topic: str, partitions: Sequence[int], count: int) -> list[Record]: ...
    def expand(self, topic: str, total: int) -> None: ...
    def set_config(self, topic: str, name: str, value: str) -> None: ...
    def delete_config(self, topic: str, name: str) -> None: ...
    def config(self, topic: str, name: str) -> str: ...
    def delete(self, topic: str) -> None: ...
    def topics(self) -> set[str]: ...


def records_for(codec: str, count: int = RECORDS, partitions: int = 3) -> list[Record]:
    """Keyed records with headers; sizes vary, some values are empty, some do not compress."""
    return [
        Record(
            at % partitions,
            f"{codec}-key-{at}".encode(),
            bytes((at * step + 7) % 256 for step in range(at % 61)),
            (("n", str(at).encode()), ("codec", codec.encode()), ("empty", b"")),
        )
        for at in range(count)
    ]


def live_and_die(client: Client, cluster: Cluster, topic: str) -> None:
    """Create, describe, produce and read in each codec, expand, configure, delete."""
    client.create(topic, 3, 3)
    cluster.wait_for_isr(topic, size=3)
    _check_description(client.describe(topic), 3)

    written: list[Record] = []
    for codec in client.codecs:
        batch = records_for(codec)
        client.produce(topic, codec, batch)
        written += batch
    assert by_partition(client.read(topic, range(3), len(written))) == by_partition(written)

    client.expand(topic, 6)
    cluster.wait_for_topic(topic, partitions=6)
    cluster.wait_for_isr(topic, size=3)
    _check_description(client.describe(topic), 6)

    default = client.config(topic, "retention.ms")
    client.set_config(topic, "retention.ms", "86400001")
    _eventually(lambda: client.config(topic, "retention.ms") == "86400001")
    client.delete_config(topic, "retention.ms")
    _eventually(lambda: client.config(topic, "retention.ms") == default)

    client.delete(topic)
    _eventually(lambda: topic not in client.topics())
    check_nothing_left(cluster, topic)


def by_partition(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Order counts within a partition and nowhere else."""
    found: dict[int, list[Record]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record)
    return found


def check_nothing_left(cluster: Cluster, topic: str) -> None:
    """The store, every broker's metadata and the disk have forgotten the topic."""
    cluster.wait_until(lambda view: all(topic not in b.topics for b in view.brokers.values()))
    _eventually(lambda: not [path for path in cluster.store_paths() if topic in path])
    _eventually(lambda: not list(cluster.data.glob(f"broker-*/{topic}-*")))


def _check_description(facts: Mapping[int, PartitionFacts], partitions: int) -> None:
    assert sorted(facts) == list(range(partitions))
    for fact in facts.values():
        assert sorted(fact.replicas) == [0, 1, 2]
        assert sorted(fact.isr) == [0, 1, 2]
        assert fact.leader == fact.replicas[0], "a new topic is led by its preferred replicas"
    leaders = [fact.leader for fact in facts.values()]
    assert all(leaders.count(broker) == partitions // 3 for broker in range(3))


def _eventually(holds: Callable[[], bool], timeout: float = 10.0) -> None:
    """Ask again until it holds: for files and foreign clients, which tell us of no event."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.02)
