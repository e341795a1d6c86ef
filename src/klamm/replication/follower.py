"""Decides what a follower does if its log and its leader's do not fit together.

After a change of leader a follower may hold records the new leader never had. Leader epochs tell: a
record's batch names the epoch it was written in, and every log knows where each epoch ends. The
leader answers a fetch that does not fit with the end of the epoch in question; the follower cuts
its log back and asks again, until both agree. A record below the high watermark is never among
those cut, unless the leader was elected uncleanly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from klamm.model.errors import ErrorCode

UNDEFINED: Final = -1


class EpochEnd(NamedTuple):
    """The largest epoch not above the one asked for, and the offset at which it ends in a log.

    Where the log begins with a later epoch, the one asked for ends where the log begins.
    """

    epoch: int
    end: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log back so that it ends at this offset."""

    to: int
    is_final: bool  # the logs agree afterwards; otherwise the next answer cuts further


def truncation(
    theirs: EpochEnd, ours: EpochEnd | None, *, log_end: int, high_watermark: int
) -> Truncate:
    """The offset to cut at, given the leader's end of an epoch and our own end of it.

    `ours` is None when our log has no epochs at all.
    """
    if theirs.end == UNDEFINED:
        # The leader knows nothing that old. What is below the high watermark both must have.
        return Truncate(min(high_watermark, log_end), is_final=True)
    if ours is None:
        return Truncate(min(theirs.end, log_end), is_final=True)
    if ours.epoch < theirs.epoch:
        # The leader speaks of an epoch we never saw: fall back to the last one we did see.
        return Truncate(min(ours.end, log_end), is_final=False)
    return Truncate(min(theirs.end, ours.end, log_end), is_final=True)


def first_offset(*, log_end: int, high_watermark: int, has_epochs: bool) -> int:
    """The offset at which a new follower starts. Without epochs, only what is committed is safe."""
    return log_end if has_epochs else min(high_watermark, log_end)


@dataclass(frozen=True, slots=True)
class RestartAt:
    """Forget every record; the log goes on at this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """Nothing to cut: fetch from here."""

    offset: int


def out_of_range(
    *, leader_start: int, leader_end: int, log_end: int
) -> Truncate | RestartAt | FetchFrom:
    """The reaction to a leader that does not have the offset."""
    if leader_end < log_end:
        return Truncate(leader_end, is_final=True)
    if leader_start > log_end:
        # All that we hold was deleted at the leader long ago; a hole in the log is not an option.
        return RestartAt(leader_start)
    return FetchFrom(log_end)


class Reaction(StrEnum):
    """The reaction of a follower to an error in one partition of a fetch."""

    WAIT_FOR_CONTROLLER = "wait for the controller"  # with a pause; a new state will come
    FIND_OFFSET = "find the offset"  # ask the leader what it has
    RETRY = "retry"  # with a pause
    NEW_SESSION = "new session"


_REACTIONS: Final[Mapping[int, Reaction]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: Reaction.FIND_OFFSET,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Reaction.WAIT_FOR_CONTROLLER,
    ErrorCode.FENCED_LEADER_EPOCH: Reaction.WAIT_FOR_CONTROLLER,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Reaction.WAIT_FOR_CONTROLLER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.WAIT_FOR_CONTROLLER,
    ErrorCode.UNKNOWN_TOPIC_ID: Reaction.WAIT_FOR_CONTROLLER,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: Reaction.NEW_SESSION,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: Reaction.NEW_SESSION,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: Reaction.NEW_SESSION,
}


def reaction(code: int) -> Reaction:
    """The reaction to this error."""
    return _REACTIONS.get(code, Reaction.RETRY)
