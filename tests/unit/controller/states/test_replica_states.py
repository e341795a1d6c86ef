"""Each row of the replica table, and every pair that has none."""

from dataclasses import replace
from itertools import product

import pytest

from klamm.controller.states import ReplicaState as S
from klamm.controller.states.replica_states import TRANSITIONS, ReplicaStep, ReplicaView, plan
from klamm.model.errors import Refused
from klamm.model.leadership import Leadership
from klamm.model.names import NO_LEADER, BrokerId, Replica, TopicPartition

ONE, TWO = BrokerId(1), BrokerId(2)
LED = Leadership(leader=ONE, leader_epoch=4, isr=(ONE, TWO), controller_epoch=6, partition_epoch=9)
RAISED = {"leader_epoch": 5, "controller_epoch": 7, "partition_epoch": 10}
VIEW = ReplicaView(
    id=Replica(TopicPartition("T", 0), TWO),
    state=S.ONLINE,
    leadership=LED,
    is_queued=False,
    controller_epoch=7,
)

GIVEN_UP_FROM = {S.NON_EXISTENT, S.NEW, S.ONLINE, S.OFFLINE, S.DELETION_INELIGIBLE}
LEGAL = {
    S.NEW: {S.NON_EXISTENT},
    S.ONLINE: {S.NEW, S.ONLINE, S.OFFLINE, S.DELETION_INELIGIBLE},
    S.OFFLINE: {S.NEW, S.ONLINE, S.OFFLINE, S.DELETION_INELIGIBLE},
    S.DELETION_STARTED: {S.OFFLINE},
    S.DELETION_SUCCESSFUL: {S.DELETION_STARTED, *GIVEN_UP_FROM},
    S.DELETION_INELIGIBLE: {S.OFFLINE, S.DELETION_STARTED},
    S.NON_EXISTENT: {S.DELETION_SUCCESSFUL, S.ONLINE, S.OFFLINE},
}


@pytest.mark.parametrize("pair", sorted(product(S, S)))
def test_only_the_pairs_of_the_table_are_legal(pair: tuple[S, S]) -> None:
    before, after = pair
    given_up = after is S.DELETION_SUCCESSFUL and before in GIVEN_UP_FROM
    view = replace(VIEW, state=before, is_queued=given_up, is_hopeless=given_up, is_renamed=True)
    step = plan(view, after)
    if before in LEGAL[after]:
        assert pair in TRANSITIONS
        assert isinstance(step, ReplicaStep)
    else:
        assert step == Refused(f"{before} -> {after} is not a legal transition")


def test_a_replica_added_to_a_led_partition_is_told_to_follow_with_a_new_log() -> None:
    assert plan(replace(VIEW, state=S.NON_EXISTENT), S.NEW) == ReplicaStep(order=True, is_new=True)


def test_a_replica_of_a_partition_without_leadership_is_only_marked() -> None:
    step = plan(replace(VIEW, state=S.NON_EXISTENT, leadership=None), S.NEW)
    assert step == ReplicaStep()


def test_a_leader_cannot_be_new() -> None:
    leader = Replica(VIEW.id.partition, ONE)
    step = plan(replace(VIEW, id=leader, state=S.NON_EXISTENT), S.NEW)
    assert step == Refused("it leads the partition and cannot be new")


def test_new_to_online_sends_nothing() -> None:
    assert plan(replace(VIEW, state=S.NEW), S.ONLINE) == ReplicaStep()


@pytest.mark.parametrize("before", [S.ONLINE, S.OFFLINE, S.DELETION_INELIGIBLE])
def test_a_replica_that_is_back_is_told_what_it_is(before: S) -> None:
    assert plan(replace(VIEW, state=before), S.ONLINE) == ReplicaStep(order=True)
    assert plan(replace(VIEW, state=before, leadership=None), S.ONLINE) == ReplicaStep()


