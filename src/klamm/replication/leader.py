"""Draws a leader's conclusions from its followers' fetches.

A follower that asks for offset n holds everything below n: its fetch is its acknowledgement. From
those offsets follows the high watermark, the offset below which a record survives the loss of any
one replica that could be elected; and who is in sync, which is who could be elected.

The two hold each other. The high watermark is the least log end among all replicas that are in
sync, *might be* in sync already (a change the controller has not answered yet: the larger of the
two sets counts), or are about to be (caught up but not admitted yet). So a record below the high
watermark is on every replica the controller may make the next leader, whichever of the two sets
it believes in.

Everything here is a value. Who fetched, when, and what became of a proposal is told from outside;
what is decided here is carried out there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId

UNKNOWN_OFFSET: Final = -1
_REFUSED_FOR_MS: Final = 1_000  # an in-sync set that the controller did not want


class FollowerState(NamedTuple):
    """The facts from one follower's fetches. A new leader knows nothing of their ends.

    A tuple, as `LeaderView` is: several are made for every batch that is replicated.
    """

    log_end: int = UNKNOWN_OFFSET
    log_start: int = UNKNOWN_OFFSET
    fetched_ms: int = 0
    leader_end_at_fetch: int = 0
    caught_up_ms: int = 0  # the last time at which it had all that the leader had

    def lags(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        """Whether it has been behind for longer than a follower in sync may be."""
        return self.log_end != leader_end and now_ms - self.caught_up_ms > lag_ms_max


def at_election(*, in_sync: bool, now_ms: int) -> FollowerState:
    """A follower as a new leader sees it: one in sync gets the full time to report."""
    return FollowerState(caught_up_ms=now_ms if in_sync else 0)


def fetched(
    state: FollowerState, *, offset: int, log_start: int, leader_end: int, now_ms: int
) -> FollowerState:
    """The follower's state after it asked for the records from `offset` on."""
    if offset >= leader_end:
        caught_up_ms = now_ms
    elif offset >= state.leader_end_at_fetch:
        # It now has all that the leader had when it asked last: at that time it was about to be
        # caught up, though the leader has moved on since.
        caught_up_ms = max(state.caught_up_ms, state.fetched_ms)
    else:
        caught_up_ms = state.caught_up_ms
    return FollowerState(offset, log_start, now_ms, leader_end, caught_up_ms)


def left_behind(state: FollowerState, now_ms: int) -> FollowerState:
    """The state of a caught-up follower at the moment the leader's log grows past it.

    A follower of an idle partition has nothing new to tell, and need not: its lag is counted from
    the append it is missing.
    """
    log_end, log_start, fetched_ms, leader_end_at_fetch, _ = state
    return FollowerState(log_end, log_start, fetched_ms, leader_end_at_fetch, now_ms)


@dataclass(frozen=True, slots=True)
class Isr:
    """The replicas in sync: as stored, and as proposed to the controller if a change is open."""

    committed: tuple[BrokerId, ...]
    proposed: tuple[BrokerId, ...] | None = None

    @property
    def maximal(self) -> tuple[BrokerId, ...]:
        """All that may be in sync, whatever the controller says to the proposal."""
        if self.proposed is None or len(self.proposed) <= len(self.committed):
            return self.committed
        return self.proposed

    @property
    def is_agreed(self) -> bool:
        return self.proposed is None


@lru_cache(maxsize=1024)
def agreed(*members: int) -> Isr:
    """Replicas in sync as stored; kept once, for most partitions have the same few lists."""
    return Isr(tuple(map(BrokerId, members)))


class LeaderView(NamedTuple):
    """All that the decisions about one partition may look at."""

    leader: BrokerId
    leader_end: int
    high_watermark: int
    epoch_start: int  # where this leader's own records begin
    isr: Isr
    followers: Mapping[BrokerId, FollowerState]
    in_sync_min: int  # never more than the replicas there are
    lag_ms_max: int
    now_ms: int


