"""Decisions of the controller: writes to the store, requests to brokers, ledger entries.

Effects are values of the domain. They know neither paths nor bytes: the shell turns a write into
fenced operations on nodes and a request into a message. A write ends as `Stored` or as `Stale`, and
a stale one brings the value that was found instead, so that the core can plan again from it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from klamm.model.assignment import Assignment
from klamm.model.brokers import Registration
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, Replica, TopicPartition
from klamm.model.topics import ProducerIdBlock, StoredTopic

# Copies on one broker that nobody needs any more, each with the id of the topic it belonged to.
Leftovers = Mapping[TopicPartition, uuid.UUID]


@dataclass(frozen=True, slots=True)
class CreateState:
    """Add a partition's state, with the nodes above it."""

    partition: TopicPartition
    leadership: Leadership


@dataclass(frozen=True, slots=True)
class UpdateState:
    """Replace a partition's state; the version replaced is one below that of the new value."""

    partition: TopicPartition
    leadership: Leadership

    @property
    def replaces(self) -> int:
        return self.leadership.partition_epoch - 1


@dataclass(frozen=True, slots=True)
class RewriteTopic:
    """Replace a topic's assignments; `node.version` is the version replaced."""

    topic: str
    node: StoredTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class SwappedTopic:
    """A name that gets another topic: its node, its states, and the versions they replace."""

    name: str
    node: StoredTopic  # its version is the one replaced
    states: Mapping[int, Leadership]
    replaces: Mapping[int, int]  # of the states there are; those without a new one go


@dataclass(frozen=True, slots=True)
class SwapTopics:
    """Exchange the names of two topics, in one step."""

    first: SwappedTopic
    second: SwappedTopic


@dataclass(frozen=True, slots=True)
class RemoveTopic:
    """Remove a topic: its partitions, itself, its settings and last its delete marker."""

    topic: str


@dataclass(frozen=True, slots=True)
class RemoveMarkers:
    """Take back requests to delete these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoveNotifications:
    """Remove the notices of failed log directories (and of ISR changes) that were read."""

    log_dirs: tuple[str, ...] = ()
    isr_changes: tuple[str, ...] = ()


Reassignments = Mapping[TopicPartition, tuple[BrokerId, ...]]


@dataclass(frozen=True, slots=True)
class RewriteReassignmentRequests:
    """Leave only these in the legacy request to move partitions; nothing left removes it."""

    remaining: Reassignments


@dataclass(frozen=True, slots=True)
class RemoveElectionRequest:
    """Remove the legacy request for preferred elections."""


@dataclass(frozen=True, slots=True)
class ClaimProducerIds:
    """Hand out a block of producer ids."""

    block: ProducerIdBlock
    replaces: int


@dataclass(frozen=True, slots=True)
class RewriteLeftovers:
    """Remember which copies a broker that is away has to drop when it is back."""

    broker: BrokerId
    leftovers: Leftovers


Write = (
    CreateState
    | UpdateState
    | RewriteTopic
    | SwapTopics
    | RemoveTopic
    | RemoveMarkers
    | RemoveNotifications
    | RewriteReassignmentRequests
    | RemoveElectionRequest
    | ClaimProducerIds
    | RewriteLeftovers
)


@dataclass(frozen=True, slots=True)
class Stored:
    """The write is durable."""

    version: int = 0


@dataclass(frozen=True, slots=True)
class Stale:
    """Nothing was written: this was found instead (None: the node is not there)."""

    found: Leadership | StoredTopic | ProducerIdBlock | None = None
    version: int = -1


Outcome = Stored | Stale


@dataclass(frozen=True, slots=True)
class ReplicaOrder:
    """The role that one replica has to take."""

    partition: TopicPartition
    leadership: Leadership
    assignment: Assignment
    is_new: bool = False
    # Its answer is waited for: it tells what became of an earlier topic's copy.
    is_question: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsr:
    """Become leader or follower."""

    to: BrokerId
    broker_epoch: int
    orders: tuple[ReplicaOrder, ...]
    topic_ids: Mapping[str, uuid.UUID]
    leaders: tuple[Registration, ...]  # the live brokers that lead any of these partitions


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The metadata that every broker gives clients about one partition."""

    partition: TopicPartition
    leadership: Leadership
    replicas: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...]
    is_deleted: bool = False  # forget the partition


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadata:
    """Know these brokers, and these partitions."""

    to: BrokerId
    broker_epoch: int
    partitions: tuple[PartitionMetadata, ...]
    topic_ids: Mapping[str, uuid.UUID]
    brokers: tuple[Registration, ...]


@dataclass(frozen=True, slots=True)
class StopOrder:
    """One replica that has to stop, and may have to go."""

    partition: TopicPartition
    topic_id: uuid.UUID  # not sent: it tells to which topic of the name an answer belongs
    leader_epoch: int
    delete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplica:
    """Stop serving; where told so, remove the log."""

    to: BrokerId
    broker_epoch: int
    orders: tuple[StopOrder, ...]


Request = LeaderAndIsr | UpdateMetadata | StopReplica


@dataclass(frozen=True, slots=True)
class Transition:
    """One line of the ledger: what changed, from which state to which, and why."""

    subject: str
    topic: str
    before: str
    after: str
    why: str = ""
    topic_id: uuid.UUID | None = None  # tells a topic from another that had its name


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One step of the work on an event. A decision without writes ends it, unless it goes on."""

    cause: str
    writes: tuple[Write, ...] = ()
    requests: tuple[Request, ...] = ()  # in the order of sending; everything in them is stored
    transitions: tuple[Transition, ...] = ()
    warnings: tuple[str, ...] = ()
    unclean_elections_count: int = 0  # how many elections may have lost records
    answer: object = None
    goes_on: bool = False  # what is said so far may arrive before the rest is decided


@dataclass(frozen=True, slots=True)
class Copy:
    """A log that brokers would fetch from its leader."""

    partition: TopicPartition
    source: BrokerId
    to: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEffects:
    """The consequences of one event, computed without doing them."""

    transitions: tuple[Transition, ...] = ()
    later: tuple[Transition, ...] = ()  # once the brokers have done what they were told
    brokers: tuple[BrokerId, ...] = ()  # who would be told something
    writes_count: int = 0
    warnings: tuple[str, ...] = ()
    copies: tuple[Copy, ...] = ()
    removals: tuple[Replica, ...] = ()  # logs that would be removed
    answer: object = None
