"""Lets members join a classic group, for the first time or again.

A dynamic member first gets an id to come back with (KIP-394). A static one takes the place that its
instance has, and where nothing changed by that the group goes on as if nothing had happened.
"""

from __future__ import annotations

from dataclasses import replace

from klamm.groups.classic.members import JoinAnswer, Member, Notes, Persist, SyncAnswer
from klamm.groups.classic.rebalance import Rebalance
from klamm.groups.classic.requests import GroupState, Join
from klamm.model.errors import ErrorCode


def join(group: Rebalance, request: Join, now_ms: int, notes: Notes) -> None:
    """Answer at once, or when the next generation begins."""
    refused = _join_fault(group, request)
    if refused is not None:
        notes.reply(request.token, JoinAnswer(error=refused, member_id=request.member_id))
    elif request.member_id == "":
        _join_new(group, request, now_ms, notes)
    else:
        _join_known(group, request, now_ms, notes)


def _join_fault(group: Rebalance, request: Join) -> ErrorCode | None:
    limits = group.limits
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not limits.take_session(request.session_timeout_ms):
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if request.member_id == "" or request.member_id in group.members.pending:
        known = request.instance_id in group.members.static if request.instance_id else False
        others = len(group.members.pending) - (request.member_id in group.members.pending)
        size = len(group.members) + others
        if not known and size >= limits.size_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not _understands(group, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def _understands(group: Rebalance, request: Join) -> bool:
    if not request.protocol_type or not request.protocols:
        return False
    if not group.members:
        return True
    if group.protocol_type is not None and request.protocol_type != group.protocol_type:
        return False
    return group.members.understands(request.member_id, request.protocols)


def _join_new(group: Rebalance, request: Join, now_ms: int, notes: Notes) -> None:
    if request.instance_id is not None:
        if request.instance_id in group.members.static:
            _replace_static(group, request, now_ms, notes)
        else:
            _add(group, request, request.fresh_id, now_ms, notes)
    elif request.requires_known_id:
        group.members.pending[request.fresh_id] = now_ms + request.session_timeout_ms
        answer = JoinAnswer(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=request.fresh_id)
        notes.reply(request.token, answer)
    else:
        _add(group, request, request.fresh_id, now_ms, notes)


def _join_known(group: Rebalance, request: Join, now_ms: int, notes: Notes) -> None:
    if (
        request.instance_id is None
        and group.members.pending.pop(request.member_id, None) is not None
    ):
        _add(group, request, request.member_id, now_ms, notes)
        return
    fault = group.members.fault(request.member_id, request.instance_id)
    if fault is not None:
        notes.reply(request.token, JoinAnswer(error=fault, member_id=request.member_id))
        return
    member = group.members.by_id[request.member_id]
    changed = member.protocols != request.protocols
    match group.state:
        case GroupState.PREPARING:
            _rejoin(group, member, request, now_ms, notes)
        case GroupState.COMPLETING if not changed:
            member.heard(now_ms)
            notes.reply(request.token, group.join_answer(member))
        case GroupState.STABLE if not changed and member.id != group.members.leader:
            member.heard(now_ms)
            notes.reply(request.token, group.join_answer(member))
        case GroupState.COMPLETING | GroupState.STABLE:
            _rejoin(group, member, request, now_ms, notes)
        case _:
            answer = JoinAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=member.id)
            notes.reply(request.token, answer)


def _add(group: Rebalance, request: Join, member_id: str, now_ms: int, notes: Notes) -> None:
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
    if not group.members:
        group.protocol_type = request.protocol_type
    group.members.add(member)
    group.grew = True
    group.prepare(now_ms, notes)


def _rejoin(group: Rebalance, member: Member, request: Join, now_ms: int, notes: Notes) -> None:
    # A second join of one member follows a lost connection: nobody reads the first answer.
    stale = JoinAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.id)
    notes.reply(member.awaits_join, stale)
    member.protocols = request.protocols
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.awaits_join = request.token
    member.heard(now_ms)
    group.prepare(now_ms, notes)


def _replace_static(group: Rebalance, request: Join, now_ms: int, notes: Notes) -> None:
    """A static member came back without its id: the old id is fenced, the place is kept."""
    assert request.instance_id is not None
    member = group.members.by_id[group.members.static[request.instance_id]]
    old_id, old_protocols = member.id, member.protocols
    was_leader = group.members.leader == old_id
    fenced = ErrorCode.FENCED_INSTANCE_ID
    notes.reply(member.awaits_join, JoinAnswer(error=fenced, member_id=old_id))
    notes.reply(member.awaits_sync, SyncAnswer(error=fenced))
    member.awaits_join = member.awaits_sync = None
    member.protocols = request.protocols
    member.client_id, member.client_host = request.client_id, request.client_host
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.heard(now_ms)
    group.members.rename(member, request.fresh_id)
    if old_id in group.unsynced:
        group.unsynced.remove(old_id)
        group.unsynced.add(member.id)
    keeps_place = (
        group.state is GroupState.STABLE
        and group.members.chosen_protocol() == group.protocol
        and (
            member.metadata(group.protocol or "")
            == dict(old_protocols).get(group.protocol or "", b"")
        )
    )
    if keeps_place:
        notes.reply(request.token, _static_answer(group, member, old_id, was_leader, request))
        notes.persist = Persist(group.record(now_ms))
    else:
        member.awaits_join = request.token
        group.prepare(now_ms, notes)


def _static_answer(
    group: Rebalance, member: Member, old_id: str, was_leader: bool, request: Join
) -> JoinAnswer:
    """The current generation, without a rebalance.

    An old client must not believe that it leads, or it would assign anew: it is told its
    former id as the leader's. A client of version 9 is told that it leads and need not assign.
    """
    if request.knows_skip_assignment:
        return replace(group.join_answer(member), skip_assignment=was_leader)
    return JoinAnswer(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=old_id if was_leader else (group.members.leader or ""),
        member_id=member.id,
    )
