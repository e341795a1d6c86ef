"""Keeps the members of a group by id and by instance, its leader, and their common protocols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from klamm.groups.classic.members import Member, Protocols
from klamm.model.errors import ErrorCode


class Roster:
    """The members of one group, in the order of their joining."""

    __slots__ = ("by_id", "leader", "pending", "static")

    def __init__(self) -> None:
        self.by_id: dict[str, Member] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.pending: dict[str, int] = {}  # ids given out, not yet joined -> when they lapse
        self.leader: str | None = None

    def __iter__(self) -> Iterator[Member]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.by_id

    def add(self, member: Member) -> None:
        """A member has come; the first one leads."""
        self.by_id[member.id] = member
        self.pending.pop(member.id, None)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def remove(self, member: Member) -> None:
        """A member has gone; another one leads if it did."""
        self.by_id.pop(member.id, None)
        if member.instance_id is not None and self.static.get(member.instance_id) == member.id:
            del self.static[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.by_id), None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member goes on under another id, and leads on if it led."""
        led = self.leader == member.id
        del self.by_id[member.id]
        member.id = new_id
        self.by_id[new_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = new_id
        if led:
            self.leader = new_id

    def fault(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """The reason why this is not a valid member; None if it is one."""
        if instance_id is not None:
            owner = self.static.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.by_id else ErrorCode.UNKNOWN_MEMBER_ID

    def understands(self, member_id: str, protocols: Protocols) -> bool:
        """Whether this member would have a protocol in common with all the others."""
        common = {name for name, _ in protocols}
        others = (m.protocol_names for m in self if m.id != member_id)
        return bool(common.intersection(*others))

    def chosen_protocol(self) -> str | None:
        """Each member votes for the first of its protocols that all understand; most votes win."""
        names = [member.protocol_names for member in self]
        common = set(names[0]).intersection(*names) if names else set()
        if not common:
            return None
        votes = Counter(next(name for name in mine if name in common) for mine in names)
        return votes.most_common(1)[0][0]

    def elect_joined(self) -> bool:
        """Make sure that the leader is one who has joined; False when nobody has."""
        leader = self.by_id.get(self.leader or "")
        if leader is not None and leader.awaits_join is not None:
            return True
        for member in self:
            if member.awaits_join is not None:
                self.leader = member.id
                return True
        return False

    @property
    def all_joined(self) -> bool:
        return not self.pending and all(m.awaits_join is not None for m in self)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that the slowest member may take."""
        return max((m.rebalance_timeout_ms for m in self), default=0)
