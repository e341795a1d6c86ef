"""Decisions about trying again: what may pass by itself, and how long to pause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.client.errors import Unreachable
from klamm.model.errors import ErrorCode, RequestRefused

PAUSE_S: Final = 0.05
_PAUSE_S_MAX: Final = 1.0

# The group or transactional id has a coordinator elsewhere, or not yet: its topic may be new.
COORDINATOR_MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
CONTROLLER_MOVED: Final = frozenset({ErrorCode.NOT_CONTROLLER})
# The partition is led elsewhere, or is not known there yet: ask Metadata, then its leader.
LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


def may_pass(fault: Exception) -> bool:
    """Whether the same request may go well in a moment."""
    if isinstance(fault, RequestRefused):
        return fault.code.is_retriable
    return isinstance(fault, Unreachable)


def pauses(first_s: float = PAUSE_S, most_s: float = _PAUSE_S_MAX) -> Iterator[float]:
    """Seconds to wait before each further try: twice as long each time, up to a limit."""
    pause = first_s
    while True:
        yield pause
        pause = min(pause * 2, most_s)
