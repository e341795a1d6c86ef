"""Events that can happen to a controller.

An event carries the facts it is about, as they were read when its turn came. An `Ask` is an event
somebody waits for: the type in its brackets is the answer's.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Generic, TypeVar

from klamm.controller.effects import (
    LeaderAndIsr,
    Leftovers,
    PlannedEffects,
    Reassignments,
    StopReplica,
)
from klamm.controller.questions.survey import States, Status
from klamm.controller.states import TopicState
from klamm.model.assignment import Assignment
from klamm.model.brokers import Registration
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId, TopicPartition
from klamm.model.topics import ProducerIdBlock, StoredTopic

A = TypeVar("A")


class Ask(Generic[A]):
    """An event that is answered."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TermBegan:
    """This broker was elected; everything the store knows, read once."""

    brokers: Mapping[BrokerId, Registration]
    topics: Mapping[str, StoredTopic] = field(default_factory=dict)
    states: Mapping[TopicPartition, Leadership] = field(default_factory=dict)
    markers: tuple[str, ...] = ()
    reassignment_requests: Reassignments | None = None  # None where nobody asks
    election_requests: tuple[TopicPartition, ...] = ()
    log_dir_notices: tuple[str, ...] = ()
    isr_notices: tuple[str, ...] = ()
    leftovers: Mapping[BrokerId, Leftovers] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """The set of registered brokers changed; this is the new one."""

    brokers: Mapping[BrokerId, Registration]


@dataclass(frozen=True, slots=True)
class BrokerUnreachable:
    """A registered broker has not taken the controller's requests for too long."""

    broker: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerReached:
    """A broker that could not be reached has answered."""

    broker: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics that appeared in the store or vanished from it."""

    appeared: Mapping[str, StoredTopic] = field(default_factory=dict)
    vanished: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicModified:
    """A known topic's node was rewritten."""

    topic: str
    node: StoredTopic


