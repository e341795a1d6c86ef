"""A member of a classic consumer group, and what a group says to its members.

A request that must wait (join, sync) is known to the core by a token, a plain number; the shell
keeps the connection behind it. Times are milliseconds handed in with each event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from klamm.groups.classic.records import GroupRecord
from klamm.model.errors import ErrorCode

Token = int
Protocols = tuple[tuple[str, bytes], ...]

# A member that waits in its first join sends no heartbeats: it is given this long instead.
NEW_MEMBER_PATIENCE_MS = 300_000

# About how many bytes of memory a member takes beside what it says, one of its protocols, and an
# id that was given out.
_MEMBER_BYTES: Final = 900
_PROTOCOL_BYTES: Final = 150
PENDING_BYTES: Final = 300


def member_weight(protocols: Protocols, *texts: str | None) -> int:
    """About how many bytes of memory a member takes that says this of itself."""
    told = sum(_PROTOCOL_BYTES + len(name) + len(data) for name, data in protocols)
    return _MEMBER_BYTES + told + sum(len(text) for text in texts if text)


@dataclass(slots=True, kw_only=True)
class Member:
    """One member as the group knows it."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    awaits_join: Token | None = None
    awaits_sync: Token | None = None
    is_new: bool = False
    deadline_ms: int = 0  # when it counts as gone unless it is heard of before

    @property
    def weight(self) -> int:
        texts = (self.id, self.instance_id, self.client_id)
        return member_weight(self.protocols, *texts) + len(self.assignment)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def protocol_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.protocols)

    def metadata(self, protocol: str) -> bytes:
        """The metadata this member sent for the protocol that the group chose."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def heard(self, now_ms: int) -> None:
        """Anything from a member shows that it lives."""
        patience = NEW_MEMBER_PATIENCE_MS if self.is_new else self.session_timeout_ms
        self.deadline_ms = now_ms + patience

    @property
    def is_waiting(self) -> bool:
        return self.awaits_join is not None or self.awaits_sync is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as the leader sees it when it assigns partitions."""

    id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The answer to a JoinGroup."""

    error: ErrorCode = ErrorCode.NONE
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """The answer to a SyncGroup."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class MemberReply:
    """Let go a request that waits."""

    token: Token
    answer: JoinAnswer | SyncAnswer


@dataclass(frozen=True, slots=True)
class Persist:
    """Make the group durable; the group hears `persisted` of this generation afterwards."""

    record: GroupRecord


@dataclass(frozen=True, slots=True)
class Decision:
    """The actions the shell has to take now."""

    replies: tuple[MemberReply, ...] = ()
    persist: Persist | None = None


@dataclass(slots=True)
class Notes:
    """Collects the effects of one event while it is worked on."""

    replies: list[MemberReply] = field(default_factory=list)
    persist: Persist | None = None

    def reply(self, token: Token | None, answer: JoinAnswer | SyncAnswer) -> None:
        if token is not None:
            self.replies.append(MemberReply(token, answer))

    def decision(self) -> Decision:
        return Decision(tuple(self.replies), self.persist)
