"""One classic consumer group.

A group goes round a circle: a member comes, goes or changes its wishes, so everybody must join
again (PreparingRebalance); when all have joined, or the slowest was given up, a new generation
begins and its leader is asked who gets what (CompletingRebalance); when the leader has said so, and
that is durable, the group is Stable. Joins and syncs that must wait are let go together.

Deadlines are data: `deadline_ms` says when the group wants to hear `tick` next. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from klamm.groups.members import (
    Decision,
    GroupRecord,
    JoinAnswer,
    JoinedMember,
    Member,
    MemberRecord,
    Notes,
    Persist,
    Protocols,
    SyncAnswer,
    Token,
)
from klamm.groups.roster import Roster
from klamm.model.errors import ErrorCode


class GroupState(StrEnum):
    """The names are those that clients are shown."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The broker's settings for groups."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    size_max: int = 2**31 - 1
    initial_delay_ms: int = 3_000


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


class Group:
    """The state of one group and its reactions."""

    __slots__ = (
        "_grew",
        "_initial_until_ms",
        "_join_deadline_ms",
        "_sync_deadline_ms",
        "generation",
        "id",
        "limits",
        "members",
        "protocol",
        "protocol_type",
        "state",
        "state_time_ms",
        "unsynced",
    )

    def __init__(self, group_id: str, limits: Limits, now_ms: int) -> None:
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
        self._grew = False  # a member came during the current initial wait

    # --- joining -------------------------------------------------------------------------------

    def join(self, request: Join, now_ms: int) -> Decision:
        """A member wants in, or in again."""
        notes = Notes()
        refused = self._join_fault(request)
        if refused is not None:
            notes.reply(request.token, JoinAnswer(error=refused, member_id=request.member_id))
        elif request.member_id == "":
            self._join_new(request, now_ms, notes)
        else:
            self._join_known(request, now_ms, notes)
        self._maybe_complete_join(now_ms, notes)
        return notes.decision()

    def _join_fault(self, request: Join) -> ErrorCode | None:
        limits = self.limits
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not (
            limits.session_timeout_ms_min
            <= request.session_timeout_ms
            <= limits.session_timeout_ms_max
        ):
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.member_id == "" or request.member_id in self.members.pending:
            known = request.instance_id in self.members.static if request.instance_id else False
            size = len(self.members) + len(self.members.pending.keys() - {request.member_id})
            if not known and size >= limits.size_max:
                return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not self._understands(request):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return None

    def _understands(self, request: Join) -> bool:
        if not request.protocol_type or not request.protocols:
            return False
        if not self.members:
            return True
        if self.protocol_type is not None and request.protocol_type != self.protocol_type:
            return False
        return self.members.understands(request.member_id, request.protocols)

    def _join_new(self, request: Join, now_ms: int, notes: Notes) -> None:
        if request.instance_id is not None:
            if request.instance_id in self.members.static:
                self._replace_static(request, now_ms, notes)
            else:
                self._add(request, request.fresh_id, now_ms, notes)
        elif request.requires_known_id:
            self.members.pending[request.fresh_id] = now_ms + request.session_timeout_ms
            answer = JoinAnswer(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=request.fresh_id)
            notes.reply(request.token, answer)
        else:
            self._add(request, request.fresh_id, now_ms, notes)

    def _join_known(self, request: Join, now_ms: int, notes: Notes) -> None:
        if (
            request.instance_id is None
            and self.members.pending.pop(request.member_id, None) is not None
        ):
            self._add(request, request.member_id, now_ms, notes)
            return
        fault = self.members.fault(request.member_id, request.instance_id)
        if fault is not None:
            notes.reply(request.token, JoinAnswer(error=fault, member_id=request.member_id))
            return
        member = self.members.by_id[request.member_id]
        changed = member.protocols != request.protocols
        match self.state:
            case GroupState.PREPARING:
                self._rejoin(member, request, now_ms, notes)
            case GroupState.COMPLETING if not changed:
                member.heard(now_ms)
                notes.reply(request.token, self._join_answer(member))
            case GroupState.STABLE if not changed and member.id != self.members.leader:
                member.heard(now_ms)
                notes.reply(request.token, self._join_answer(member))
            case GroupState.COMPLETING | GroupState.STABLE:
                self._rejoin(member, request, now_ms, notes)
            case _:
                answer = JoinAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=member.id)
                notes.reply(request.token, answer)

    def _add(self, request: Join, member_id: str, now_ms: int, notes: Notes) -> None:
        member = Member(
            id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            awaits_join=request.token,
            is_new=True,
        )
        member.heard(now_ms)
        if not self.members:
            self.protocol_type = request.protocol_type
        self.members.add(member)
        self._grew = True
        self._prepare(now_ms, notes)

    def _rejoin(self, member: Member, request: Join, now_ms: int, notes: Notes) -> None:
        # A second join of one member follows a lost connection: nobody reads the first answer.
        stale = JoinAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.id)
        notes.reply(member.awaits_join, stale)
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.awaits_join = request.token
        member.heard(now_ms)
        self._prepare(now_ms, notes)

    def _replace_static(self, request: Join, now_ms: int, notes: Notes) -> None:
        """A static member came back without its id: the old id is fenced, the place is kept."""
        assert request.instance_id is not None
        member = self.members.by_id[self.members.static[request.instance_id]]
        old_id, old_protocols = member.id, member.protocols
        was_leader = self.members.leader == old_id
        fenced = ErrorCode.FENCED_INSTANCE_ID
        notes.reply(member.awaits_join, JoinAnswer(error=fenced, member_id=old_id))
        notes.reply(member.awaits_sync, SyncAnswer(error=fenced))
        member.awaits_join = member.awaits_sync = None
        member.protocols = request.protocols
        member.client_id, member.client_host = request.client_id, request.client_host
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.heard(now_ms)
        self.members.rename(member, request.fresh_id)
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(member.id)
        keeps_place = (
            self.state is GroupState.STABLE
            and self.members.chosen_protocol() == self.protocol
            and (
                member.metadata(self.protocol or "")
                == dict(old_protocols).get(self.protocol or "", b"")
            )
        )
        if keeps_place:
            notes.reply(request.token, self._static_answer(member, old_id, was_leader, request))
            notes.persist = Persist(self.record(now_ms))
        else:
            member.awaits_join = request.token
            self._prepare(now_ms, notes)

    def _static_answer(
        self, member: Member, old_id: str, was_leader: bool, request: Join
    ) -> JoinAnswer:
        """The current generation, without a rebalance.

        An old client must not believe that it leads, or it would assign anew: it is told its
        former id as the leader's. A client of version 9 is told that it leads and need not assign.
        """
        if request.knows_skip_assignment:
            full = self._join_answer(member)
            return JoinAnswer(
                generation=full.generation,
                protocol_type=full.protocol_type,
                protocol=full.protocol,
                leader=full.leader,
                member_id=full.member_id,
                members=full.members,
                skip_assignment=was_leader,
            )
        return JoinAnswer(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=old_id if was_leader else (self.members.leader or ""),
            member_id=member.id,
        )

    # --- the rebalance -------------------------------------------------------------------------

    def _prepare(self, now_ms: int, notes: Notes) -> None:
        """Ask everybody to join again, unless that is already under way."""
        if self.state is GroupState.PREPARING:
            if self._initial_until_ms is None:
                self._join_deadline_ms = self._latest_join(now_ms)
            return
        again = SyncAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS)
        for member in self.members:
            notes.reply(member.awaits_sync, again)
            member.awaits_sync = None
        self.unsynced.clear()
        self._sync_deadline_ms = None
        was_empty = self.state is GroupState.EMPTY
        self._enter(GroupState.PREPARING, now_ms)
        timeout_ms = self.members.rebalance_timeout_ms
        if was_empty and self.limits.initial_delay_ms > 0:
            # The first members come one after the other: waiting a little saves rebalances.
            self._initial_until_ms = now_ms + timeout_ms
            self._join_deadline_ms = now_ms + min(self.limits.initial_delay_ms, timeout_ms)
            self._grew = False
        else:
            self._initial_until_ms = None
            self._join_deadline_ms = now_ms + timeout_ms

    def _latest_join(self, now_ms: int) -> int:
        # The clock of a running rebalance is not set back by those who join; it only grows longer
        # for a member that allows itself more time.
        longest = self.members.rebalance_timeout_ms
        return max(self._join_deadline_ms or 0, self.state_time_ms + longest, now_ms)

    def _maybe_complete_join(self, now_ms: int, notes: Notes) -> None:
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
        self._enter(GroupState.COMPLETING, now_ms)
        # A static member that did not come keeps its place, on the time its session has left.
        came = [m for m in self.members if m.awaits_join is not None]
        self.unsynced = {m.id for m in came}
        longest = self.members.rebalance_timeout_ms
        self._sync_deadline_ms = now_ms + longest
        for member in came:
            member.is_new = False
            member.heard(now_ms)
            notes.reply(member.awaits_join, self._join_answer(member))
            member.awaits_join = None

    def _join_answer(self, member: Member) -> JoinAnswer:
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

    # --- syncing -------------------------------------------------------------------------------

    def sync(self, request: Sync, now_ms: int) -> Decision:
        """A member asks for its share; the leader brings everybody's."""
        notes = Notes()
        fault = self._sync_fault(request)
        if fault is not None:
            notes.reply(request.token, SyncAnswer(error=fault))
            return notes.decision()
        member = self.members.by_id[request.member_id]
        member.heard(now_ms)
        self.unsynced.discard(member.id)
        if self.state is GroupState.STABLE:
            notes.reply(request.token, self._sync_answer(member))
            return notes.decision()
        again = SyncAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS)
        notes.reply(member.awaits_sync, again)
        member.awaits_sync = request.token
        if member.id == self.members.leader:
            for each in self.members:
                each.assignment = request.assignments.get(each.id, b"")
            notes.persist = Persist(self.record(now_ms))
        return notes.decision()

    def _sync_fault(self, request: Sync) -> ErrorCode | None:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        fault = self.members.fault(request.member_id, request.instance_id)
        if fault is not None:
            return fault
        if request.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type is not None and request.protocol_type != self.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol is not None and request.protocol != self.protocol:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.state is GroupState.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if self.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None

    def _sync_answer(self, member: Member) -> SyncAnswer:
        return SyncAnswer(
            protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment
        )

    def persisted(self, generation: int, error: ErrorCode, now_ms: int) -> Decision:
        """The record of a generation is durable, or could not be written."""
        notes = Notes()
        if generation != self.generation or self.state is not GroupState.COMPLETING:
            return notes.decision()
        if error is not ErrorCode.NONE:
            for member in self.members:
                member.assignment = b""
                notes.reply(member.awaits_sync, SyncAnswer(error=error))
                member.awaits_sync = None
            self._prepare(now_ms, notes)
            return notes.decision()
        self._enter(GroupState.STABLE, now_ms)
        for member in self.members:
            if member.awaits_sync is not None:
                member.heard(now_ms)
                notes.reply(member.awaits_sync, self._sync_answer(member))
                member.awaits_sync = None
        return notes.decision()

    # --- staying and leaving -------------------------------------------------------------------

    def heartbeat(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> ErrorCode:
        """A member says that it lives and hears whether it must join again."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        fault = self.members.fault(member_id, instance_id)
        if fault is not None:
            return fault
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.members.by_id[member_id].heard(now_ms)
        if self.state is GroupState.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(
        self, member_id: str, instance_id: str | None, now_ms: int
    ) -> tuple[ErrorCode, Decision]:
        """One member goes. A static one may be named by its instance alone."""
        notes = Notes()
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, notes.decision()
        if instance_id is not None and member_id == "":
            member_id = self.members.static.get(instance_id, "")
        elif instance_id is None and self.members.pending.pop(member_id, None) is not None:
            self._maybe_complete_join(now_ms, notes)
            return ErrorCode.NONE, notes.decision()
        fault = self.members.fault(member_id, instance_id)
        if fault is not None:
            return fault, notes.decision()
        self._remove(self.members.by_id[member_id], now_ms, notes)
        return ErrorCode.NONE, notes.decision()

    def tick(self, now_ms: int) -> Decision:
        """Time has passed: sessions end, waits are over."""
        notes = Notes()
        for member_id, lapses in list(self.members.pending.items()):
            if lapses <= now_ms:
                del self.members.pending[member_id]
                self._maybe_complete_join(now_ms, notes)
        for member in list(self.members):
            alive = member.deadline_ms > now_ms or (member.is_waiting and not member.is_new)
            if not alive and member.id in self.members:
                self._remove(member, now_ms, notes)
        if self._join_deadline_ms is not None and self._join_deadline_ms <= now_ms:
            self._end_of_wait(now_ms, notes)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._sync_deadline_ms = None
            for member_id in list(self.unsynced):
                if member_id in self.members:
                    self._remove(self.members.by_id[member_id], now_ms, notes)
        return notes.decision()

    def _end_of_wait(self, now_ms: int, notes: Notes) -> None:
        until = self._initial_until_ms
        if until is not None and self._grew and until > now_ms:
            self._grew = False
            delay_ms = min(self.limits.initial_delay_ms, until - now_ms)
            self._join_deadline_ms = now_ms + delay_ms
            return
        self._initial_until_ms = None
        if self.state is GroupState.PREPARING:
            self._complete_join(now_ms, notes)

    @property
    def deadline_ms(self) -> int | None:
        """When the group next wants to hear of the time."""
        waits = [t for t in (self._join_deadline_ms, self._sync_deadline_ms) if t is not None]
        waits += self.members.pending.values()
        waits += (m.deadline_ms for m in self.members if not m.is_waiting or m.is_new)
        return min(waits, default=None)

    def _remove(self, member: Member, now_ms: int, notes: Notes) -> None:
        gone = ErrorCode.UNKNOWN_MEMBER_ID
        notes.reply(member.awaits_join, JoinAnswer(error=gone, member_id=member.id))
        notes.reply(member.awaits_sync, SyncAnswer(error=gone))
        self._forget(member)
        match self.state:
            case GroupState.STABLE | GroupState.COMPLETING:
                self._prepare(now_ms, notes)
                self._maybe_complete_join(now_ms, notes)
            case GroupState.PREPARING:
                self._maybe_complete_join(now_ms, notes)

    def _forget(self, member: Member) -> None:
        self.members.remove(member)
        self.unsynced.discard(member.id)

    def _become_empty(self, now_ms: int, notes: Notes) -> None:
        self.generation += 1
        self.protocol = self.members.leader = None
        self.unsynced.clear()
        self._sync_deadline_ms = None
        self._enter(GroupState.EMPTY, now_ms)
        notes.persist = Persist(self.record(now_ms))

    def _enter(self, state: GroupState, now_ms: int) -> None:
        self.state = state
        self.state_time_ms = now_ms

    # --- offsets and records -------------------------------------------------------------------

    def commit_fault(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> ErrorCode | None:
        """Why offsets may not be committed now; None when they may."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and not self.members:
            return None  # a consumer that assigns itself and only keeps its offsets here
        fault = self.members.fault(member_id, instance_id)
        if fault is not None:
            return fault
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is GroupState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self.members.by_id[member_id].heard(now_ms)
        return None

    def txn_commit_fault(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode | None:
        """The same for offsets inside a transaction, where old clients name no member at all."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and member_id == "":
            return None
        if (fault := self.members.fault(member_id, instance_id)) is not None:
            return fault
        return ErrorCode.ILLEGAL_GENERATION if generation != self.generation else None

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

    @classmethod
    def restored(cls, record: GroupRecord, limits: Limits, now_ms: int) -> Group:
        """A group as a new coordinator finds it: its members are given one session to be heard."""
        group = cls(record.group, limits, now_ms)
        group.generation = record.generation
        group.protocol_type = record.protocol_type or None
        group.protocol = record.protocol
        group.state = GroupState.STABLE if record.members else GroupState.EMPTY
        group.state_time_ms = record.state_time_ms if record.state_time_ms >= 0 else now_ms
        for each in record.members:
            member = Member(
                id=each.id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                session_timeout_ms=each.session_timeout_ms,
                protocols=((record.protocol or "", each.subscription),),
                assignment=each.assignment,
            )
            member.heard(now_ms)
            group.members.add(member)
        group.members.leader = record.leader
        return group