@dataclass(frozen=True, slots=True)
class MarkersChanged:
    """The topics somebody asked to delete."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A broker's answer, a code a partition, and what it was asked."""

    request: LeaderAndIsr
    code: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    """A broker's answer, a code a partition, and what it was asked."""

    request: StopReplica
    code: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class LogDirFailed:
    """Brokers that lost a log directory; the names of their notices."""

    brokers: tuple[BrokerId, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsrChangesNoticed:
    """ISR changes that brokers of an older kind stored themselves; the names of their notices."""

    states: Mapping[TopicPartition, Leadership]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentsRequested:
    """The legacy request to move partitions, as the store has it; empty where it makes no sense."""

    targets: Reassignments


@dataclass(frozen=True, slots=True)
class ElectionsRequested:
    """The legacy request for preferred elections."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class UncleanSwitched:
    """unclean.leader.election.enable changed for a topic, or (None) for the cluster."""

    topic: str | None
    allowed: bool | None  # None: the topic no longer has its own value


@dataclass(frozen=True, slots=True)
class FreezeSwitched:
    """klamm.frozen changed for a topic: whether clients may write to it."""

    topic: str
    frozen: bool


@dataclass(frozen=True, slots=True)
class ImportSwitched:
    """klamm.importing changed for a topic: whether it is still being filled."""

    topic: str
    importing: bool


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """The timer of the automatic leader rebalance."""


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The timer that tries again what an answer or a broker held up."""


@dataclass(frozen=True, slots=True)
class ShutdownAnswer:
    code: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ShutdownAsked(Ask[ShutdownAnswer]):
    """A broker wants to leave and asks to be relieved first."""

    broker: BrokerId
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    """The ISR a leader wants for one of its partitions."""

    topic: str | uuid.UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    recovery: Recovery = Recovery.RECOVERED
    # The registration each member was seen with; -1 and absent mean unknown.
    isr_epochs: Mapping[BrokerId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    code: ErrorCode
    results: tuple[tuple[IsrChange, ErrorCode, Leadership | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChangesAsked(Ask[IsrAnswer]):
    """AlterPartition (KIP-497)."""

    broker: BrokerId
    broker_epoch: int
    changes: tuple[IsrChange, ...]


class ElectionType(IntEnum):
    """The wire's names for the elections a client may ask for."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionFault:
    """The reason why one partition was refused; NONE and no text if it was not."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ElectionsAnswer:
    results: Mapping[TopicPartition, PartitionFault]
    leader_epochs: Mapping[TopicPartition, int]  # what the metadata will show, or more


@dataclass(frozen=True, slots=True)
class ElectionsAsked(Ask[ElectionsAnswer]):
    """ElectLeaders; None asks for every partition."""

    kind: ElectionType
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignmentsAnswer:
    results: Mapping[TopicPartition, PartitionFault]


@dataclass(frozen=True, slots=True)
class ReassignmentsAsked(Ask[ReassignmentsAnswer]):
    """AlterPartitionReassignments; None for the replicas cancels."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


@dataclass(frozen=True, slots=True)
class ReassignmentsListed(Ask[Mapping[TopicPartition, Assignment]]):
    """ListPartitionReassignments; None asks for all."""

    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class ProducerIdsAnswer:
    code: ErrorCode
    first: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class ProducerIdsAsked(Ask[ProducerIdsAnswer]):
    """AllocateProducerIds, with the block the store has and its version."""

    broker: BrokerId
    broker_epoch: int
    last: ProducerIdBlock | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaGivenUp(Ask[PartitionFault]):
    """An operator gives up the copies of a topic being deleted on a broker that is away."""

    topic: str
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class DeletionCancelled(Ask[PartitionFault]):
    """An operator calls a deletion off before any log was removed."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicArchived(Ask[PartitionFault]):
    """Somebody has archived a topic to delete it, and proven that all of it is there."""

    topic: str
    topic_id: uuid.UUID
    manifest: str  # the path of the file that tells what the archive is
    sha256: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapAsked(Ask[PartitionFault]):
    """Two topics, known by their ids, are to exchange their names."""

    topic: str
    topic_id: uuid.UUID
    other: str
    other_id: uuid.UUID


class Obstacle(StrEnum):
    """The reasons why a topic may be waiting."""

    BROKER_DOWN = "broker is down"
    BROKER_FENCED = "broker does not take the controller's requests"
    BROKER_LEAVING = "broker is shutting down"
    DIR_FAILED = "log directory failed"
    FOREIGN_LOG = "broker has a log of another topic of that name"
    MOVING = "partition is being moved"
    DELETE_FAILED = "the broker could not delete its copy"
    DELETE_PENDING = "the broker has not answered yet"
    NO_REPLICA = "no assigned replica is live"
    LOG_LOST = "the last in-sync replica has lost its log"
    NO_IN_SYNC = "no in-sync replica is live"
    CATCHING_UP = "new replica is catching up"
    LAGGING = "replica is not in sync"
    ORDER_REFUSED = "broker refused to serve its replica"


@dataclass(frozen=True, slots=True)
class Waiting:
    """One reason why a topic is not where it should be."""

    what: str  # creation, deletion, move, election, replication
    partition: int
    broker: BrokerId | None
    why: Obstacle
    until: str  # what would end the wait
    since_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The reasons why a topic is waiting, and since when."""

    state: TopicState
    waiting: tuple[Waiting, ...] = ()
    deleting_since_ms: int | None = None  # None where the topic is not being deleted
    began_ms: int = 0  # when this controller took over: what is as old may be older


@dataclass(frozen=True, slots=True)
class ExplanationAsked(Ask[Explanation | None]):
    """A request to explain what a topic is waiting for; None if there is no such topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class StatusAsked(Ask[Status]):
    """A request for one look at the whole cluster."""


@dataclass(frozen=True, slots=True)
class ExplanationsAsked(Ask[Mapping[str, Explanation]]):
    """A request to explain every topic that waits for something, those behind `after` first."""

    after: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class StatesAsked(Ask[States]):
    """A request for the states of these topics, or of all, behind `after`."""

    topics: tuple[str, ...] | None
    after: str | None
    partitions_max: int


# New topics, more partitions, deletions, reassignments, elections.
Plannable = TopicsChanged | TopicModified | MarkersChanged | ReassignmentsAsked | ElectionsAsked


@dataclass(frozen=True, slots=True)
class PlanAsked(Ask[PlannedEffects]):
    """A request to plan: what would the controller do about this event?"""

    about: Plannable


# Answered without changing anything.
Question = ExplanationAsked | ExplanationsAsked | StatusAsked | StatesAsked | PlanAsked

Event = (
    TermBegan
    | BrokersChanged
    | BrokerUnreachable
    | BrokerReached
    | TopicsChanged
    | TopicModified
    | MarkersChanged
    | LeaderAndIsrAnswered
    | StopReplicaAnswered
    | LogDirFailed
    | IsrChangesNoticed
    | ReassignmentsRequested
    | ElectionsRequested
    | UncleanSwitched
    | FreezeSwitched
    | ImportSwitched
    | RebalanceDue
    | RetryDue
    | ShutdownAsked
    | IsrChangesAsked
    | ElectionsAsked
    | ReassignmentsAsked
    | ReassignmentsListed
    | ProducerIdsAsked
    | ReplicaGivenUp
    | DeletionCancelled
    | TopicArchived
    | SwapAsked
    | Question
)
