"""One consumer group of the new protocol: what is known of it, and how that changes.

Three numbers tell how far a group has come. The *group epoch* rises whenever there is a reason to
assign anew: a member came, went or changed its wishes, or a topic changed. The *assignment epoch*
is the group epoch that the target assignment was made for. A *member epoch* is the assignment epoch
that a member has arrived at; members walk towards the target one by one, each at its own pace.

A group is exactly the sum of its changes. Each change is one record of the offsets topic, so that
what is decided, what is written and what a new coordinator reads back are the same thing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, TypeVar, assert_never

_T = TypeVar("_T")

# What a member says instead of its epoch when it goes, for ever or to come back soon.
LEAVES: Final = -1
LEAVES_FOR_NOW: Final = -2

# About how many bytes of memory these take beside what is said of them.
GROUP_BYTES: Final = 1_800
_MEMBER_BYTES: Final = 1_600
_TOPIC_BYTES: Final = 100
_PARTITION_BYTES: Final = 40  # in a set; the partition itself is shared


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id: a topic made anew under an old name is another one."""

    topic_id: uuid.UUID
    partition: int


Partitions = frozenset[TopicIdPartition]
NOTHING: Final[Partitions] = frozenset()


class TopicShape(NamedTuple):
    """As much of a topic as an assignment depends on."""

    id: uuid.UUID
    partitions: int


class ConsumerGroupState(StrEnum):
    """The names are those that clients are shown."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberProgress(IntEnum):
    """The progress of a member towards its target; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED = 1  # it was asked to give partitions up and has not said that it did
    UNRELEASED = 2  # it waits for partitions that others have not given up


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """The identity and the wishes of a member."""

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None

    @property
    def weight(self) -> int:
        texts = (self.id, self.instance_id, self.rack_id, self.client_id, self.pattern)
        return member_weight(self.topics, *texts)


def member_weight(topics: Iterable[str], *texts: str | None) -> int:
    """About how many bytes of memory a member takes that says this of itself."""
    named = sum(_TOPIC_BYTES + len(topic) for topic in topics)
    return _MEMBER_BYTES + named + sum(len(text) for text in texts if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The epoch a member has reached, and the partitions it may hold meanwhile."""

    epoch: int = 0
    previous_epoch: int = 0  # still accepted: the answer with the newer one may have been lost
    progress: MemberProgress = MemberProgress.STABLE
    assigned: Partitions = NOTHING
    revoking: Partitions = NOTHING  # held until the member says that it has let go

    def at(self, epoch: int) -> Standing:
        """The same standing at another epoch."""
        if epoch == self.epoch:
            return self
        return replace(self, epoch=epoch, previous_epoch=self.epoch)


# --- what can change: one class for each kind of record; None takes back what was said before -----


@dataclass(frozen=True, slots=True)
class EpochSet:
    """The group epoch; None ends the group."""

    epoch: int | None


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The subscribed topics as they were when the group last looked."""

    topics: Mapping[str, TopicShape] | None


@dataclass(frozen=True, slots=True)
class MemberSet:
    """A member came, changed or (None) went."""

    id: str
    member: ConsumerMember | None


@dataclass(frozen=True, slots=True)
class TargetEpochSet:
    """The target assignment is that of this group epoch."""

    epoch: int | None


@dataclass(frozen=True, slots=True)
class TargetSet:
    """The partitions a member is to have in the end, set by a record."""

    id: str
    partitions: Partitions | None


@dataclass(frozen=True, slots=True)
class StandingSet:
    """The partitions a member has now, set by a record."""

    id: str
    standing: Standing | None


Change = EpochSet | TopicsSeen | MemberSet | TargetEpochSet | TargetSet | StandingSet


@dataclass(slots=True)
class ConsumerGroup:
    """The state of one group. Events read it; only `apply` writes it."""

    id: str
    epoch: int = 0
    assignment_epoch: int = 0
    topics: Mapping[str, TopicShape] = field(default_factory=dict)
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    standings: dict[str, Standing] = field(default_factory=dict)

    def copy(self) -> ConsumerGroup:
        """A group that can change while this one stays."""
        return replace(
            self,
            members=dict(self.members),
            targets=dict(self.targets),
            standings=dict(self.standings),
        )

    def apply(self, change: Change) -> None:
        """Let a change be so."""
        match change:
            case EpochSet(epoch):
                self.epoch = epoch or 0
            case TopicsSeen(topics):
                self.topics = topics or {}
            case TargetEpochSet(epoch):
                self.assignment_epoch = epoch or 0
            case MemberSet(member_id, member):
                _put(self.members, member_id, member)
            case TargetSet(member_id, partitions):
                _put(self.targets, member_id, partitions)
            case StandingSet(member_id, standing):
                _put(self.standings, member_id, standing)
            case _:
                assert_never(change)

    # --- what follows from the state -----------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self.is_reconciled(member_id) for member_id in self.members):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def standing(self, member_id: str) -> Standing:
        return self.standings.get(member_id, Standing())

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NOTHING)

    def is_reconciled(self, member_id: str) -> bool:
        """Whether a member has arrived at the target."""
        standing = self.standing(member_id)
        return (
            standing.progress is MemberProgress.STABLE and standing.epoch == self.assignment_epoch
        )

    def holder_of_instance(self, instance_id: str) -> ConsumerMember | None:
        """The static member that has this instance id."""
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def held_by_others(self, member_id: str) -> Partitions:
        """The partitions that other members have, or were asked to give up and still hold."""
        return NOTHING.union(
            *(s.assigned | s.revoking for who, s in self.standings.items() if who != member_id)
        )

    @property
    def subscribed(self) -> frozenset[str]:
        """The topics that somebody reads, whether they exist or not."""
        named = (member.topics for member in self.members.values())
        return frozenset(self.topics if self.members else ()).union(*named)

    @property
    def weight(self) -> int:
        """About how many bytes of memory the group takes."""
        held = sum(len(s.assigned) + len(s.revoking) for s in self.standings.values())
        held += sum(len(target) for target in self.targets.values())
        members = sum(member.weight for member in self.members.values())
        return GROUP_BYTES + len(self.id) + members + held * _PARTITION_BYTES

    @property
    def assignor(self) -> str | None:
        """The assignor that most members wish for; None when no member wishes for any."""
        wishes = [m.assignor for m in self.members.values() if m.assignor is not None]
        return max(sorted(set(wishes)), key=wishes.count, default=None)

    def ending(self) -> tuple[Change, ...]:
        """The changes that end the group: everything that was ever said of it is taken back."""
        return (
            *(StandingSet(who, None) for who in self.standings),
            *(TargetSet(who, None) for who in self.targets),
            TargetEpochSet(None),
            *(MemberSet(who, None) for who in self.members),
            TopicsSeen(None),
            EpochSet(None),
        )


def _put(held: dict[str, _T], key: str, value: _T | None) -> None:
    if value is None:
        held.pop(key, None)
    else:
        held[key] = value
