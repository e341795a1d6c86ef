"""The wishes for a cluster, checked before anything is touched."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from klamm.datadir import STORE_NAME, ZOOKEEPER_NAME
from klamm.model.errors import Refused, UsageError
from klamm.model.settings import BrokerSettings
from klamm.secured.wishes import Security
from klamm.security.listeners.config import ADVERTISED, LISTENERS, listener_config
from klamm.security.listeners.endpoints import Listener
from klamm.security.listeners.placing import crowding, named, shifted
from klamm.start_check import heed

PORT_MAX = 65535
HERE = "127.0.0.1"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The wishes for a cluster: brokers, ports, data, settings."""

    brokers: int = 3
    host: str = HERE
    port: int = 0  # broker i listens on port + i; 0 lets the system choose
    advertise: str | None = None  # where clients are sent; None: to `host`, or to this machine
    data: Path | None = None  # None: a temporary directory, and a store in memory
    settings: Mapping[str, str] = field(default_factory=dict)
    racks: Sequence[str] = ()  # one a broker, or none at all
    zookeeper: str | None = None  # host:port,... of a ZooKeeper to use as the store
    zookeeper_nodes: int = 0  # how many servers a ZooKeeper of the cluster's own has; 0: none
    zookeeper_port: int = 0  # its server i listens on port + i; 0 lets the system choose
    security: Security | None = None  # a cluster that is locked, with certificates and users

    def fault(self) -> str | None:
        """The reason why no cluster can be made of this, or None."""
        if self.brokers < 1:
            return f"a cluster needs at least one broker, not {self.brokers}"
        if not 0 <= self.port <= PORT_MAX - self.brokers + 1:
            return f"port {self.port} leaves no room for {self.brokers} brokers below {PORT_MAX}"
        if self.settings.get(LISTENERS, "").strip():
            if self.port or self.advertise or self.host != HERE:
                return "listeners says where brokers listen: leave out --host, --port, --advertise"
            if crowded := crowding(self.settings, self.brokers):
                return crowded
        if (shared := self._shared_logs()) is not None:
            return shared
        if self.zookeeper is not None and not self.zookeeper.strip():
            return "the list of ZooKeeper servers is empty"
        if (fault := self._other_store()) is not None:
            return fault
        settings = self.broker_settings()
        if settings.str("zookeeper.connect") and settings.int("klamm.store.serve.port") >= 0:
            return (
                "--zookeeper-port (klamm.store.serve.port) serves the embedded store, which a "
                "cluster with --zookeeper (zookeeper.connect) does not have"
            )
        if self.racks and len(self.racks) != self.brokers:
            return f"{len(self.racks)} racks were named for {self.brokers} brokers: one each"
        return None

    def _shared_logs(self) -> str | None:
        """The reason why brokers would meet in one log directory, or None."""
        named = self.settings.get("log.dirs") or self.settings.get("log.dir") or ""
        places = [os.path.normpath(part.strip() or ".") for part in named.split(",")]
        if not named.strip():
            return None
        if len(set(places)) < len(places):
            return f"log.dirs names a directory twice: {named}"
        outside = [place for place in places if place.startswith(("/", ".."))]
        if outside and self.brokers > 1:
            return (
                f"{outside[0]} in log.dirs would be shared by {self.brokers} brokers: name "
                "directories within each broker's own, such as log.dirs=a,b, or run one broker"
            )
        return None

    def _other_store(self) -> str | None:
        """The reason why this would start beside the metadata that the cluster has, or None."""
        named = self.zookeeper is not None or bool(self.settings.get("zookeeper.connect"))
        if self.zookeeper_nodes and named:
            return (
                "--zookeeper-nodes is for a ZooKeeper of the cluster's own, and another was named: "
                "leave one of them out"
            )
        if self.zookeeper_nodes and self.settings.get("zookeeper.ssl.client.enable") == "true":
            return (
                "zookeeper.ssl.client.enable asks for TLS, which a ZooKeeper of the cluster's own "
                "does not speak: it listens on this machine only. Leave it out"
            )
        if self.data is None or named:
            return None
        has_embedded = (self.data / STORE_NAME).exists()
        if self.zookeeper_nodes and has_embedded:
            return (
                f"the cluster in {self.data} has its metadata in the embedded store: start it "
                "without --zookeeper, or move it first with `klamm store export` and `import`"
            )
        if (self.data / ZOOKEEPER_NAME).exists() and not (self.zookeeper_nodes or has_embedded):
            return (
                f"the cluster in {self.data} has its metadata in a ZooKeeper of its own: start it "
                "with --zookeeper"
            )
        return None

    def checked_settings(self) -> BrokerSettings:
        """The settings of every broker; UsageError where there can be no such cluster."""
        fault = self.fault()
        if fault is not None:
            raise UsageError(fault)
        if self.security is None:  # else they are half of it, and checked as a whole at the start
            check_settings(self.settings)
        return self.broker_settings()

    def broker_settings(self) -> BrokerSettings:
        """The user's settings over the few defaults that suit one machine."""
        given = {**_fitting(self.brokers), **self.settings}
        if self.zookeeper is not None:
            given["zookeeper.connect"] = self.zookeeper
        return BrokerSettings.parse(given)

    def listening_texts(self, at: int) -> dict[str, str]:
        """The settings that say where one of the brokers listens."""
        moved = shifted(self.settings, at)
        return {name: moved[name] for name in (LISTENERS, ADVERTISED) if name in moved}

    def places(self, at: int) -> Sequence[Listener]:
        """The address at which a broker will listen."""
        texts = {**self.settings, **self.listening_texts(at)}
        found = listener_config(named(texts, self.host, self.port and self.port + at, "localhost"))
        return () if isinstance(found, Refused) else found.listeners


def check_settings(settings: Mapping[str, str]) -> None:
    """UsageError where a setting cannot be heeded; a warning where one has no effect."""
    heeded = heed(settings)
    if heeded.refusals:
        raise UsageError("; ".join(heeded.refusals))
    for warning in heeded.warnings:
        log.warning(warning)
    if heeded.idle:
        log.warning("no effect here: %s", ", ".join(heeded.idle))


def _fitting(brokers: int) -> dict[str, str]:
    """The settings of Kafka's own development configuration: a small cluster must still do all."""
    copies = str(min(3, brokers))
    return {
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(2, brokers)),
        "klamm.ledger.topic.replication.factor": copies,
        "group.initial.rebalance.delay.ms": "0",
    }