@pytest.mark.parametrize("before", sorted(LEGAL[S.OFFLINE]))
def test_going_offline_leaves_the_isr_and_the_others_hear_of_it(before: S) -> None:
    after = replace(LED, isr=(ONE,), **RAISED)
    step = plan(replace(VIEW, state=before), S.OFFLINE)
    assert step == ReplicaStep(after, stop=True, tell_others=True)


def test_an_offline_leader_leaves_no_leader() -> None:
    leader = Replica(VIEW.id.partition, ONE)
    after = replace(
        LED, leader=NO_LEADER, isr=(TWO,), leader_epoch=5, controller_epoch=7, partition_epoch=10
    )
    assert plan(replace(VIEW, id=leader), S.OFFLINE) == ReplicaStep(
        after, stop=True, tell_others=True
    )


def test_the_last_in_sync_replica_stays_in_the_isr() -> None:
    alone = replace(LED, leader=TWO, isr=(TWO,))
    after = replace(alone, leader=NO_LEADER, **RAISED)
    step = plan(replace(VIEW, leadership=alone), S.OFFLINE)
    assert step == ReplicaStep(after, stop=True, tell_others=True)


def test_nothing_is_written_when_the_last_one_goes_offline_again() -> None:
    ended = replace(LED, leader=NO_LEADER, isr=(TWO,))
    step = plan(replace(VIEW, state=S.OFFLINE, leadership=ended), S.OFFLINE)
    assert step == ReplicaStep(stop=True, tell_others=True)


def test_nothing_is_written_for_a_replica_outside_the_isr() -> None:
    out = replace(LED, isr=(ONE,))
    step = plan(replace(VIEW, leadership=out), S.OFFLINE)
    assert step == ReplicaStep(stop=True, tell_others=True)


def test_a_replica_without_leadership_is_just_stopped() -> None:
    assert plan(replace(VIEW, leadership=None), S.OFFLINE) == ReplicaStep(stop=True)


def test_others_are_not_told_about_a_topic_on_its_way_out() -> None:
    step = plan(replace(VIEW, is_queued=True), S.OFFLINE)
    assert isinstance(step, ReplicaStep)
    assert not step.tell_others


def test_the_word_of_a_later_controller_is_not_overwritten() -> None:
    later = replace(LED, controller_epoch=8)
    step = plan(replace(VIEW, leadership=later), S.OFFLINE)
    assert step == Refused("its leadership was written by controller epoch 8")


def test_deletion_started_has_the_log_removed() -> None:
    assert plan(replace(VIEW, state=S.OFFLINE), S.DELETION_STARTED) == ReplicaStep(
        stop=True, delete=True
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (S.DELETION_STARTED, S.DELETION_SUCCESSFUL),
        (S.OFFLINE, S.DELETION_INELIGIBLE),
        (S.DELETION_STARTED, S.DELETION_INELIGIBLE),
        (S.DELETION_SUCCESSFUL, S.NON_EXISTENT),
    ],
)
def test_moves_that_change_nothing_but_the_state(before: S, after: S) -> None:
    assert plan(replace(VIEW, state=before), after) == ReplicaStep()


@pytest.mark.parametrize("before", sorted(GIVEN_UP_FROM))
def test_a_copy_is_given_up_only_where_nobody_can_confirm_its_end(before: S) -> None:
    hopeless = replace(VIEW, state=before, is_queued=True, is_hopeless=True)
    assert plan(hopeless, S.DELETION_SUCCESSFUL) == ReplicaStep()
    reachable = plan(replace(hopeless, is_hopeless=False), S.DELETION_SUCCESSFUL)
    assert reachable == Refused("its broker is there and can confirm its end")
    kept = plan(replace(hopeless, is_queued=False), S.DELETION_SUCCESSFUL)
    assert kept == Refused("its topic is not being deleted")


@pytest.mark.parametrize("before", [S.ONLINE, S.OFFLINE])
def test_a_log_keeps_its_name_unless_its_topic_has_another(before: S) -> None:
    step = plan(replace(VIEW, state=before), S.NON_EXISTENT)
    assert step == Refused("its topic has the name it had")
