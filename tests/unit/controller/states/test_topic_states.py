"""Each row of the topic table, and every pair that has none."""

from dataclasses import replace
from itertools import product

import pytest

from klamm.controller.states import TopicState as S
from klamm.controller.states.topic_states import TRANSITIONS, TopicStep, TopicView, plan
from klamm.model.errors import Refused
from klamm.model.names import BrokerId

VIEW = TopicView(name="T", state=S.CREATED, reason="a reason", is_removed=True, is_renamed=True)

LEGAL = {
    S.ABSENT: {S.DELETING, S.FROZEN},
    S.IMPORTING: {S.ABSENT, S.GROWING, S.HALTED},
    S.CREATED: {S.ABSENT, S.IMPORTING, S.GROWING, S.FROZEN, S.HALTED},
    S.GROWING: {S.CREATED, S.FROZEN, S.IMPORTING},
    S.FROZEN: {S.CREATED, S.IMPORTING, S.GROWING, S.HALTED},
    S.QUEUED: {S.CREATED, S.FROZEN, S.IMPORTING},
    S.HALTED: {S.QUEUED, S.HALTED, S.DELETING},
    S.DELETING: {S.QUEUED, S.HALTED},
}


@pytest.mark.parametrize("pair", sorted(product(S, S)))
def test_only_the_pairs_of_the_table_are_legal(pair: tuple[S, S]) -> None:
    before, after = pair
    step = plan(replace(VIEW, state=before), after)
    if before in LEGAL[after]:
        assert pair in TRANSITIONS
        assert isinstance(step, TopicStep)
    else:
        assert pair not in TRANSITIONS
        assert step == Refused(f"{before} -> {after} is not a legal transition")


def test_every_state_is_reached_and_left() -> None:
    assert {before for before, _ in TRANSITIONS} == {after for _, after in TRANSITIONS} == set(S)


@pytest.mark.parametrize("pair", sorted(p for p in TRANSITIONS if p[1] is not S.ABSENT))
def test_the_reason_is_written_down(pair: tuple[S, S]) -> None:
    assert plan(replace(VIEW, state=pair[0]), pair[1]) == TopicStep("a reason")


@pytest.mark.parametrize("before", sorted(LEGAL[S.HALTED]))
def test_nothing_waits_without_a_reason(before: S) -> None:
    step = plan(replace(VIEW, state=before, reason=""), S.HALTED)
    assert step == Refused("a deletion waits for a reason")


@pytest.mark.parametrize("before", sorted(LEGAL[S.DELETING]))
def test_no_log_is_removed_while_something_has_to_end_before(before: S) -> None:
    held_back = replace(VIEW, state=before, obstacle="a partition is being moved")
    assert plan(held_back, S.DELETING) == Refused("a partition is being moved")
    vanished = replace(held_back, is_vanished=True)
    assert plan(vanished, S.DELETING) == TopicStep("a reason")


@pytest.mark.parametrize("after", [S.CREATED, S.FROZEN, S.IMPORTING])
def test_what_has_cost_a_log_is_not_called_off(after: S) -> None:
    step = plan(replace(VIEW, state=S.HALTED, loss="has lost logs already"), after)
    assert step == Refused("has lost logs already")


def test_the_last_line_tells_who_has_confirmed() -> None:
    deleting = replace(VIEW, state=S.DELETING)
    assert plan(deleting, S.ABSENT) == TopicStep("every replica has confirmed")
    one = replace(deleting, given_up=(BrokerId(7),))
    but = "every replica has confirmed, but for the copies on"
    assert plan(one, S.ABSENT) == TopicStep(f"{but} broker 7: given up")
    two = replace(deleting, given_up=(BrokerId(7), BrokerId(2)))
    assert plan(two, S.ABSENT) == TopicStep(f"{but} brokers 2, 7: given up")
    assert plan(replace(deleting, is_vanished=True), S.ABSENT) == TopicStep("its node is gone")


def test_a_topic_is_not_gone_while_the_store_has_it() -> None:
    step = plan(replace(VIEW, state=S.DELETING, is_removed=False), S.ABSENT)
    assert step == Refused("its nodes are in the store")


def test_a_topic_keeps_its_name_unless_another_has_it() -> None:
    kept = replace(VIEW, state=S.FROZEN, is_renamed=False)
    assert plan(kept, S.ABSENT) == Refused("its name is its own")
    assert plan(replace(kept, is_renamed=True), S.ABSENT) == TopicStep("a reason")
