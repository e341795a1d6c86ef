"""The life of a classic group, event by event."""

from __future__ import annotations

from itertools import count

import pytest

from klamm.groups.classic.group import Group
from klamm.groups.classic.members import Decision, JoinAnswer, SyncAnswer
from klamm.groups.classic.requests import GroupLimits, GroupState, Join, Sync
from klamm.model.errors import ErrorCode

NO_DELAY = GroupLimits(initial_delay_ms=0)
_tokens = count(1)


def join(member_id: str = "", **changes: object) -> Join:
    token = next(_tokens)
    fields: dict[str, object] = {
        "token": token,
        "member_id": member_id,
        "fresh_id": f"m{token}",
        "instance_id": None,
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": (("range", b"topics"),),
        "requires_known_id": False,
        "knows_skip_assignment": True,
    }
    return Join(**{**fields, **changes})  # type: ignore[arg-type]


def sync(member_id: str, generation: int, **changes: object) -> Sync:
    fields: dict[str, object] = {
        "token": next(_tokens),
        "member_id": member_id,
        "instance_id": None,
        "generation": generation,
        "protocol_type": None,
        "protocol": None,
        "assignments": {},
    }
    return Sync(**{**fields, **changes})  # type: ignore[arg-type]


def answers(decision: Decision) -> list[JoinAnswer | SyncAnswer]:
    return [reply.answer for reply in decision.replies]


def joined(decision: Decision) -> JoinAnswer:
    (answer,) = answers(decision)
    assert isinstance(answer, JoinAnswer)
    return answer


def stable_group(members: int = 1, **changes: object) -> tuple[Group, list[str]]:
    """A group whose members have all joined and synced at time 0."""
    group = Group("g", NO_DELAY, 0)
    ids: list[str] = []
    for _ in range(members):
        asked = join(**changes)
        first = group.join(asked, 0)
        ids.append(asked.fresh_id)
        for member_id in ids[:-1]:
            last = group.join(join(member_id, **changes), 0)
        if len(ids) > 1:
            first = last
        assert first.replies, "the rebalance should be complete"
    group.sync(
        sync(
            group.members.leader or "", group.generation, assignments={i: i.encode() for i in ids}
        ),
        0,
    )
    group.persisted(group.generation, ErrorCode.NONE, 0)
    assert group.state is GroupState.STABLE
    return group, ids


def test_first_member_leads_the_first_generation() -> None:
    group = Group("g", NO_DELAY, 0)
    asked = join()
    answer = joined(group.join(asked, 0))
    assert answer.error is ErrorCode.NONE
    assert (answer.generation, answer.leader, answer.member_id) == (
        1,
        asked.fresh_id,
        asked.fresh_id,
    )
    assert [m.metadata for m in answer.members] == [b"topics"]
    assert group.state is GroupState.COMPLETING


def test_first_generation_waits_for_more_members_and_longer_while_they_come() -> None:
    group = Group("g", GroupLimits(initial_delay_ms=3_000), 0)
    assert group.join(join(), 0).replies == ()
    assert group.deadline_ms == 3_000
    assert group.join(join(), 2_000).replies == ()
    assert group.tick(3_000).replies == ()
    assert group.deadline_ms == 6_000
    assert len(group.tick(6_000).replies) == 2
    assert group.state is GroupState.COMPLETING


def test_initial_wait_never_exceeds_the_rebalance_timeout() -> None:
    group = Group("g", GroupLimits(initial_delay_ms=3_000), 0)
    group.join(join(rebalance_timeout_ms=4_000), 0)
    group.join(join(rebalance_timeout_ms=4_000), 2_900)
    group.tick(3_000)
    assert len(group.tick(4_000).replies) == 2


def test_new_member_of_version_4_is_given_an_id_to_come_back_with() -> None:
    group = Group("g", NO_DELAY, 0)
    asked = join(requires_known_id=True)
    answer = joined(group.join(asked, 0))
    assert (answer.error, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, asked.fresh_id)
    answer = joined(group.join(join(asked.fresh_id, requires_known_id=True), 1))
    assert (answer.error, answer.generation) == (ErrorCode.NONE, 1)


