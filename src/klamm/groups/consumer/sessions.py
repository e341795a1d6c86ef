"""Times out members of a consumer group that are silent or slow.

A member that is not heard of within the session timeout is gone. One that was asked to give
partitions up has its own rebalance timeout to say that it did. Neither is written down: a new
coordinator gives everybody the full time again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from klamm.groups.consumer.state import ConsumerGroup, MemberProgress


@dataclass(slots=True)
class MemberSessions:
    """The deadlines of the members of one group."""

    heard_until_ms: dict[str, int] = field(default_factory=dict)
    # member -> the epoch at which it was asked to let go, and until when
    revoking_until_ms: dict[str, tuple[int, int]] = field(default_factory=dict)

    def heard(self, member_id: str, now_ms: int, timeout_ms: int) -> None:
        """A member lives."""
        self.heard_until_ms[member_id] = now_ms + timeout_ms

    def follow(self, group: ConsumerGroup, now_ms: int, session_timeout_ms: int) -> None:
        """Take note of who is in the group now and who is to let go of something."""
        for member_id in self.heard_until_ms.keys() - group.members.keys():
            del self.heard_until_ms[member_id]
            self.revoking_until_ms.pop(member_id, None)
        for member_id, member in group.members.items():
            self.heard_until_ms.setdefault(member_id, now_ms + session_timeout_ms)
            standing = group.standing(member_id)
            if standing.progress is not MemberProgress.UNREVOKED:
                self.revoking_until_ms.pop(member_id, None)
            elif self.revoking_until_ms.get(member_id, (-1, 0))[0] != standing.epoch:
                until = now_ms + max(member.rebalance_timeout_ms, 0)
                self.revoking_until_ms[member_id] = standing.epoch, until

    def over(self, now_ms: int) -> list[str]:
        """The members whose time is up."""
        silent = {who for who, until in self.heard_until_ms.items() if until <= now_ms}
        slow = {who for who, (_, until) in self.revoking_until_ms.items() if until <= now_ms}
        return sorted(silent | slow)

    def postpone(self, member_ids: Iterable[str], until_ms: int) -> None:
        """These could not be given up now."""
        for member_id in member_ids:
            self.heard_until_ms[member_id] = until_ms
            if member_id in self.revoking_until_ms:
                self.revoking_until_ms[member_id] = self.revoking_until_ms[member_id][0], until_ms

    @property
    def deadline_ms(self) -> int | None:
        """The time at which the next member times out."""
        waits = [*self.heard_until_ms.values(), *(u for _, u in self.revoking_until_ms.values())]
        return min(waits, default=None)
