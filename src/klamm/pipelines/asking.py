"""Asking a cluster, through whichever broker answers. Blocking.

Everything is tried again a few times, on any broker that answers, because an exception in Spark's
planning ends the query; what is raised in the end is what a user must act on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from klamm.model.errors import ErrorCode, UsageError
from klamm.model.names import TopicPartition, id_text
from klamm.pipelines.options import ConnectionOptions
from klamm.pipelines.wire import Address, Answered, Unreachable, Wire, check, lease
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import metadata

T = TypeVar("T")
TIMEOUT_MS: Final = 30_000
_COORDINATOR_COMING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition, and since which epoch."""

    address: Address
    epoch: int
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as Metadata shows it."""

    name: str
    id: str
    leaders: Mapping[int, Leader | None]
    is_internal: bool = False

    @property
    def partitions(self) -> list[TopicPartition]:
        """Its partitions in order."""
        return [TopicPartition(self.name, p) for p in sorted(self.leaders)]


@dataclass(frozen=True, slots=True)
class View:
    """One answer to Metadata."""

    cluster_id: str
    brokers: Mapping[int, Address]
    controller: int
    topics: Mapping[str, Topic]

    def leader(self, tp: TopicPartition) -> Leader:
        """The leader of a partition, or the sentence that there is none."""
        topic = self.topics.get(tp.topic)
        if topic is None:
            raise UsageError(f"there is no topic {tp.topic}")
        if tp.partition not in topic.leaders:
            raise UsageError(f"there is no partition {tp}")
        leader = topic.leaders[tp.partition]
        if leader is None:
            raise Unreachable(f"partition {tp} has no leader now")
        return leader


@dataclass(slots=True)
class Asker:
    """Knows the brokers, and whom to ask next when one does not answer."""

    options: ConnectionOptions
    retries: int = 3
    retry_interval_ms: int = 100
    _known: list[Address] = field(default_factory=list)

    def view(self, topics: Iterable[str] | None = None) -> View:
        """Metadata of some topics, or of all. Topics that do not exist are absent."""
        wanted = None
        if topics is not None:
            wanted = [metadata.MetadataRequestTopic(name=name) for name in topics]
        request = metadata.Request(topics=wanted, allow_auto_topic_creation=False)
        return self._again(lambda: self._view(request))

    def ask(self, key: int, request: Any) -> Any:
        """Asks any broker that answers."""
        return self._again(lambda: self._any(lambda wire: wire.call(key, request)))

    def ask_controller(self, key: int, request: Any) -> Any:
        """Asks the controller."""
        view = self.view([])
        address = view.brokers.get(view.controller)
        if address is None:
            raise Unreachable("the cluster has no controller now")
        with lease(address, self.options) as wire:
            return wire.call(key, request)

    def _again(self, look: Callable[[], T]) -> T:
        attempt = 0
        patience = time.monotonic() + TIMEOUT_MS / 1000
        while True:
            try:
                return look()
            except (Unreachable, Answered) as fault:
                code = fault.code if isinstance(fault, Answered) else None
                # The first use of groups creates a topic, which may take a moment.
                if code in _COORDINATOR_COMING and time.monotonic() < patience:
                    time.sleep(0.1)
                    continue
                attempt += 1
                may_pass = isinstance(fault, Unreachable) or fault.is_retriable
                if not may_pass or attempt > self.retries:
                    raise
                time.sleep(self.retry_interval_ms * attempt / 1000)

    def _any(self, talk: Callable[[Wire], T]) -> T:
        faults = []
        for address in dict.fromkeys([*self._known, *self.options.bootstrap]):
            try:
                with lease(address, self.options) as wire:
                    return talk(wire)
            except Unreachable as fault:
                faults.append(str(fault))
        raise Unreachable("; ".join(dict.fromkeys(faults)))

    def _view(self, request: metadata.Request) -> View:
        view = self._view_of(self._any(lambda wire: wire.call(ApiKey.METADATA, request)))
        address = view.brokers.get(view.controller)
        if len(view.topics) >= len(request.topics or ()) or address is None:
            return view
        # A broker may hear of a new topic a moment after whoever created it; the controller knows.
        try:
            with lease(address, self.options) as wire:
                return self._view_of(wire.call(ApiKey.METADATA, request))
        except Unreachable:
            return view

    def _view_of(self, answer: Any) -> View:
        brokers = {b.node_id: (b.host, b.port) for b in answer.brokers}
        self._known = list(brokers.values())
        topics = {}
        for t in answer.topics:
            if t.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check(t.error_code, f"topic {t.name}")
            leaders = {
                p.partition_index: Leader(
                    brokers[p.leader_id], p.leader_epoch, tuple(p.replica_nodes)
                )
                if p.leader_id in brokers
                else None
                for p in t.partitions
            }
            topics[t.name] = Topic(t.name, id_text(t.topic_id), leaders, t.is_internal)
        return View(answer.cluster_id or "unknown", brokers, answer.controller_id, topics)