def test_given_id_lapses_with_its_session_timeout() -> None:
    group = Group("g", NO_DELAY, 0)
    asked = join(requires_known_id=True)
    group.join(asked, 0)
    group.tick(10_000)
    answer = joined(group.join(join(asked.fresh_id), 10_001))
    assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("sticky", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "m", "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_join_that_cannot_be_is_refused(changes: dict[str, object], error: ErrorCode) -> None:
    group, _ = stable_group()
    assert joined(group.join(join(**changes), 1)).error is error
    assert group.state is GroupState.STABLE


def test_full_group_refuses_one_more() -> None:
    group = Group("g", GroupLimits(initial_delay_ms=0, size_max=1), 0)
    group.join(join(), 0)
    assert joined(group.join(join(), 0)).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_second_member_makes_everybody_join_again() -> None:
    group, (first,) = stable_group()
    assert group.join(join(), 5).replies == ()
    assert group.heartbeat(first, None, 1, 6) is ErrorCode.REBALANCE_IN_PROGRESS
    decision = group.join(join(first), 7)
    assert len(decision.replies) == 2
    told = [a for a in answers(decision) if isinstance(a, JoinAnswer)]
    assert {a.generation for a in told} == {2}
    assert [len(a.members) for a in told if a.leader == a.member_id] == [2]
    assert [len(a.members) for a in told if a.leader != a.member_id] == [0]


def test_protocol_with_most_votes_wins() -> None:
    group = Group("g", GroupLimits(initial_delay_ms=100), 0)
    both = (("range", b"r"), ("sticky", b"s"))
    turned = (("sticky", b"s"), ("range", b"r"))
    for protocols in (both, turned, turned):
        group.join(join(protocols=protocols), 0)
    group.tick(100)
    group.tick(200)
    assert group.protocol == "sticky"


def test_unchanged_follower_that_joins_again_keeps_its_generation() -> None:
    group, ids = stable_group(2)
    follower = next(i for i in ids if i != group.members.leader)
    answer = joined(group.join(join(follower), 5))
    assert (answer.error, answer.generation) == (ErrorCode.NONE, group.generation)
    assert group.state is GroupState.STABLE


def test_leader_that_joins_again_starts_a_rebalance() -> None:
    group, _ = stable_group(2)
    group.join(join(group.members.leader or ""), 5)
    assert group.state is GroupState.PREPARING


def test_member_that_does_not_join_again_in_time_is_left_out() -> None:
    group, ids = stable_group(2)
    group.join(join(group.members.leader or ""), 5)
    for late in ids:
        group.heartbeat(late, None, group.generation, 55_000)
    decision = group.tick(60_005)
    assert len(decision.replies) == 1
    assert list(group.members.by_id) == [group.members.leader]


def test_assignments_are_answered_only_when_they_are_durable() -> None:
    group, ids = stable_group(2)
    group.join(join(group.members.leader or ""), 5)
    follower = next(i for i in ids if i != group.members.leader)
    group.join(join(follower), 5)
    generation, leader = group.generation, group.members.leader or ""
    assert group.sync(sync(follower, generation), 6).replies == ()
    decision = group.sync(sync(leader, generation, assignments={follower: b"half"}), 6)
    assert decision.replies == ()
    assert decision.persist is not None
    assert {m.id: m.assignment for m in decision.persist.record.members} == {
        leader: b"",
        follower: b"half",
    }
    decision = group.persisted(generation, ErrorCode.NONE, 7)
    got = sorted(a.assignment for a in answers(decision) if isinstance(a, SyncAnswer))
    assert got == [b"", b"half"]
    assert group.state is GroupState.STABLE


def test_assignment_that_cannot_be_written_starts_again() -> None:
    group = Group("g", NO_DELAY, 0)
    asked = join()
    group.join(asked, 0)
    group.sync(sync(asked.fresh_id, 1, assignments={asked.fresh_id: b"x"}), 1)
    decision = group.persisted(1, ErrorCode.NOT_COORDINATOR, 2)
    assert [a.error for a in answers(decision)] == [ErrorCode.NOT_COORDINATOR]
    assert group.state is GroupState.PREPARING


def test_answer_of_a_former_generation_is_ignored() -> None:
    group, _ = stable_group()
    assert group.persisted(0, ErrorCode.NOT_COORDINATOR, 2) == Decision()
    assert group.state is GroupState.STABLE


def test_sync_is_refused_while_members_still_join() -> None:
    group, (first,) = stable_group()
    group.join(join(), 5)
    decision = group.sync(sync(first, 1), 6)
    assert [a.error for a in answers(decision)] == [ErrorCode.REBALANCE_IN_PROGRESS]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_wrong_sync_is_refused(changes: dict[str, object], error: ErrorCode) -> None:
    group, (first,) = stable_group()
    fields = {"member_id": first, "generation": 1, **changes}
    decision = group.sync(sync(**fields), 1)  # type: ignore[arg-type]
    assert [a.error for a in answers(decision)] == [error]


def test_stable_group_answers_a_sync_at_once() -> None:
    group, (first,) = stable_group()
    (answer,) = answers(group.sync(sync(first, 1), 1))
    assert isinstance(answer, SyncAnswer)
    assert answer.assignment == first.encode()


def test_member_that_never_syncs_is_removed_and_the_rest_goes_on() -> None:
    group, ids = stable_group(2)
    group.join(join(group.members.leader or ""), 5)
    follower = next(i for i in ids if i != group.members.leader)
    group.join(join(follower), 5)
    generation, leader = group.generation, group.members.leader or ""
    group.sync(sync(leader, generation), 6)
    group.persisted(generation, ErrorCode.NONE, 7)
    for now in range(5_000, 60_000, 5_000):
        for member in ids:
            group.heartbeat(member, None, generation, now)
    group.tick(60_005)
    assert list(group.members.by_id) == [leader]
    assert group.state is GroupState.PREPARING


def test_follower_that_waits_for_its_share_outlives_a_leader_that_never_brings_it() -> None:
    group = Group("g", NO_DELAY, 0)
    leader, follower = join(), join()
    group.join(leader, 0)
    group.join(follower, 0)
    group.join(join(leader.fresh_id), 0)
    asked = sync(follower.fresh_id, 2)
    assert group.sync(asked, 1).replies == ()
    # Both sessions have run out by now, and the follower could not be heard while it waited.
    decision = group.tick(10_005)
    assert [(r.token, r.answer.error) for r in decision.replies] == [
        (asked.token, ErrorCode.REBALANCE_IN_PROGRESS)
    ]
    assert list(group.members.by_id) == [follower.fresh_id]
    assert group.state is GroupState.PREPARING
    again = joined(group.join(join(follower.fresh_id), 12_000))
    assert (again.error, again.leader) == (ErrorCode.NONE, follower.fresh_id)


def test_follower_outlives_an_assignment_that_takes_longer_than_its_session_to_fail() -> None:
    group = Group("g", NO_DELAY, 0)
    leader, follower = join(), join()
    group.join(leader, 0)
    group.join(follower, 0)
    group.join(join(leader.fresh_id), 0)
    group.sync(sync(follower.fresh_id, 2), 1)
    group.sync(sync(leader.fresh_id, 2), 1)
    group.persisted(2, ErrorCode.COORDINATOR_NOT_AVAILABLE, 15_000)
    group.tick(15_001)
    assert set(group.members.by_id) == {leader.fresh_id, follower.fresh_id}


def test_silent_member_is_removed_when_its_session_ends() -> None:
    group, ids = stable_group(2)
    group.heartbeat(ids[0], None, group.generation, 9_000)
    assert group.deadline_ms == 10_000
    group.tick(10_000)
    assert list(group.members.by_id) == [ids[0]]
    assert group.state is GroupState.PREPARING


def test_waiting_member_does_not_expire() -> None:
    group, ids = stable_group(2)
    group.join(join(ids[0]), 5)
    if group.state is GroupState.STABLE:
        group.join(join(ids[1]), 5)
        ids.reverse()
    group.heartbeat(ids[1], None, group.generation, 9_000)
    group.tick(10_006)
    assert ids[0] in group.members


def test_last_member_that_leaves_makes_the_group_empty() -> None:
    group, (first,) = stable_group()
    error, decision = group.leave(first, None, 5)
    assert error is ErrorCode.NONE
    assert group.state is GroupState.EMPTY
    assert decision.persist is not None
    assert decision.persist.record.members == ()
    assert group.generation == 2


def test_leaving_of_a_stranger_is_refused() -> None:
    group, _ = stable_group()
    assert group.leave("x", None, 1)[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_leaves_while_it_waits_is_answered() -> None:
    group, (first,) = stable_group()
    asked = join()
    group.join(asked, 5)
    error, decision = group.leave(asked.fresh_id, None, 6)
    assert error is ErrorCode.NONE
    assert joined(decision).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert first in group.members


class TestStaticMembers:
    def test_comes_back_to_its_place_without_a_rebalance(self) -> None:
        group, ids = stable_group(1, instance_id="i")
        asked = join(instance_id="i")
        decision = group.join(asked, 5)
        answer = joined(decision)
        assert answer.error is ErrorCode.NONE
        assert answer.generation == 1
        assert answer.skip_assignment
        assert answer.leader == asked.fresh_id
        assert decision.persist is not None
        assert group.state is GroupState.STABLE
        (got,) = answers(group.sync(sync(asked.fresh_id, 1, instance_id="i"), 6))
        assert isinstance(got, SyncAnswer)
        assert got.assignment == ids[0].encode()

    def test_old_client_is_not_told_that_it_leads(self) -> None:
        group, ids = stable_group(1, instance_id="i")
        answer = joined(group.join(join(instance_id="i", knows_skip_assignment=False), 5))
        assert answer.leader == ids[0]
        assert answer.members == ()
        assert not answer.skip_assignment

    def test_old_id_is_fenced(self) -> None:
        group, ids = stable_group(1, instance_id="i")
        group.join(join(instance_id="i"), 5)
        assert group.heartbeat(ids[0], "i", 1, 6) is ErrorCode.FENCED_INSTANCE_ID

    def test_other_wishes_start_a_rebalance(self) -> None:
        group, _ = stable_group(1, instance_id="i")
        decision = group.join(join(instance_id="i", protocols=(("range", b"other"),)), 5)
        assert joined(decision).generation == 2

    def test_leaves_by_its_instance_alone(self) -> None:
        group, _ = stable_group(1, instance_id="i")
        assert group.leave("", "i", 5)[0] is ErrorCode.NONE
        assert group.state is GroupState.EMPTY

    def test_that_misses_a_rebalance_keeps_its_place_until_its_session_ends(self) -> None:
        group, ids = stable_group(1, instance_id="i", session_timeout_ms=100_000)
        group.join(join(), 1)
        group.tick(60_001)
        assert ids[0] in group.members
        assert group.state is GroupState.COMPLETING
        group.tick(100_000)
        assert ids[0] not in group.members


class TestCommits:
    def test_consumer_that_assigns_itself_may_commit_to_an_empty_group(self) -> None:
        assert Group("g", NO_DELAY, 0).commit_fault("", None, -1, 0) is None

    @pytest.mark.parametrize(
        ("member", "generation", "error"),
        [
            ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
            ("x", 1, ErrorCode.UNKNOWN_MEMBER_ID),
            (None, 0, ErrorCode.ILLEGAL_GENERATION),
            (None, 1, None),
        ],
    )
    def test_members_commit_in_their_generation(
        self, member: str | None, generation: int, error: ErrorCode | None
    ) -> None:
        group, (first,) = stable_group()
        named = first if member is None else member
        assert group.commit_fault(named, None, generation, 1) is error

    def test_nobody_commits_between_join_and_sync(self) -> None:
        group = Group("g", NO_DELAY, 0)
        asked = join()
        group.join(asked, 0)
        fault = group.commit_fault(asked.fresh_id, None, 1, 1)
        assert fault is ErrorCode.REBALANCE_IN_PROGRESS


def test_restored_group_is_the_group_that_was_written() -> None:
    group, ids = stable_group(2)
    again = Group.restored(group.record(5), NO_DELAY, 100)
    assert again.state is GroupState.STABLE
    assert again.record(5) == group.record(5)
    assert again.heartbeat(ids[0], None, group.generation, 101) is ErrorCode.NONE
    assert again.deadline_ms == 10_100
