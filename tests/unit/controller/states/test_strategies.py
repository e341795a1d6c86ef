"""Each row of the table of elections."""

import pytest

from klamm.controller.states.strategies import STRATEGIES, Candidates, Strategy, Winner
from klamm.model.names import BrokerId


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


def candidates(
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] = (1, 2, 3),
    live: tuple[int, ...] = (1, 2, 3),
    leaving: tuple[int, ...] = (),
    target: tuple[int, ...] = (),
    unclean: bool = False,
) -> Candidates:
    return Candidates(
        replicas=brokers(*replicas),
        isr=brokers(*isr),
        live=frozenset(brokers(*live)),
        leaving=frozenset(brokers(*leaving)),
        target=brokers(*target),
        unclean_allowed=unclean,
    )


def winner(leader: int, isr: tuple[int, ...], tell: tuple[int, ...], clean: bool = True) -> Winner:
    return Winner(leader=BrokerId(leader), isr=brokers(*isr), tell=brokers(*tell), clean=clean)


CASES = {
    "offline: the first online in-sync replica leads, and the ISR keeps who is online": (
        Strategy.OFFLINE,
        candidates(isr=(3, 2, 1), live=(2, 3)),
        winner(2, (3, 2), (2, 3)),
    ),
    "offline: a replica that is not in sync is passed over": (
        Strategy.OFFLINE,
        candidates(isr=(3,)),
        winner(3, (3,), (1, 2, 3)),
    ),
    "offline: a broker that is leaving cannot lead": (
        Strategy.OFFLINE,
        candidates(leaving=(1,)),
        winner(2, (2, 3), (2, 3)),
    ),
    "offline: nobody leads when no in-sync replica is online": (
        Strategy.OFFLINE,
        candidates(isr=(1,), live=(2, 3)),
        None,
    ),
    "offline: where it is permitted any online replica leads, alone in its ISR": (
        Strategy.OFFLINE,
        candidates(isr=(1,), live=(2, 3), unclean=True),
        winner(2, (2,), (2, 3), clean=False),
    ),
    "offline: permission is not used while an in-sync replica is online": (
        Strategy.OFFLINE,
        candidates(isr=(3,), live=(2, 3), unclean=True),
        winner(3, (3,), (2, 3)),
    ),
    "offline: nobody leads when nobody is online, permitted or not": (
        Strategy.OFFLINE,
        candidates(isr=(1,), live=(), unclean=True),
        None,
    ),
    "reassign: the first of the target that is online and in sync leads; the ISR stays": (
        Strategy.REASSIGN,
        candidates(replicas=(4, 5, 1), isr=(1, 4, 5), live=(1, 5), target=(4, 5)),
        winner(5, (1, 4, 5), (4, 5)),
    ),
    "reassign: nobody leads when the target is not in sync": (
        Strategy.REASSIGN,
        candidates(replicas=(4, 1), isr=(1,), live=(1, 4), target=(4,)),
        None,
    ),
    "preferred: the first replica leads when it is online and in sync": (
        Strategy.PREFERRED,
        candidates(isr=(2, 1)),
        winner(1, (2, 1), (1, 2, 3)),
    ),
    "preferred: nobody else does": (Strategy.PREFERRED, candidates(isr=(2, 3)), None),
    "preferred: nor does a first replica that is leaving": (
        Strategy.PREFERRED,
        candidates(leaving=(1,)),
        None,
    ),
    "shutdown: the first that stays leads, the leaving one is out of the ISR but told": (
        Strategy.SHUTDOWN,
        candidates(leaving=(1,)),
        winner(2, (2, 3), (1, 2, 3)),
    ),
    "shutdown: who is not there is not told": (
        Strategy.SHUTDOWN,
        candidates(leaving=(1,), live=(1, 2)),
        winner(2, (2, 3), (1, 2)),
    ),
    "shutdown: nobody leads when only the leaving one is in sync": (
        Strategy.SHUTDOWN,
        candidates(isr=(1,), leaving=(1,)),
        None,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_strategy(case: tuple[Strategy, Candidates, Winner | None]) -> None:
    strategy, given, expected = case
    assert STRATEGIES[strategy](given) == expected


def test_every_strategy_has_a_row() -> None:
    assert {case[0] for case in CASES.values()} == set(Strategy)
