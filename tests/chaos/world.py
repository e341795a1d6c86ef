"""Three brokers and a store, each a process, with a proxy on every way between them.

Every broker is reached through a proxy of its own, by clients and by other brokers, and reaches
the store through others of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from chaos.proxy import Proxies, Proxy
from klamm.ensemble import Server
from mixed.cluster import MixedCluster
from mixed.hosts import KLAMM, BrokerProcess
from unit.store.serving.process import ServedProcess
from unit.store.serving.served import DIGEST
from unit.store.zookeeper_server import ZooKeeperEnsemble

BROKERS = (0, 1, 2)
SESSION_MS = 3_000
LAG_MS = 2_000
EMBEDDED, ZOOKEEPER = "embedded", "zookeeper"
SETTINGS: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": str(LAG_MS),
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "klamm.ledger.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": "500",
    "min.insync.replicas": "2",
    "replica.socket.timeout.ms": "4000",
    "controlled.shutdown.retry.backoff.ms": "200",
    "klamm.delete.topic.retry.ms": "1000",
}


class Node(Protocol):
    """One process of the store."""

    @property
    def port(self) -> int: ...

    def launch(self) -> None: ...

    def wait(self) -> None: ...

    def kill(self) -> None: ...

    def signal(self, number: signal.Signals) -> None: ...


class ChaosBroker(BrokerProcess):
    """A broker behind its proxy; its logs may be on a small disk of their own."""

    kind = KLAMM

    def __init__(self, broker_id: int, zookeeper: str, data: Path, proxies: Proxies) -> None:
        super().__init__(broker_id, zookeeper, data, SETTINGS)
        self.front = proxies.before(self.port)
        self.plant = ""
        self.digest = ""  # for a store that keeps its secrets from strangers
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.front.port}"

    def _command(self) -> list[str]:
        words = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            **self.settings,
        }
        return [
            *(sys.executable, str(Path(__file__).with_name("host.py"))),
            *(str(self.id), self.zookeeper, str(self.directory)),
            *(f"{name}={value}" for name, value in words.items()),
        ]

    def launch(self) -> None:
        told = {"KLAMM_CHAOS_PLANT": self.plant, "KLAMM_CHAOS_DIGEST": self.digest}
        os.environ.update(told)
        try:
            super().launch()
        finally:
            for name in told:
                del os.environ[name]


class World(MixedCluster):
    """The whole of it."""

    def __init__(self, kind: str, data: Path, *, disk_mb: int = 0) -> None:
        self.proxies = Proxies()
        self._ensemble: ZooKeeperEnsemble | None = None
        self.nodes: Sequence[Node] = self._start_store(kind)
        super().__init__(",".join(f"127.0.0.1:{node.port}" for node in self.nodes), data)
        self.disks: list[Path] = []
        self.ways: dict[int, list[Proxy]] = {}  # to the store, by broker
        for broker_id in BROKERS:
            ways = [self.proxies.before(node.port) for node in self.nodes]
            connect = ",".join(f"127.0.0.1:{way.port}" for way in ways)
            broker = ChaosBroker(broker_id, connect, data, self.proxies)
            broker.digest = DIGEST if kind == EMBEDDED else ""
            self.ways[broker_id] = ways
            self.brokers[broker_id] = broker
            if disk_mb and _mounted(broker.directory, disk_mb):
                self.disks.append(broker.directory)

    def _start_store(self, kind: str) -> Sequence[Node]:
        if kind == ZOOKEEPER:
            self._ensemble = ZooKeeperEnsemble()
            self._ensemble.start()
            return self._ensemble.servers
        store = ServedProcess()
        store.start()
        self._served = store
        return [store]

    def chaos_broker(self, broker_id: int) -> ChaosBroker:
        broker = self.brokers[broker_id]
        assert isinstance(broker, ChaosBroker), broker
        return broker

    def mend(self) -> None:
        """Everything that is broken works again."""
        for broker_id in BROKERS:
            broker = self.chaos_broker(broker_id)
            for proxy in (broker.front, *self.ways[broker_id]):
                proxy.mend()
            if broker.runs:
                broker.signal(signal.SIGCONT)
            (broker.directory / "filler").unlink(missing_ok=True)
        for broker_id in BROKERS:
            if not self.brokers[broker_id].runs:
                self.brokers[broker_id].launch()

    def store_leader(self) -> Node:
        """The store's process that matters most."""
        for node in self.nodes:
            if isinstance(node, Server) and node.mode() == "leader":
                return node
        return self.nodes[0]

    def close(self) -> None:
        super().close()
        self.proxies.close()
        if self._ensemble is not None:
            self._ensemble.remove()
        else:
            self._served.remove()
        for disk in self.disks:
            subprocess.run(["umount", "-l", str(disk)], check=False, capture_output=True)


def _mounted(directory: Path, size_mb: int) -> bool:
    """Whether a small disk could be put there: it takes root."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(directory)]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False
