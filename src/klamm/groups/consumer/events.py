"""Answers the events of a consumer group: a member reports, leaves, or falls silent.

An event takes the group as it is and returns a decision: the answer, the changes to be written, and
the group as it is once they are durable. The group that was passed in stays as it is, so that
a write that fails leaves nothing to undo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from klamm.groups.consumer.assignors import ASSIGNORS, Wishes
from klamm.groups.consumer.patterns import parse, too_costly
from klamm.groups.consumer.reconciliation import next_standing
from klamm.groups.consumer.state import (
    LEAVES,
    LEAVES_FOR_NOW,
    NOTHING,
    Change,
    ConsumerGroup,
    ConsumerMember,
    EpochSet,
    MemberSet,
    Partitions,
    Standing,
    StandingSet,
    TargetEpochSet,
    TargetSet,
    TopicsSeen,
    member_weight,
)
from klamm.groups.consumer.subscription import Cluster, resolve, subscription
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import KLAMM_LEDGER

_JOINS: Final = 0
_HIDDEN: Final = frozenset({KLAMM_LEDGER})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerLimits:
    """The broker's settings for groups of this kind."""

    size_max: int = 2**31 - 1
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A ConsumerGroupHeartbeat. None, or -1 for the timeout, says: as before."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None

    @property
    def weight(self) -> int:
        """About how many bytes of memory its member takes, as far as this tells."""
        texts = (self.member_id, self.instance_id, self.rack_id, self.client_id, self.pattern)
        return member_weight(self.topics or (), *texts)

    @property
    def is_full(self) -> bool:
        """Whether the member told everything, and so must be told everything."""
        said = self.rebalance_timeout_ms != -1 and self.owned is not None
        return self.epoch == _JOINS or (
            said and (self.topics is not None or self.pattern is not None)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a member; without an assignment, the old one stays."""

    member_id: str
    epoch: int
    assignment: Partitions | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, what is to be written for it, and the group when that is done."""

    answer: Answer | Refused | None
    changes: tuple[Change, ...]
    group: ConsumerGroup


@dataclass(slots=True)
class _Turn:
    """The work on one event: changes, and the group with them. Copies when it first changes."""

    before: ConsumerGroup
    group: ConsumerGroup
    changes: list[Change] = field(default_factory=list)

    def make(self, change: Change) -> None:
        if self.group is self.before:
            self.group = self.before.copy()
        self.group.apply(change)
        self.changes.append(change)

    def decision(self, answer: Answer | Refused | None) -> Decision:
        return Decision(answer, tuple(self.changes), self.group)


def request_fault(beat: Heartbeat, limits: ConsumerLimits) -> Refused | None:
    """The fault in a heartbeat that any group would refuse."""
    if not beat.member_id:
        return Refused("the member id must not be empty")
    if beat.instance_id == "" or beat.rack_id == "":
        return Refused("an instance id or rack id must not be empty")
    if beat.epoch < LEAVES_FOR_NOW:
        return Refused(f"{beat.epoch} is no member epoch")
    if beat.epoch == LEAVES_FOR_NOW and beat.instance_id is None:
        return Refused("only a member with an instance id can leave for now")
    if beat.epoch == _JOINS:
        if beat.rebalance_timeout_ms == -1:
            return Refused("a member that joins must name its rebalance timeout")
        if beat.owned != NOTHING:
            return Refused("a member that joins must own nothing, and say so")
        if not beat.topics and not beat.pattern:
            return Refused("a member that joins must name topics or a pattern")
    if beat.assignor is not None and beat.assignor not in limits.assignors:
        return Refused(
            f"the assignor {beat.assignor} is not one of {', '.join(limits.assignors)}",
            ErrorCode.UNSUPPORTED_ASSIGNOR,
        )
    if beat.pattern and isinstance(parsed := parse(beat.pattern), Refused):
        return Refused(parsed.why, ErrorCode.INVALID_REGULAR_EXPRESSION)
    return None


def heartbeat(
    group: ConsumerGroup,
    beat: Heartbeat,
    cluster: Cluster,
    limits: ConsumerLimits,
    *,
    topics_changed: bool = True,
) -> Decision:
    """A member reports. `topics_changed` says whether the cluster is to be looked at again."""
    turn = _Turn(group, group)
    if beat.epoch in (LEAVES, LEAVES_FOR_NOW):
        return _leave(turn, beat)
    costly = too_costly(beat.pattern, cluster) if beat.pattern else None
    if costly is not None:
        why = Refused(costly.why, ErrorCode.INVALID_REGULAR_EXPRESSION)
        return Decision(why, (), group)
    refused = _admit(turn, beat, limits)
    if refused is not None:
        return Decision(refused, (), group)
    wishes_changed = _take_wishes(turn, beat)
    if wishes_changed or topics_changed or turn.group.epoch > turn.group.assignment_epoch:
        _look_at_topics(turn, cluster, wishes_changed=wishes_changed)
    if turn.group.epoch > turn.group.assignment_epoch:
        _assign(turn, limits)
    held = turn.group.standing(beat.member_id)
    standing = next_standing(turn.group, beat.member_id, held, beat.owned)
    if standing != held or beat.member_id not in turn.group.standings:
        turn.make(StandingSet(beat.member_id, standing))
    told = beat.is_full or standing.assigned != group.standing(beat.member_id).assigned
    return turn.decision(
        Answer(
            member_id=beat.member_id,
            epoch=standing.epoch,
            assignment=standing.assigned if told else None,
        )
    )


# --- coming in ------------------------------------------------------------------------------------


def _admit(turn: _Turn, beat: Heartbeat, limits: ConsumerLimits) -> Refused | None:
    """Make sure that the sender is a member, at an epoch at which it may speak."""
    group = turn.group
    known = group.members.get(beat.member_id)
    holder = group.holder_of_instance(beat.instance_id) if beat.instance_id else None
    if beat.epoch == _JOINS:
        if holder is not None and holder.id != beat.member_id:
            return _replace(turn, beat, holder)
        if known is None and len(group.members) >= limits.size_max:
            return Refused("the group is full", ErrorCode.GROUP_MAX_SIZE_REACHED)
        if known is not None:
            # It has let go of everything, or its first answer was lost and it never had anything.
            turn.make(StandingSet(known.id, Standing()))
        return None
    fault = _identity_fault(beat, known, holder)
    if fault is not None:
        return fault
    return _epoch_fault(beat, group.standing(beat.member_id))


def _identity_fault(
    beat: Heartbeat, known: ConsumerMember | None, holder: ConsumerMember | None
) -> Refused | None:
    unknown = Refused(f"{beat.member_id} is no member", ErrorCode.UNKNOWN_MEMBER_ID)
    if beat.instance_id is not None:
        if holder is None:
            return unknown
        if holder.id != beat.member_id:
            why = f"instance {beat.instance_id} is now member {holder.id}"
            return Refused(why, ErrorCode.FENCED_INSTANCE_ID)
    return unknown if known is None else None


def _epoch_fault(beat: Heartbeat, standing: Standing) -> Refused | None:
    if beat.epoch == standing.epoch:
        return None
    # The answer that raised its epoch may have been lost. It may go on from there as long as it
    # has nothing that it has not been given since.
    if (
        beat.epoch == standing.previous_epoch
        and beat.owned is not None
        and beat.owned <= standing.assigned
    ):
        return None
    return Refused(
        f"member epoch {beat.epoch} is not {standing.epoch}: let go of everything and join again",
        ErrorCode.FENCED_MEMBER_EPOCH,
    )


def _replace(turn: _Turn, beat: Heartbeat, holder: ConsumerMember) -> Refused | None:
    """A static member is back under another id and takes the place that was kept for it."""
    group = turn.group
    if group.standing(holder.id).epoch != LEAVES_FOR_NOW:
        return Refused(
            f"instance {beat.instance_id} is held by member {holder.id}",
            ErrorCode.UNRELEASED_INSTANCE_ID,
        )
    place, target = group.standing(holder.id), group.targets.get(holder.id)
    _remove(turn, holder.id)
    turn.make(MemberSet(beat.member_id, replace(holder, id=beat.member_id)))
    if target is not None:
        turn.make(TargetSet(beat.member_id, target))
    turn.make(StandingSet(beat.member_id, Standing(assigned=place.assigned)))
    return None


def _take_wishes(turn: _Turn, beat: Heartbeat) -> bool:
    """Note what the member said; whether that is a reason to assign anew."""
    before = turn.group.members.get(beat.member_id)
    known = before or ConsumerMember(id=beat.member_id)
    # A member that joins says everything: what it leaves out it does not want.
    joins = beat.epoch == _JOINS
    now = ConsumerMember(
        id=beat.member_id,
        instance_id=beat.instance_id or known.instance_id,
        rack_id=beat.rack_id or known.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        topics=(frozenset() if joins else known.topics) if beat.topics is None else beat.topics,
        pattern=(None if joins else known.pattern) if beat.pattern is None else beat.pattern,
        rebalance_timeout_ms=(
            known.rebalance_timeout_ms
            if beat.rebalance_timeout_ms == -1
            else beat.rebalance_timeout_ms
        ),
        assignor=known.assignor if beat.assignor is None else beat.assignor,
    )
    if now == before:
        return False
    turn.make(MemberSet(now.id, now))
    return before is None or (now.topics, now.pattern, now.assignor) != (
        before.topics,
        before.pattern,
        before.assignor,
    )


# --- assigning ------------------------------------------------------------------------------------


def _look_at_topics(turn: _Turn, cluster: Cluster, *, wishes_changed: bool) -> None:
    topics = resolve(turn.group.members.values(), cluster, _HIDDEN)
    if topics != turn.group.topics:
        turn.make(TopicsSeen(topics))
    elif not wishes_changed:
        return
    turn.make(EpochSet(turn.group.epoch + 1))


def _assign(turn: _Turn, limits: ConsumerLimits) -> None:
    """Make the target that belongs to the group's epoch."""
    group = turn.group
    name = group.assignor if group.assignor in limits.assignors else limits.assignors[0]
    given = ASSIGNORS[name or limits.assignors[0]](_wishes(group))
    for member_id, partitions in given.items():
        if group.targets.get(member_id) != partitions:
            turn.make(TargetSet(member_id, partitions))
    turn.make(TargetEpochSet(group.epoch))


def _wishes(group: ConsumerGroup) -> Wishes:
    members: Mapping[str, ConsumerMember] = group.members
    return Wishes(
        subscriptions={who: subscription(m, group.topics) for who, m in members.items()},
        ranks={who: m.instance_id or who for who, m in members.items()},
        topics=group.topics,
        before=dict(group.targets),
    )


# --- going ----------------------------------------------------------------------------------------


def _leave(turn: _Turn, beat: Heartbeat) -> Decision:
    group = turn.group
    holder = group.holder_of_instance(beat.instance_id) if beat.instance_id else None
    fault = _identity_fault(beat, group.members.get(beat.member_id), holder)
    if fault is not None:
        return turn.decision(fault)
    if beat.epoch == LEAVES_FOR_NOW:
        # Its place is kept until its session ends; what it was to give up it has let go of.
        place = replace(group.standing(beat.member_id), epoch=LEAVES_FOR_NOW, revoking=NOTHING)
        turn.make(StandingSet(beat.member_id, place))
    else:
        _remove(turn, beat.member_id)
        _after_departure(turn)
    return turn.decision(Answer(member_id=beat.member_id, epoch=beat.epoch))


def fence(group: ConsumerGroup, member_ids: Iterable[str]) -> Decision:
    """These members are heard of no more, or did not let go in time."""
    turn = _Turn(group, group)
    for member_id in member_ids:
        if member_id in turn.group.members:
            _remove(turn, member_id)
    if turn.changes:
        _after_departure(turn)
    return turn.decision(None)


def _remove(turn: _Turn, member_id: str) -> None:
    turn.make(StandingSet(member_id, None))
    turn.make(TargetSet(member_id, None))
    turn.make(MemberSet(member_id, None))


def _after_departure(turn: _Turn) -> None:
    # The next member that reports makes the new target: then the cluster is looked at as well.
    turn.make(EpochSet(turn.group.epoch + 1))


# --- offsets --------------------------------------------------------------------------------------


def commit_fault(group: ConsumerGroup, member_id: str, epoch: int) -> ErrorCode | None:
    """The reason why offsets may not be committed (or, with an id, fetched) in this epoch."""
    if epoch < 0 and not group.members:
        return None  # nobody reads: whoever administers the group may set its offsets
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None if epoch == group.standing(member_id).epoch else ErrorCode.STALE_MEMBER_EPOCH