def high_watermark(view: LeaderView, eligible: Collection[BrokerId]) -> int:
    """The high watermark now. It never falls, and rests while too few replicas are in sync."""
    if len(view.isr.committed) < view.in_sync_min:
        return view.high_watermark
    lowest = view.leader_end
    maximal = view.isr.maximal
    for broker, state in view.followers.items():
        if state.log_end >= lowest:
            continue
        if broker in maximal or (
            broker in eligible and not state.lags(view.leader_end, view.now_ms, view.lag_ms_max)
        ):
            lowest = state.log_end
    return max(lowest, view.high_watermark)


def expansion(
    view: LeaderView, broker: BrokerId, eligible: Collection[BrokerId]
) -> tuple[BrokerId, ...] | None:
    """The in-sync set with this follower, if it has earned its place."""
    state = view.followers.get(broker)
    if state is None or not view.isr.is_agreed or broker in view.isr.committed:
        return None
    if broker not in eligible:
        return None
    # Beyond the start of this epoch: before that it may still hold records of an old leader that
    # this one never had.
    if state.log_end < view.high_watermark or state.log_end < view.epoch_start:
        return None
    return (*view.isr.committed, broker)


def shrinkage(view: LeaderView) -> tuple[BrokerId, ...] | None:
    """The in-sync set without those that have been behind for too long, if there are any."""
    if not view.isr.is_agreed:
        return None
    kept = tuple(
        broker
        for broker in view.isr.committed
        if broker == view.leader or not _is_late(view, broker)
    )
    return kept if len(kept) < len(view.isr.committed) else None


def _is_late(view: LeaderView, broker: BrokerId) -> bool:
    state = view.followers.get(broker)
    return state is None or state.lags(view.leader_end, view.now_ms, view.lag_ms_max)


class RefusedIsr(NamedTuple):
    """An in-sync set that the controller did not want, and what was known then."""

    members: tuple[BrokerId, ...]
    eligible: frozenset[BrokerId]
    at_ms: int


def is_worth_asking(
    refusal: RefusedIsr | None,
    members: tuple[BrokerId, ...],
    eligible: Collection[BrokerId],
    now_ms: int,
) -> bool:
    """Whether a set may be proposed: one that was refused only when something may have changed.

    The controller refuses members that are not live, or on their way down. It tells all brokers
    when that changes; until then the same question has the same answer.
    """
    return (
        refusal is None
        or members != refusal.members
        or refusal.eligible != frozenset(eligible)
        or now_ms - refusal.at_ms >= _REFUSED_FOR_MS
    )


class ProposalVerdict(StrEnum):
    """The consequence of the controller's answer to a proposed in-sync set."""

    COMMIT = "commit"
    ROLL_BACK = "roll back"
    WAIT = "wait"  # our view is old; the controller will send a new one
    PROPOSE_AGAIN = "propose again"


_VERDICTS: Final[Mapping[int, ProposalVerdict]] = {
    ErrorCode.NONE: ProposalVerdict.COMMIT,
    ErrorCode.OPERATION_NOT_ATTEMPTED: ProposalVerdict.ROLL_BACK,
    ErrorCode.INELIGIBLE_REPLICA: ProposalVerdict.ROLL_BACK,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ProposalVerdict.WAIT,
    ErrorCode.UNKNOWN_TOPIC_ID: ProposalVerdict.WAIT,
    ErrorCode.FENCED_LEADER_EPOCH: ProposalVerdict.WAIT,
    ErrorCode.INVALID_UPDATE_VERSION: ProposalVerdict.WAIT,
    ErrorCode.INVALID_REQUEST: ProposalVerdict.WAIT,
}


def verdict(code: int) -> ProposalVerdict:
    """The verdict on a proposal that was answered with this code."""
    return _VERDICTS.get(code, ProposalVerdict.PROPOSE_AGAIN)
