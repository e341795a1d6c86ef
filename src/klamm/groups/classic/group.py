"""One classic consumer group: what it answers to the requests of its members."""

from __future__ import annotations

from typing import Self

from klamm.groups.classic import joining
from klamm.groups.classic.members import Decision, Member, Notes, Persist, SyncAnswer
from klamm.groups.classic.rebalance import Rebalance
from klamm.groups.classic.records import GroupRecord
from klamm.groups.classic.requests import GroupLimits, GroupState, Join, Sync
from klamm.model.errors import ErrorCode


class Group(Rebalance):
    """A group and its reactions."""

    __slots__ = ()

    def join(self, request: Join, now_ms: int) -> Decision:
        """A member wants in, or in again."""
        notes = Notes()
        joining.join(self, request, now_ms, notes)
        self.maybe_complete_join(now_ms, notes)
        return notes.decision()

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
            self.let_syncs_go(error, now_ms, notes)
            self.prepare(now_ms, notes)
            return notes.decision()
        self.enter(GroupState.STABLE, now_ms)
        for member in self.members:
            if member.awaits_sync is not None:
                member.heard(now_ms)
                notes.reply(member.awaits_sync, self._sync_answer(member))
                member.awaits_sync = None
        return notes.decision()

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
            self.maybe_complete_join(now_ms, notes)
            return ErrorCode.NONE, notes.decision()
        fault = self.members.fault(member_id, instance_id)
        if fault is not None:
            return fault, notes.decision()
        self.remove(self.members.by_id[member_id], now_ms, notes)
        return ErrorCode.NONE, notes.decision()

    # --- who may commit ------------------------------------------------------------------------

    def commit_fault(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> ErrorCode | None:
        """The reason why offsets may not be committed now; None if they may."""
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

    @classmethod
    def restored(cls, record: GroupRecord, limits: GroupLimits, now_ms: int) -> Self:
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
