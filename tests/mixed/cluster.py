"""A cluster of brokers of both kinds on one ZooKeeper, seen from its store and from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.client.aio.connection import Connection
from klamm.model.errors import KlammError
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import metadata
from mixed.hosts import KAFKA, BrokerProcess, KafkaBroker, KlammBroker

T = TypeVar("T")
_METADATA_VERSION = 7
SESSION_MS = 6_000
LAG_MS = 2_000
SETTINGS: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": str(LAG_MS),
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "8",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": "500",
    "min.insync.replicas": "2",
}


class MixedCluster:
    """Brokers by id. What they agree on is read from ZooKeeper; what each says, from itself."""

    def __init__(self, zookeeper: str, data: Path) -> None:
        self.zookeeper = zookeeper
        self.data = data
        self.brokers: dict[int, BrokerProcess] = {}
        hosts, _, root = zookeeper.partition("/")
        self._admin: AdminClient | None = None  # kept while its answers are waited for
        self._store = KazooClient(hosts)
        self._store.start()
        if root:
            self._store.ensure_path(f"/{root}")
        self._store.chroot = f"/{root}" if root else ""

    def add(self, kind: str, broker_id: int, **settings: str) -> BrokerProcess:
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        of_kind = KafkaBroker if kind == KAFKA else KlammBroker
        own = {**SETTINGS, **dotted}
        broker = of_kind(broker_id, self.zookeeper, self.data, own)
        self.brokers[broker_id] = broker
        return broker

    def start(self, *broker_ids: int) -> None:
        """Start these, together, and wait until every running broker knows all of them."""
        for broker_id in broker_ids:
            self.brokers[broker_id].launch()
        for broker_id in broker_ids:
            self.brokers[broker_id].wait()
        self.wait_for_all()

    def wait_for_all(self) -> None:
        running = {broker.id for broker in self.running}
        for broker in self.running:
            self.until(
                lambda told=broker: self.known_to(told) == running,
                f"broker {broker.id} knows {sorted(running)}",
            )

    def known_to(self, broker: BrokerProcess) -> set[int]:
        told = self.ask(broker)
        return {each.node_id for each in told.brokers} if told else set()

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        self._store.stop()
        self._store.close()

    @property
    def running(self) -> list[BrokerProcess]:
        return [broker for broker in self.brokers.values() if broker.runs]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def of(self, kind: str) -> list[int]:
        """The ids of the running brokers of a kind."""
        return [broker.id for broker in self.running if broker.kind == kind]

    def kind(self, broker_id: int) -> str:
        return self.brokers[broker_id].kind

    # The store

    def node(self, path: str) -> Any:
        """What a node says; None where there is none."""
        try:
            data, _ = self._store.get(path)
        except NoNodeError:
            return None
        return json.loads(data) if data else {}

    def children(self, path: str) -> list[str]:
        try:
            return list(self._store.get_children(path))
        except NoNodeError:
            return []

    def controller(self) -> int | None:
        found = self.node("/controller")
        return None if found is None else int(found["brokerid"])

    def unseat(self) -> None:
        """Have the brokers elect another controller, or the same again."""
        with contextlib.suppress(NoNodeError):
            self._store.delete("/controller")

    def controlled_by(self, kind: str) -> int:
        """Have a broker of this kind be the controller, by unseating others; which it is."""
        deadline = time.monotonic() + 60
        while True:
            now = self.controller()
            if now is not None and self.brokers[now].kind == kind and self._obeyed(now):
                return now
            assert time.monotonic() < deadline, f"no {kind} broker became the controller"
            if now is not None and self.brokers[now].kind != kind:
                self.unseat()
            time.sleep(0.1)

    def _obeyed(self, controller: int) -> bool:
        """Whether all running brokers say that this is the controller."""
        answers = [self.ask(broker) for broker in self.running]
        return all(told is not None and told.controller_id == controller for told in answers)

    def state(self, topic: str, partition: int) -> dict[str, Any]:
        found: dict[str, Any] | None = self.node(
            f"/brokers/topics/{topic}/partitions/{partition}/state"
        )
        return found or {}

    def assignment(self, topic: str) -> dict[int, list[int]]:
        found = self.node(f"/brokers/topics/{topic}") or {"partitions": {}}
        return {int(at): replicas for at, replicas in found["partitions"].items()}

    def is_settled(self, topic: str, partitions: int) -> bool:
        """Whether every replica is in sync, and every running broker says the same as the store."""
        assigned = self.assignment(topic)
        if len(assigned) != partitions:
            return False
        truth = {}
        for at, replicas in assigned.items():
            state = self.state(topic, at)
            if not state or set(state["isr"]) != set(replicas) or state["leader"] < 0:
                return False
            truth[at] = (state["leader"], set(replicas))
        return all(self.told(broker, topic) == truth for broker in self.running)

    def told(self, broker: BrokerProcess, topic: str) -> dict[int, tuple[int, set[int]]]:
        """Leaders and in-sync sets as one broker tells them."""
        told = self.ask(broker, topic)
        if told is None:
            return {}
        return {
            p.partition_index: (p.leader_id, set(p.isr_nodes))
            for found in told.topics
            for p in found.partitions
        }

    def ask(self, broker: BrokerProcess, *topics: str) -> metadata.Response | None:
        """The metadata that this very broker has; None where it does not answer."""
        wanted = [metadata.MetadataRequestTopic(name=topic) for topic in topics]
        request = metadata.Request(topics=wanted, allow_auto_topic_creation=False)

        try:
            answer: metadata.Response = self.request(
                broker, ApiKey.METADATA, _METADATA_VERSION, request
            )
        except (KlammError, OSError):
            return None
        return answer

    def request(self, broker: BrokerProcess, key: ApiKey, version: int, request: Any) -> Any:
        """The answer of this very broker."""

        async def run() -> Any:
            connection = await Connection.open("127.0.0.1", broker.port, "test", timeout_s=5)
            try:
                return await connection.request(key, version, request, timeout_s=5)
            finally:
                await connection.close()

        return asyncio.run(run())

    def settle(self, topic: str, partitions: int, timeout_s: float = 60) -> None:
        self.until(
            lambda: self.is_settled(topic, partitions),
            lambda: (
                f"{topic} to settle: "
                f"{ {at: self.state(topic, at) for at in range(partitions)} }, told "
                f"{ {b.id: self.told(b, topic) for b in self.running} }"
            ),
            timeout_s,
        )

    def until(
        self,
        holds: Callable[[], bool],
        what: str | Callable[[], str],
        timeout_s: float = 60,
    ) -> float:
        """Wait for what no single event tells; how long it took."""
        began = time.monotonic()
        while not holds():
            took = time.monotonic() - began
            assert took < timeout_s, (
                f"waited {took:.0f} s for {what if isinstance(what, str) else what()}"
            )
            time.sleep(0.1)
        return time.monotonic() - began

    # Clients

    @property
    def admin(self) -> AdminClient:
        """A client that has just been made: an older one may not know who the controller is."""
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def create(self, topic: str, assignment: Iterable[Iterable[int]], **configs: str) -> int:
        """Create a topic with this assignment; returns when it is settled."""
        replicas = [list(each) for each in assignment]
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        new = NewTopic(topic, len(replicas), replica_assignment=replicas, config=dotted)
        self.admin.create_topics([new])[topic].result(60)
        self.settle(topic, len(replicas))
        return len(replicas)

    def grow(self, topic: str, added: list[list[int]], total: int) -> None:
        wanted = NewPartitions(topic, total, replica_assignment=added)
        self.admin.create_partitions([wanted])[topic].result(60)
        self.settle(topic, total)

    def delete(self, topic: str, *, wait: bool = True) -> None:
        self.admin.delete_topics([topic])[topic].result(60)
        if wait:
            self.until_gone(topic)

    def until_gone(self, topic: str, timeout_s: float = 60) -> None:
        """Until the store and the directories of all running brokers have nothing of it."""
        self.until(
            lambda: self.node(f"/brokers/topics/{topic}") is None, f"{topic} to go", timeout_s
        )
        self.until(lambda: not self.copies(topic), lambda: f"{self.copies(topic)} to go", timeout_s)

    def copies(self, topic: str) -> list[Path]:
        """The directories that brokers have of a topic, also those about to go."""
        return [
            found
            for broker in self.running
            for found in broker.directory.glob(f"{topic}-*")
            if found.is_dir()
        ]

    def klamm_admin(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        """Work with klamm's own client, which speaks to brokers of both kinds."""

        async def run() -> T:
            async with Client(self.bootstrap) as client:
                return await work(Admin(client))

        return asyncio.run(run())
