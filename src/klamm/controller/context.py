"""The controller's picture of the cluster.

Everything is kept once, under its topic; the few indexes beside it (by broker, partitions without a
leader, partitions on the move) are what lets an event cost what it touches and not what the cluster
holds. Only the core changes a context, one event at a time, and leadership only after the store has
said yes. All collections keep insertion order, so that the same events give the same decisions in
every process.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from klamm.controller.states import PartitionState, ReplicaState, TopicState
from klamm.model.assignment import Assignment
from klamm.model.brokers import Registration
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, Replica, TopicPartition
from klamm.model.topics import StoredTopic

_UNLED = frozenset({PartitionState.NEW, PartitionState.OFFLINE})
_ALIKE_MAX: Final = 10_000


@dataclass(slots=True)
class Partition:
    """One partition and its replicas."""

    id: TopicPartition
    assignment: Assignment
    state: PartitionState = PartitionState.NON_EXISTENT
    leadership: Leadership | None = None
    replica_states: dict[BrokerId, ReplicaState] = field(default_factory=dict)
    original: tuple[BrokerId, ...] | None = None  # the order before a running move
    behind: tuple[tuple[BrokerId, int], ...] = ()  # replicas that are not in sync, since when

    def copy(self) -> Partition:
        """One that may be changed without this one."""
        return Partition(
            self.id,
            self.assignment,
            self.state,
            self.leadership,
            dict(self.replica_states),
            self.original,
        )


@dataclass(slots=True)
class Topic:
    """One topic; its partitions by index."""

    name: str
    id: uuid.UUID
    version: int  # of the topic's node
    partitions: dict[int, Partition] = field(default_factory=dict)
    unclean: bool | None = None
    frozen: bool = False  # its settings forbid clients to write
    importing: bool = False  # it is being filled with batches that have their offsets
    first_epoch: int = 0  # the leader epoch that its partitions begin with
    state: TopicState = TopicState.ABSENT
    is_renamed: bool = False  # another topic has its name now: only for a moment

    def copy(self) -> Topic:
        """One that may be changed without this one."""
        # By hand: a plan for every partition of a big cluster must not hold the controller up.
        partitions = {index: partition.copy() for index, partition in self.partitions.items()}
        return Topic(
            self.name,
            self.id,
            self.version,
            partitions,
            self.unclean,
            self.frozen,
            self.importing,
            self.first_epoch,
            self.state,
        )


@dataclass(slots=True)
class QueuedDeletion:
    """One topic that is queued for deletion."""

    queued_ms: int = 0  # when it was asked for
    inherited: bool = False  # from an earlier controller, which may have had logs removed
    started: bool = False  # brokers were told to remove their logs
    halted: str | None = None  # why it does not go on, in words
    entered_ms: dict[Replica, int] = field(default_factory=dict)  # when a replica last moved
    given_up: dict[BrokerId, None] = field(default_factory=dict)  # whose copies nobody waits for
    vanished: bool = False  # the topic's node was removed by hand
    removed: bool = False  # its nodes were removed, for nobody has a copy to confirm any more

    @property
    def ends_moves(self) -> bool:
        """Whether it has cost a copy: it cannot be called off, so nobody needs what moves."""
        return self.started or bool(self.given_up)

    def copy(self) -> QueuedDeletion:
        """One that may be changed without this one."""
        return replace(self, entered_ms=dict(self.entered_ms), given_up=dict(self.given_up))


@dataclass(slots=True)
class Context:
    """All a controller knows during its term."""

    controller: BrokerId
    epoch: int
    now_ms: int = 0  # when the event that is worked on began, as the shell has it
    began_ms: int = 0  # when the term began: what is older than that has an unknown age
    brokers: dict[BrokerId, Registration] = field(default_factory=dict)
    fenced: dict[BrokerId, Registration] = field(
        default_factory=dict
    )  # registered, held to be dead
    shutting_down: dict[BrokerId, int] = field(default_factory=dict)  # since when
    topics: dict[str, Topic] = field(default_factory=dict)
    names: dict[uuid.UUID, str] = field(default_factory=dict)
    deletions: dict[str, QueuedDeletion] = field(default_factory=dict)
    # Indexes; dicts used as ordered sets. Where a value is a number, it says since when.
    hosted: dict[BrokerId, dict[TopicPartition, Partition]] = field(default_factory=dict)
    unled: dict[TopicPartition, int] = field(default_factory=dict)
    # Led by another than the preferred leader.
    displaced: dict[TopicPartition, None] = field(default_factory=dict)
    reassigning: dict[TopicPartition, int] = field(default_factory=dict)
    offline_dirs: dict[BrokerId, dict[TopicPartition, int]] = field(default_factory=dict)
    # Those of them whose directory is good, but has the log of another topic under this name.
    foreign: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    lost_logs: dict[BrokerId, dict[TopicPartition, int]] = field(default_factory=dict)
    # Orders that a broker would not follow, for no reason known here: given again now and then.
    refused: dict[BrokerId, dict[TopicPartition, int]] = field(default_factory=dict)
    away: dict[BrokerId, int] = field(default_factory=dict)  # brokers that went in this term
    # Copies that a finished move (or an operator) left behind: removed when the broker confirms.
    leftovers: dict[BrokerId, dict[TopicPartition, uuid.UUID]] = field(default_factory=dict)
    leftovers_unsaved: dict[BrokerId, None] = field(default_factory=dict)
    reassignment_requests: dict[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    unclean_default: bool = False
    # One tuple for equal replica lists: most partitions of a cluster share a few dozen of them.
    _lists: dict[tuple[BrokerId, ...], tuple[BrokerId, ...]] = field(default_factory=dict)
    # The same of leaderships, as long as they are not too many.
    _leaderships: dict[Leadership, Leadership] = field(default_factory=dict, compare=False)

    def live(self) -> list[BrokerId]:
        """The registered brokers, those that are shutting down included, in order."""
        return sorted(self.brokers)

    def is_live(self, broker: BrokerId) -> bool:
        """Whether a broker is registered and means to stay."""
        return broker in self.brokers and broker not in self.shutting_down

    def is_current(self, broker: BrokerId, epoch: int) -> bool:
        """Whether this is the registration the broker has now."""
        return broker in self.brokers and self.brokers[broker].epoch == epoch

    def is_reachable(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Whether a replica's broker is registered, leaving or not, and its directory is good."""
        return broker in self.brokers and partition not in self.offline_dirs.get(broker, ())

    def is_online(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Whether a replica can serve."""
        return (
            broker in self.brokers
            and broker not in self.shutting_down
            and (not self.offline_dirs or partition not in self.offline_dirs.get(broker, ()))
        )

    def partition(self, id: TopicPartition) -> Partition | None:
        topic = self.topics.get(id.topic)
        return topic.partitions.get(id.partition) if topic else None

    def partitions(self) -> Iterator[Partition]:
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def partitions_of(self, topics: Iterable[str]) -> list[Partition]:
        return [p for name in topics for p in self.topics[name].partitions.values()]

    def hosted_by(self, brokers: Sequence[BrokerId]) -> list[Replica]:
        """Every replica assigned to these brokers; those of one partition stand together."""
        parts = [self.hosted.get(broker, {}) for broker in brokers]
        if len(parts) == 1:
            return [Replica(id, broker) for broker in brokers for id in parts[0]]
        ids = dict.fromkeys(id for part in parts for id in part)
        pairs = list(zip(brokers, parts, strict=True))
        return [Replica(id, broker) for id in ids for broker, part in pairs if id in part]

    def is_queued(self, topic: str) -> bool:
        """Whether a topic is queued for deletion."""
        return topic in self.deletions

    def is_moving(self, id: TopicPartition) -> bool:
        """Whether a partition is being moved, and no deletion has put an end to that."""
        deletion = self.deletions.get(id.topic)
        return id in self.reassigning and not (deletion and deletion.ends_moves)

    def is_reassigning(self, topic: str) -> bool:
        """Whether a partition of the topic is being moved, and has a leader to move it."""
        return bool(self.reassigning) and any(
            self.is_moving(p.id) and p.leadership and self.is_online(p.leadership.leader, p.id)
            for p in self.topics[topic].partitions.values()
        )

    def absentees(self, topic: str) -> set[BrokerId]:
        """The brokers that cannot confirm now, and have not, that a topic's copy is gone."""
        return {
            broker
            for p in self.topics[topic].partitions.values()
            for broker in p.assignment.replicas
            if p.replica_states.get(broker) is not ReplicaState.DELETION_SUCCESSFUL
            and not self.is_online(broker, p.id)
        }

    def is_confirmed(self, topic: str) -> bool:
        """Whether each copy of a topic is confirmed to be gone, or given up."""
        return all(
            p.replica_states.get(broker) is ReplicaState.DELETION_SUCCESSFUL
            for p in self.topics[topic].partitions.values()
            for broker in p.assignment.replicas
        )

    def may_be_unclean(self, topic: str) -> bool:
        own = self.topics[topic].unclean
        return self.unclean_default if own is None else own

    def replica_state(self, replica: Replica) -> ReplicaState:
        partition = self.partition(replica.partition)
        if partition is None:
            return ReplicaState.NON_EXISTENT
        return partition.replica_states.get(replica.broker, ReplicaState.NON_EXISTENT)

    def add_topic(self, name: str, node: StoredTopic) -> list[Partition]:
        """Take up a topic; the partitions are NonExistent until they are moved."""
        topic = Topic(
            name,
            node.topic_id,
            node.version,
            unclean=node.unclean,
            frozen=node.frozen,
            importing=node.importing,
            first_epoch=node.first_epoch,
        )
        self.topics[name] = topic
        self.names[node.topic_id] = name
        return self.add_partitions(topic, node)

    def add_partitions(self, topic: Topic, node: StoredTopic) -> list[Partition]:
        """Take up those partitions of the node that are not known yet."""
        added = []
        for index in sorted(node.partitions.keys() - topic.partitions.keys()):
            id = TopicPartition(topic.name, index)
            partition = Partition(id, Assignment(()), original=node.original.get(index))
            topic.partitions[index] = partition
            self.assign(partition, node.partitions[index])
            added.append(partition)
        return added

    def assign(self, partition: Partition, assignment: Assignment) -> None:
        """Give a partition its replicas, and keep the index by broker."""
        replicas = self.shared(assignment.replicas)
        if replicas is not assignment.replicas:
            assignment = Assignment(replicas, assignment.adding, assignment.removing)
        for broker in partition.assignment.replicas:
            if broker not in replicas:
                self.hosted[broker].pop(partition.id, None)
                self.refused.get(broker, {}).pop(partition.id, None)
        partition.assignment = assignment
        for broker in replicas:
            self.hosted.setdefault(broker, {})[partition.id] = partition
            self._drop_leftover(broker, partition.id)
        if assignment.is_reassigning:
            self.reassigning.setdefault(partition.id, self.now_ms)
        else:
            self.reassigning.pop(partition.id, None)
        self._file_displaced(partition)

    def lead(self, partition: Partition, leadership: Leadership) -> None:
        """Cache what the store has accepted."""
        if len(self._leaderships) >= _ALIKE_MAX:
            self._leaderships.clear()
        partition.leadership = self._leaderships.setdefault(leadership, leadership)
        self._file_displaced(partition)
        replicas = partition.assignment.replicas
        if len(leadership.isr) < len(replicas):
            before = dict(partition.behind)
            partition.behind = tuple(
                (b, before.get(b, self.now_ms)) for b in replicas if b not in leadership.isr
            )
        else:
            partition.behind = ()

    def forget_leadership(self, partition: Partition) -> None:
        """The store has none for it any more."""
        partition.leadership = None
        self._file_displaced(partition)

    def _file_displaced(self, partition: Partition) -> None:
        now = partition.leadership
        if now is not None and now.leader != partition.assignment.replicas[0]:
            self.displaced[partition.id] = None
        elif self.displaced:
            self.displaced.pop(partition.id, None)

    def file_unled(self, partition: Partition) -> None:
        """Keep the index of partitions without a leader, now that a state has changed."""
        if partition.state in _UNLED:
            self.unled.setdefault(partition.id, self.now_ms)
        else:
            self.unled.pop(partition.id, None)

    def remove_topic(self, name: str) -> None:
        """Forget a topic in every collection, so that one re-created starts clean."""
        topic = self.topics.pop(name)
        if self.names.get(topic.id) == name:
            del self.names[topic.id]
        self.deletions.pop(name, None)
        for partition in topic.partitions.values():
            for broker in partition.assignment.replicas:
                self.hosted[broker].pop(partition.id, None)
            self.unled.pop(partition.id, None)
            self.displaced.pop(partition.id, None)
            self.reassigning.pop(partition.id, None)
            self.reassignment_requests.pop(partition.id, None)
            for by_broker in (self.offline_dirs, self.lost_logs, self.refused):
                for ids in by_broker.values():
                    ids.pop(partition.id, None)
            for foreign in self.foreign.values():
                foreign.pop(partition.id, None)

    def shared(self, brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        """The one copy of an often repeated list."""
        return self._lists.setdefault(brokers, brokers)

    def _drop_leftover(self, broker: BrokerId, id: TopicPartition) -> None:
        # The broker is to hold this partition again: what was left there is of use. Not so that of
        # a topic on its way out: it was given up, and is not wanted back.
        if self.is_queued(id.topic):
            return
        left = self.leftovers.get(broker)
        if left is not None and left.get(id) == self.topics[id.topic].id:
            del left[id]
            self.leftovers_unsaved[broker] = None
