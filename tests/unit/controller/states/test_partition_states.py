"""Each row of the partition table, and every pair that has none."""

from dataclasses import replace
from itertools import product

import pytest

from klamm.controller.effects import CreateState, UpdateState
from klamm.controller.states import PartitionState as S
from klamm.controller.states.partition_states import TRANSITIONS, PartitionStep, PartitionView, plan
from klamm.controller.states.strategies import Candidates, Strategy
from klamm.model.errors import Refused
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId, TopicPartition

T0 = TopicPartition("T", 0)
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
LED = Leadership(leader=ONE, leader_epoch=4, isr=(ONE, TWO), controller_epoch=6, partition_epoch=9)
VIEW = PartitionView(
    id=T0,
    state=S.ONLINE,
    candidates=Candidates(replicas=(ONE, TWO, THREE), isr=(ONE, TWO), live=frozenset({TWO, THREE})),
    leadership=LED,
    controller_epoch=7,
)

LEGAL = {
    (S.NON_EXISTENT, S.NEW),
    (S.NEW, S.ONLINE),
    (S.ONLINE, S.ONLINE),
    (S.OFFLINE, S.ONLINE),
    (S.NEW, S.OFFLINE),
    (S.ONLINE, S.OFFLINE),
    (S.OFFLINE, S.OFFLINE),
    (S.OFFLINE, S.NON_EXISTENT),
}
MARKED_ONLY = sorted(pair for pair in LEGAL if pair[1] is not S.ONLINE)


@pytest.mark.parametrize("pair", sorted(product(S, S)))
def test_only_the_pairs_of_the_table_are_legal(pair: tuple[S, S]) -> None:
    before, after = pair
    step = plan(replace(VIEW, state=before), after)
    if pair in LEGAL:
        assert pair in TRANSITIONS
        assert isinstance(step, PartitionStep)
    else:
        assert step == Refused(f"{before} -> {after} is not a legal transition")


@pytest.mark.parametrize("pair", MARKED_ONLY)
def test_moves_that_change_nothing_but_the_state(pair: tuple[S, S]) -> None:
    assert plan(replace(VIEW, state=pair[0]), pair[1]) == PartitionStep()


def test_new_to_online_trusts_every_live_replica() -> None:
    step = plan(replace(VIEW, state=S.NEW, leadership=None), S.ONLINE)
    first = Leadership(leader=TWO, leader_epoch=0, isr=(TWO, THREE), controller_epoch=7)
    assert step == PartitionStep(CreateState(T0, first), (TWO, THREE), True, "first leader 2")


def test_new_stays_new_while_no_replica_is_live() -> None:
    nobody = replace(VIEW.candidates, live=frozenset())
    step = plan(replace(VIEW, state=S.NEW, leadership=None, candidates=nobody), S.ONLINE)
    assert step == Refused("no assigned replica is live")


@pytest.mark.parametrize("before", [S.ONLINE, S.OFFLINE])
def test_an_election_raises_both_epochs_and_names_the_controller(before: S) -> None:
    after = Leadership(
        leader=TWO, leader_epoch=5, isr=(TWO,), controller_epoch=7, partition_epoch=10
    )
    step = plan(replace(VIEW, state=before), S.ONLINE)
    assert step == PartitionStep(UpdateState(T0, after), (TWO, THREE), why="offline election: 2")


def test_the_leader_epoch_rises_even_when_the_same_broker_wins() -> None:
    candidates = replace(VIEW.candidates, live=frozenset({ONE, TWO}))
    step = plan(replace(VIEW, candidates=candidates, strategy=Strategy.PREFERRED), S.ONLINE)
    assert isinstance(step, PartitionStep)
    assert isinstance(step.write, UpdateState)
    assert (step.write.leadership.leader, step.write.leadership.leader_epoch) == (ONE, 5)


def test_an_unclean_leader_starts_recovering() -> None:
    candidates = replace(VIEW.candidates, isr=(ONE,), unclean_allowed=True)
    step = plan(replace(VIEW, candidates=candidates, leadership=replace(LED, isr=(ONE,))), S.ONLINE)
    assert isinstance(step, PartitionStep)
    assert isinstance(step.write, UpdateState)
    assert step.write.leadership.recovery is Recovery.RECOVERING
    assert step.write.leadership.isr == (TWO,)
    assert step.why == "offline election: 2, uncleanly"


def test_a_clean_election_keeps_the_recovery_state() -> None:
    recovering = replace(LED, recovery=Recovery.RECOVERING)
    step = plan(replace(VIEW, leadership=recovering), S.ONLINE)
    assert isinstance(step, PartitionStep)
    assert isinstance(step.write, UpdateState)
    assert step.write.leadership.recovery is Recovery.RECOVERING


def test_no_election_without_a_stored_leadership() -> None:
    step = plan(replace(VIEW, state=S.OFFLINE, leadership=None), S.ONLINE)
    assert step == Refused("its leadership is not in the store")


def test_no_election_over_the_word_of_a_later_controller() -> None:
    step = plan(replace(VIEW, leadership=replace(LED, controller_epoch=8)), S.ONLINE)
    assert step == Refused("its leadership was written by controller epoch 8")


def test_no_election_without_a_candidate() -> None:
    nobody = replace(VIEW.candidates, live=frozenset({THREE}))
    step = plan(replace(VIEW, candidates=nobody), S.ONLINE)
    assert step == Refused("no replica can win an election (offline)")
