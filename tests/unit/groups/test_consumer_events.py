"""The life of a consumer group of the new protocol, event by event."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from klamm.groups.consumer.events import (
    Answer,
    ConsumerLimits,
    Decision,
    Heartbeat,
    commit_fault,
    fence,
    heartbeat,
    request_fault,
)
from klamm.groups.consumer.sessions import MemberSessions
from klamm.groups.consumer.state import (
    LEAVES,
    LEAVES_FOR_NOW,
    NOTHING,
    ConsumerGroup,
    ConsumerGroupState,
    MemberProgress,
    Partitions,
    TopicIdPartition,
    TopicShape,
)
from klamm.model.errors import ErrorCode, Refused

T, U = uuid.UUID(int=1), uuid.UUID(int=2)
CLUSTER = {"t": TopicShape(T, 4), "u": TopicShape(U, 2), "__klamm_ledger": TopicShape(U, 2)}
LIMITS = ConsumerLimits()


def of_t(*numbers: int) -> Partitions:
    return frozenset(TopicIdPartition(T, number) for number in numbers)


class Life:
    """A group, the cluster around it, and one event after the other."""

    def __init__(self, limits: ConsumerLimits = LIMITS) -> None:
        self.group = ConsumerGroup("g")
        self.cluster = dict(CLUSTER)
        self.limits = limits
        self.decision = Decision(None, (), self.group)

    def beat(self, member_id: str, epoch: int, **said: object) -> Answer | Refused:
        sent = Heartbeat(member_id=member_id, epoch=epoch, **said)  # type: ignore[arg-type]
        assert request_fault(sent, self.limits) is None
        self.decision = heartbeat(self.group, sent, self.cluster, self.limits)
        self.group = self.decision.group
        assert self.decision.answer is not None
        return self.decision.answer

    def ok(self, member_id: str, epoch: int, **said: object) -> Answer:
        answer = self.beat(member_id, epoch, **said)
        assert isinstance(answer, Answer), answer
        return answer

    def refused(self, member_id: str, epoch: int, **said: object) -> ErrorCode:
        before = self.group
        answer = self.beat(member_id, epoch, **said)
        assert isinstance(answer, Refused), answer
        assert self.decision.changes == ()
        assert self.group is before
        return answer.code

    def join(self, member_id: str, *topics: str, **said: object) -> Answer:
        return self.ok(member_id, 0, **{**_JOIN, "topics": frozenset(topics or ("t",)), **said})


_JOIN = {"rebalance_timeout_ms": 60_000, "owned": NOTHING}


def test_the_first_member_gets_everything_at_once() -> None:
    life = Life()
    assert life.join("a") == Answer(member_id="a", epoch=1, assignment=of_t(0, 1, 2, 3))
    assert life.group.state is ConsumerGroupState.STABLE
    # An ordinary heartbeat changes nothing and is told nothing.
    assert life.ok("a", 1) == Answer(member_id="a", epoch=1)
    assert life.decision.changes == ()


def test_a_member_lets_go_before_another_receives() -> None:
    life = Life()
    life.join("a")
    assert life.join("b") == Answer(member_id="b", epoch=2, assignment=NOTHING)
    assert life.group.state is ConsumerGroupState.RECONCILING
    asked = life.ok("a", 1)
    assert asked.epoch == 1
    assert asked.assignment is not None
    assert len(asked.assignment) == 2
    given_up = of_t(0, 1, 2, 3) - asked.assignment
    assert life.ok("b", 2).assignment is None, "a has not let go yet"
    assert life.ok("a", 1, owned=of_t(0, 1, 2, 3)).assignment is None, "still has them"
    assert life.ok("a", 1, owned=asked.assignment) == Answer(member_id="a", epoch=2)
    assert life.ok("b", 2).assignment == given_up
    assert life.group.state is ConsumerGroupState.STABLE


def test_silence_about_what_is_owned_is_no_letting_go() -> None:
    life = Life()
    life.join("a")
    life.join("b")
    life.ok("a", 1)
    assert life.ok("a", 1).epoch == 1
    assert life.group.standing("a").progress is MemberProgress.UNREVOKED


def test_a_member_that_leaves_frees_its_partitions() -> None:
    life = Life()
    life.join("a")
    life.join("b")
    assert life.ok("a", LEAVES) == Answer(member_id="a", epoch=LEAVES)
    assert life.group.state is ConsumerGroupState.ASSIGNING
    assert life.ok("b", 2) == Answer(member_id="b", epoch=3, assignment=of_t(0, 1, 2, 3))
    life.ok("b", LEAVES)
    assert life.group.state is ConsumerGroupState.EMPTY
    assert life.refused("b", 3) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("epoch", [2, 7])
def test_another_epoch_is_fenced(epoch: int) -> None:
    life = Life()
    life.join("a")
    assert life.refused("a", epoch, owned=NOTHING) is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_good_while_its_successor_may_have_been_lost() -> None:
    life = Life()
    life.join("a")
    life.cluster["t"] = TopicShape(T, 5)
    lost = life.ok("a", 1)
    assert lost == Answer(member_id="a", epoch=2, assignment=of_t(0, 1, 2, 3, 4))
    again = life.ok("a", 1, rebalance_timeout_ms=1, topics=frozenset({"t"}), owned=of_t(0, 1, 2, 3))
    assert again == lost
    assert life.refused("a", 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert life.refused("a", 1, owned=of_t(9)) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_may_begin_anew_under_its_id() -> None:
    life = Life()
    first = life.join("a")
    assert life.join("a") == first
    life.join("b")
    life.ok("a", 1)
    # It lost its answers and let go of everything: nothing waits for it any more.
    again = life.join("a")
    assert again.epoch == 2
    assert again.assignment is not None
    assert life.ok("b", 2).assignment == of_t(0, 1, 2, 3) - again.assignment


def test_a_topic_that_grows_is_shared_out_again() -> None:
    life = Life()
    life.join("a")
    life.cluster["t"] = TopicShape(T, 6)
    assert life.ok("a", 1).assignment == of_t(0, 1, 2, 3, 4, 5)


def test_a_topic_made_anew_is_another_one() -> None:
    life = Life()
    life.join("a")
    fresh = uuid.UUID(int=9)
    life.cluster["t"] = TopicShape(fresh, 1)
    assert life.ok("a", 1).assignment == NOTHING
    reached = life.ok("a", 1, owned=NOTHING)
    assert reached.assignment == {TopicIdPartition(fresh, 0)}
    del life.cluster["t"]
    assert life.ok("a", reached.epoch).assignment == NOTHING


def test_a_changed_subscription_is_a_reason_to_assign() -> None:
    life = Life()
    life.join("a", "t")
    both = frozenset({"t", "u"})
    answer = life.ok("a", 1, topics=both)
    assert answer.epoch == 2
    assert len(answer.assignment or ()) == 6
    assert life.ok("a", 2, topics=both).epoch == 2, "said again is not changed"


def test_a_pattern_follows_the_topics_into_kafkas_internal_ones_alone() -> None:
    life = Life()
    answer = life.ok("a", 0, pattern=".*", **_JOIN)
    assert {p.topic_id for p in answer.assignment or ()} == {T, U}
    assert life.group.topics.keys() == {"t", "u"}
    life.cluster["__consumer_offsets"] = TopicShape(uuid.UUID(int=7), 1)
    assert len(life.ok("a", 1).assignment or ()) == 7
    assert life.group.topics.keys() == {"t", "u", "__consumer_offsets"}


def test_the_wish_of_most_members_is_the_assignor() -> None:
    life = Life()
    life.join("a", assignor="range")
    life.join("b")
    assert life.group.assignor == "range"
    assert life.group.target("a") == of_t(0, 1)


def test_a_full_group_takes_nobody_but_those_it_has() -> None:
    life = Life(ConsumerLimits(size_max=1))
    life.join("a")
    said = {**_JOIN, "topics": frozenset({"t"})}
    assert life.refused("b", 0, **said) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert life.join("a").epoch == 1


def test_a_static_member_finds_its_place_again() -> None:
    life = Life()
    life.join("a")
    life.join("old", instance_id="i")
    kept = life.ok("a", 1).assignment
    assert kept is not None
    life.ok("a", 1, owned=kept)
    mine = life.ok("old", 2, instance_id="i").assignment
    said = {**_JOIN, "topics": frozenset({"t"}), "instance_id": "i"}
    assert life.refused("new", 0, **said) is ErrorCode.UNRELEASED_INSTANCE_ID
    life.ok("old", LEAVES_FOR_NOW, instance_id="i")
    back = life.join("new", instance_id="i")
    assert back == Answer(member_id="new", epoch=2, assignment=mine)
    assert life.ok("a", 2) == Answer(member_id="a", epoch=2), "nobody else hears of it"
    assert life.refused("old", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert life.refused("old", LEAVES, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert life.refused("x", 2, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"epoch": LEAVES_FOR_NOW}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": of_t(1)}, ErrorCode.INVALID_REQUEST),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"topics": frozenset()}, ErrorCode.INVALID_REQUEST),
        ({"assignor": "clever"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"pattern": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_a_heartbeat_that_makes_no_sense(changes: dict[str, object], code: ErrorCode) -> None:
    good = Heartbeat(
        member_id="a", epoch=0, rebalance_timeout_ms=1, topics=frozenset({"t"}), owned=NOTHING
    )
    assert request_fault(good, LIMITS) is None
    fault = request_fault(replace(good, **changes), LIMITS)  # type: ignore[arg-type]
    assert fault is not None
    assert fault.code is code


def test_commits_need_the_epoch_of_the_member() -> None:
    life = Life()
    assert commit_fault(life.group, "", -1) is None
    life.join("a")
    assert commit_fault(life.group, "a", 1) is None
    assert commit_fault(life.group, "a", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit_fault(life.group, "b", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_fault(life.group, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_silent_and_slow_members_are_fenced() -> None:
    life, sessions = Life(), MemberSessions()
    life.join("a", rebalance_timeout_ms=500)
    sessions.follow(life.group, 0, 1_000)
    life.join("b")
    life.ok("a", 1)
    sessions.follow(life.group, 100, 1_000)
    assert sessions.deadline_ms == 600
    assert sessions.over(599) == []
    assert sessions.over(600) == ["a"], "it did not let go in time"
    sessions.heard("a", 600, 1_000)
    assert sessions.over(1_100) == ["a", "b"]
    life.group = fence(life.group, ["a", "nobody"]).group
    sessions.follow(life.group, 600, 1_000)
    assert sessions.over(1_099) == []
    assert life.ok("b", 2).assignment == of_t(0, 1, 2, 3)
    assert fence(life.group, ["nobody"]).changes == ()


def test_the_end_of_a_group_takes_back_all_that_was_said() -> None:
    life = Life()
    life.join("a")
    life.join("b")
    ended = life.group.copy()
    for change in life.group.ending():
        ended.apply(change)
    assert ended == ConsumerGroup("g")
