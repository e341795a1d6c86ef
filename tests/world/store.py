"""The store's facts as values, and the writes of a core applied to them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from klamm.controller import effects as do
from klamm.controller.effects import Outcome, Stale, Stored, Write
from klamm.controller.events import TermBegan
from klamm.model.assignment import Assignment
from klamm.model.brokers import Endpoint, Registration
from klamm.model.errors import ControllerFenced
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from klamm.model.topics import ProducerIdBlock, StoredTopic


@dataclass
class FakeStore:
    """What the store would hold."""

    controller_epoch: int = 0
    brokers: dict[BrokerId, Registration] = field(default_factory=dict)
    topics: dict[str, StoredTopic] = field(default_factory=dict)
    states: dict[TopicPartition, Leadership] = field(default_factory=dict)
    markers: dict[str, None] = field(default_factory=dict)
    reassignment_requests: dict[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    election_requests: tuple[TopicPartition, ...] = ()
    log_dir_notices: dict[str, BrokerId] = field(default_factory=dict)
    leftovers: dict[BrokerId, dict[TopicPartition, uuid.UUID]] = field(default_factory=dict)
    producer_ids: ProducerIdBlock | None = None
    producer_ids_version: int = 0
    zxid: int = 100
    ids_drawn: int = 0
    writes: list[Write] = field(default_factory=list)  # all that were ever accepted

    def register(self, broker: int, rack: str | None = None) -> None:
        self.zxid += 1
        self.brokers[BrokerId(broker)] = Registration(
            id=BrokerId(broker),
            epoch=self.zxid,
            endpoints=(Endpoint("host", 9000 + broker),),
            rack=rack,
        )

    def create_topic(self, name: str, assignment: Iterable[Sequence[int]]) -> None:
        assert name not in self.topics, name
        self.ids_drawn += 1
        partitions = {p: _assignment(replicas) for p, replicas in enumerate(assignment)}
        topic_id = uuid.UUID(int=(7 << 64) + self.ids_drawn)
        self.topics[name] = StoredTopic(topic_id=topic_id, partitions=partitions)

    def grow_topic(self, name: str, assignment: Iterable[Sequence[int]]) -> None:
        node = self.topics[name]
        partitions = dict(node.partitions)
        for replicas in assignment:
            partitions[len(partitions)] = _assignment(replicas)
        self.topics[name] = replace(node, partitions=partitions, version=node.version + 1)

    def remove_topic_by_hand(self, name: str) -> None:
        del self.topics[name]
        for id in [id for id in self.states if id.topic == name]:
            del self.states[id]

    def everything(self) -> TermBegan:
        return TermBegan(
            brokers=dict(self.brokers),
            topics=dict(self.topics),
            states=dict(self.states),
            markers=tuple(self.markers),
            reassignment_requests=dict(self.reassignment_requests) or None,
            election_requests=self.election_requests,
            log_dir_notices=tuple(self.log_dir_notices),
            leftovers={broker: dict(left) for broker, left in self.leftovers.items()},
        )

    def commit(self, writes: Sequence[Write], *, epoch: int) -> list[Outcome]:
        if epoch != self.controller_epoch:
            raise ControllerFenced("another controller was elected")
        outcomes = []
        for write in writes:
            outcome = self._apply(write)
            if isinstance(outcome, Stored):
                self.writes.append(write)
            outcomes.append(outcome)
        return outcomes

    def _apply(self, write: Write) -> Outcome:
        match write:
            case do.CreateState(partition, leadership):
                if partition.topic not in self.topics:
                    return Stale(None)
                if partition in self.states:
                    return Stale(self.states[partition])
                assert leadership.partition_epoch == 0, write
                self.states[partition] = leadership
                return Stored(0)
            case do.UpdateState(partition, leadership):
                now = self.states.get(partition)
                if now is None or now.partition_epoch != write.replaces:
                    return Stale(now)
                self.states[partition] = leadership
                return Stored(leadership.partition_epoch)
            case do.RewriteTopic(topic, node):
                found = self.topics.get(topic)
                if found is None or found.version != node.version:
                    return Stale(found)
                self.topics[topic] = replace(node, version=node.version + 1, id_missing=False)
                return Stored(node.version + 1)
            case do.SwapTopics(first, second):
                return self._swap(first, second)
            case do.RemoveTopic(topic):
                if topic in self.topics:
                    self.remove_topic_by_hand(topic)
                self.markers.pop(topic, None)
                return Stored()
            case do.RemoveMarkers(topics):
                for topic in topics:
                    self.markers.pop(topic, None)
                return Stored()
            case do.RemoveNotifications(log_dirs, _):
                for name in log_dirs:
                    self.log_dir_notices.pop(name, None)
                return Stored()
            case do.RewriteReassignmentRequests(remaining):
                self.reassignment_requests = dict(remaining)
                return Stored()
            case do.RemoveElectionRequest():
                self.election_requests = ()
                return Stored()
            case do.ClaimProducerIds(block, replaces):
                if replaces != self.producer_ids_version:
                    return Stale(self.producer_ids, self.producer_ids_version)
                self.producer_ids = block
                self.producer_ids_version += 1
                return Stored(self.producer_ids_version)
            case do.RewriteLeftovers(broker, leftovers):
                self.leftovers[broker] = dict(leftovers)
                if not leftovers:
                    del self.leftovers[broker]
                return Stored()

    def _swap(self, *sides: do.SwappedTopic) -> Outcome:
        """Both at once, or neither."""
        for side in sides:
            found = self.topics.get(side.name)
            states = {id.partition: s for id, s in self.states.items() if id.topic == side.name}
            epochs = {index: state.partition_epoch for index, state in states.items()}
            if found is None or found.version != side.node.version or epochs != side.replaces:
                return Stale(None)
        for side in sides:
            self.remove_topic_by_hand(side.name)
            self.topics[side.name] = replace(side.node, version=side.node.version + 1)
            for index, state in side.states.items():
                expected = side.replaces.get(index, -1) + 1
                assert state.partition_epoch == expected, (side.name, index, state)
                self.states[TopicPartition(side.name, index)] = state
        return Stored()


def _assignment(replicas: Sequence[int]) -> Assignment:
    return Assignment(tuple(BrokerId(b) for b in replicas))
