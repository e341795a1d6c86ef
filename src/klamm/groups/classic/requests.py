"""Requests to a classic group, its limits, and the names of its states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from klamm.groups.classic.members import PENDING_BYTES, Protocols, Token, member_weight


class GroupState(StrEnum):
    """The names are those that clients are shown."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """The broker's settings for groups."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    size_max: int = 2**31 - 1
    initial_delay_ms: int = 3_000

    def take_session(self, timeout_ms: int) -> bool:
        """Whether a member may ask for so long a session."""
        return self.session_timeout_ms_min <= timeout_ms <= self.session_timeout_ms_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup request, whatever its version."""

    token: Token
    member_id: str
    fresh_id: str  # the id a new member gets
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_id: bool  # version 4 on: a new member must come back with the id it was given
    knows_skip_assignment: bool  # version 9 on

    @property
    def weight(self) -> int:
        """About how many bytes of memory the group will need for it."""
        if self.requires_known_id and not self.member_id and self.instance_id is None:
            return PENDING_BYTES + len(self.fresh_id)
        texts = (self.member_id or self.fresh_id, self.instance_id, self.client_id)
        return member_weight(self.protocols, *texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup request."""

    token: Token
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]

    @property
    def weight(self) -> int:
        """About how many bytes of memory the assignments need."""
        return sum(len(each) for each in self.assignments.values())
