"""Rebalances a classic group.

A group goes round a circle: a member comes, goes or changes its wishes, so everybody must join
again (PreparingRebalance); when all have joined, or the slowest was given up, a new generation
begins and its leader is asked who gets what (CompletingRebalance); when the leader has said so, and
that is durable, the group is Stable. Joins and syncs that must wait are let go together.

Deadlines are data: `deadline_ms` says when the group wants to hear `tick` next. Nothing here waits.
"""

from __future__ import annotations

from typing import Final

from klamm.groups.classic.members import (
    PENDING_BYTES,
    Decision,
    JoinAnswer,
    JoinedMember,
    Member,
    Notes,
    Persist,
    SyncAnswer,
)
from klamm.groups.classic.records import GroupRecord, MemberRecord
from klamm.groups.classic.requests import GroupLimits, GroupState
from klamm.groups.classic.roster import Roster
from klamm.model.errors import ErrorCode

GROUP_BYTES: Final = 1_400  # about what a group takes without members


class Rebalance:
    """The state of one group, and how it goes round."""

    __slots__ = (
        "_initial_until_ms",
        "_join_deadline_ms",
        "_sync_deadline_ms",
        "generation",
        "grew",
        "id",
        "limits",
        "members",
        "protocol",
        "protocol_type",
        "state",
        "state_time_ms",
        "unsynced",
    )

    def __init__(self, group_id: str, limits: GroupLimits, now_ms: int) -> None:
        self.id = group_id
        self.limits = limits
        self.state = GroupState.EMPTY
        self.state_time_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members = Roster()
        self.unsynced: set[str] = set()  # members of this generation that have not synced yet
        self._join_deadline_ms: int | None = None
        self._sync_deadline_ms: int | None = None
        self._initial_until_ms: int | None = None  # the end of the longest possible initial wait
        self.grew = False  # a member came during the current initial wait

    def prepare(self, now_ms: int, notes: Notes) -> None:
        """Ask everybody to join again, unless that is already under way."""
        if self.state is GroupState.PREPARING:
            if self._initial_until_ms is None:
                self._join_deadline_ms = self._latest_join(now_ms)
            return
        self.let_syncs_go(ErrorCode.REBALANCE_IN_PROGRESS, now_ms, notes)
        self.unsynced.clear()
        self._sync_deadline_ms = None
        was_empty = self.state is GroupState.EMPTY
        self.enter(GroupState.PREPARING, now_ms)
        timeout_ms = self.members.rebalance_timeout_ms
        if was_empty and self.limits.initial_delay_ms > 0:
            # The first members come one after the other: waiting a little saves rebalances.
            self._initial_until_ms = now_ms + timeout_ms
            self._join_deadline_ms = now_ms + min(self.limits.initial_delay_ms, timeout_ms)
            self.grew = False
        else:
            self._initial_until_ms = None
            self._join_deadline_ms = now_ms + timeout_ms

    def let_syncs_go(self, error: ErrorCode, now_ms: int, notes: Notes) -> None:
        """Tell those who wait for their share that there is none.

        Their sessions begin anew. While they waited they could not be heard, and what was left of
        the old ones would have them removed together with the member that they waited for.
        """
        for member in self.members:
            if member.awaits_sync is not None:
                member.heard(now_ms)
                notes.reply(member.awaits_sync, SyncAnswer(error=error))
                member.awaits_sync = None

    def _latest_join(self, now_ms: int) -> int:
        # The clock of a running rebalance is not set back by those who join; it only grows longer
        # for a member that allows itself more time.
        longest = self.members.rebalance_timeout_ms
        return max(self._join_deadline_ms or 0, self.state_time_ms + longest, now_ms)

    def maybe_complete_join(self, now_ms: int, notes: Notes) -> None:
        if self.state is not GroupState.PREPARING or self._initial_until_ms is not None:
            return
        if self.members.all_joined:
            self._complete_join(now_ms, notes)

    def _complete_join(self, now_ms: int, notes: Notes) -> None:
        """Begin the next generation with those who came."""
        for member in [m for m in self.members if m.awaits_join is None]:
            if not member.is_static:
                self._forget(member)
        self._initial_until_ms = self._join_deadline_ms = None
        if not self.members:
            self._become_empty(now_ms, notes)
            return
        if not self.members.elect_joined():
            # Only static members are left and none of them came: they keep their places until
            # their sessions end.
            longest = self.members.rebalance_timeout_ms
            self._join_deadline_ms = now_ms + longest
            return
        self.generation += 1
        self.protocol = self.members.chosen_protocol()
        self.enter(GroupState.COMPLETING, now_ms)
        # A static member that did not come keeps its place, on the time its session has left.
        came = [m for m in self.members if m.awaits_join is not None]
        self.unsynced = {m.id for m in came}
        longest = self.members.rebalance_timeout_ms
        self._sync_deadline_ms = now_ms + longest
        for member in came:
            member.is_new = False
            member.heard(now_ms)
            notes.reply(member.awaits_join, self.join_answer(member))
            member.awaits_join = None

    def join_answer(self, member: Member) -> JoinAnswer:
        leads = member.id == self.members.leader
        protocol = self.protocol or ""
        told = tuple(
            JoinedMember(id=m.id, instance_id=m.instance_id, metadata=m.metadata(protocol))
            for m in self.members
            if leads
        )
        return JoinAnswer(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.members.leader or "",
            member_id=member.id,
            members=told,
        )

    # --- time, and departures ------------------------------------------------------------------

    def tick(self, now_ms: int) -> Decision:
        """Time has passed: sessions end, waits are over."""
        notes = Notes()
        for member_id, lapses in list(self.members.pending.items()):
            if lapses <= now_ms:
                del self.members.pending[member_id]
                self.maybe_complete_join(now_ms, notes)
        for member in list(self.members):
            alive = member.deadline_ms > now_ms or (member.is_waiting and not member.is_new)
            if not alive and member.id in self.members:
                self.remove(member, now_ms, notes)
        if self._join_deadline_ms is not None and self._join_deadline_ms <= now_ms:
            self._end_of_wait(now_ms, notes)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._sync_deadline_ms = None
            for member_id in list(self.unsynced):
                if member_id in self.members:
                    self.remove(self.members.by_id[member_id], now_ms, notes)
        return notes.decision()

    def _end_of_wait(self, now_ms: int, notes: Notes) -> None:
        until = self._initial_until_ms
        if until is not None and self.grew and until > now_ms:
            self.grew = False
            delay_ms = min(self.limits.initial_delay_ms, until - now_ms)
            self._join_deadline_ms = now_ms + delay_ms
            return
        self._initial_until_ms = None
        if self.state is GroupState.PREPARING:
            self._complete_join(now_ms, notes)

    @property
    def deadline_ms(self) -> int | None:
        """The time at which the group wants to be woken next."""
        waits = [t for t in (self._join_deadline_ms, self._sync_deadline_ms) if t is not None]
        waits += self.members.pending.values()
        waits += (m.deadline_ms for m in self.members if not m.is_waiting or m.is_new)
        return min(waits, default=None)

    def remove(self, member: Member, now_ms: int, notes: Notes) -> None:
        gone = ErrorCode.UNKNOWN_MEMBER_ID
        notes.reply(member.awaits_join, JoinAnswer(error=gone, member_id=member.id))
        notes.reply(member.awaits_sync, SyncAnswer(error=gone))
        self._forget(member)
        match self.state:
            case GroupState.STABLE | GroupState.COMPLETING:
                self.prepare(now_ms, notes)
                self.maybe_complete_join(now_ms, notes)
            case GroupState.PREPARING:
                self.maybe_complete_join(now_ms, notes)

    def _forget(self, member: Member) -> None:
        self.members.remove(member)
        self.unsynced.discard(member.id)

    def _become_empty(self, now_ms: int, notes: Notes) -> None:
        self.generation += 1
        self.protocol = self.members.leader = None
        self.unsynced.clear()
        self._sync_deadline_ms = None
        self.enter(GroupState.EMPTY, now_ms)
        notes.persist = Persist(self.record(now_ms))

    def enter(self, state: GroupState, now_ms: int) -> None:
        self.state = state
        self.state_time_ms = now_ms

    @property
    def weight(self) -> int:
        """About how many bytes of memory the group takes."""
        pending = len(self.members.pending) * PENDING_BYTES
        return GROUP_BYTES + len(self.id) + pending + sum(m.weight for m in self.members)

    # --- as it is written down -----------------------------------------------------------------

    def record(self, now_ms: int) -> GroupRecord:
        """The group as it is written down."""
        protocol = self.protocol or ""
        return GroupRecord(
            group=self.id,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.members.leader,
            state_time_ms=now_ms,
            members=tuple(
                MemberRecord(
                    id=m.id,
                    instance_id=m.instance_id,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    rebalance_timeout_ms=m.rebalance_timeout_ms,
                    session_timeout_ms=m.session_timeout_ms,
                    subscription=m.metadata(protocol),
                    assignment=m.assignment,
                )
                for m in self.members
            ),
        )
