"""The meaning of a Metadata answer: who is there, who leads what, and since when.

A leader counts only when its broker is in the same answer: a partition whose leader nobody can
reach has none. Asynchronous callers keep a `Picture`, which has every topic with its error; a
blocking one takes a `View` of one answer, in which topics that do not exist are absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from klamm.client.addresses import Address
from klamm.client.errors import Unreachable, check, code_of
from klamm.model.errors import ErrorCode, UsageError
from klamm.model.names import TopicPartition, id_text
from klamm.protocol.messages import metadata

if TYPE_CHECKING:
    from klamm.protocol.messages import find_coordinator

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker and where it listens."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return self.host, self.port


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition, and its epoch."""

    address: Address
    epoch: int
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that exists, as Metadata shows it."""

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
    """One answer to Metadata, of topics that exist."""

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


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster as the last Metadata answers described it."""

    nodes: Mapping[int, BrokerNode] = field(default_factory=dict)
    controller_id: int = -1
    cluster_id: str | None = None
    topics: Mapping[str, metadata.MetadataResponseTopic] = field(default_factory=dict)

    @property
    def controller(self) -> BrokerNode | None:
        """The controller, when its broker is there."""
        return self.nodes.get(self.controller_id)

    def leader(self, tp: TopicPartition) -> metadata.MetadataResponsePartition | None:
        """The partition as last seen, when somebody leads it."""
        topic = self.topics.get(tp.topic)
        for partition in topic.partitions if topic else ():
            if partition.partition_index == tp.partition:
                return partition if partition.leader_id in self.nodes else None
        return None

    def why_no_leader(self, tp: TopicPartition) -> str:
        """The reason why nobody can be asked about a partition."""
        topic = self.topics.get(tp.topic)
        if topic is None or topic.error_code:
            code = code_of(topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return f"{code.name} for topic {tp.topic!r}"
        return "it has no leader now"

    def view(self) -> View:
        """The topics that exist; raises where a topic has another error."""
        topics = {}
        for name, topic in self.topics.items():
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                check(topic.error_code, f"topic {name}")
                leaders = {p.partition_index: self._leader(p) for p in topic.partitions}
                topics[name] = Topic(name, id_text(topic.topic_id), leaders, topic.is_internal)
        brokers = {node.id: node.address for node in self.nodes.values()}
        return View(self.cluster_id or "unknown", brokers, self.controller_id, topics)

    def _leader(self, partition: metadata.MetadataResponsePartition) -> Leader | None:
        node = self.nodes.get(partition.leader_id)
        if node is None:
            return None
        return Leader(node.address, partition.leader_epoch, tuple(partition.replica_nodes))


def request(topics: Iterable[str] | None, *, create: bool = False) -> metadata.Request:
    """The question for these topics, or for all; nothing is created unless it is asked for."""
    names = None if topics is None else [metadata.MetadataRequestTopic(name=t) for t in topics]
    return metadata.Request(topics=names, allow_auto_topic_creation=create)


def picture_of(
    response: metadata.Response,
    before: Mapping[str, metadata.MetadataResponseTopic] | None = None,
) -> Picture:
    """The picture after an answer; topics that were not asked for stay as they were `before`."""
    seen = {t.name: t for t in response.topics if t.name is not None}
    return Picture(
        nodes={b.node_id: BrokerNode(b.node_id, b.host, b.port, b.rack) for b in response.brokers},
        controller_id=response.controller_id,
        cluster_id=response.cluster_id,
        topics=seen if before is None else {**before, **seen},
    )


def coordinator_request(name: str, kind: int = GROUP_KEY) -> find_coordinator.Request:
    """The question who coordinates a group or transactional id, in the form of both ages."""
    from klamm.protocol.messages import find_coordinator

    return find_coordinator.Request(key=name, key_type=kind, coordinator_keys=[name])


def coordinator_of(name: str, response: Any) -> BrokerNode:
    """The coordinator that an answer names; `Answered` where it names none."""
    answer = response.coordinators[0] if response.coordinators else response
    check(answer.error_code, f"the coordinator of {name}", answer.error_message)
    return BrokerNode(int(answer.node_id), answer.host, answer.port)
