from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.model.errors import ErrorCode
from klamm.replication.follower import (
    EpochEnd,
    FetchFrom,
    Reaction,
    RestartAt,
    Truncate,
    first_offset,
    out_of_range,
    reaction,
    truncation,
)


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        (EpochEnd(3, 40), EpochEnd(3, 50), Truncate(40, is_final=True)),
        (EpochEnd(3, 60), EpochEnd(3, 50), Truncate(50, is_final=True)),
        (EpochEnd(3, 40), EpochEnd(2, 30), Truncate(30, is_final=False)),
        (EpochEnd(3, 40), None, Truncate(40, is_final=True)),
        (EpochEnd(3, 90), None, Truncate(70, is_final=True)),
        (EpochEnd(-1, -1), EpochEnd(3, 50), Truncate(20, is_final=True)),
    ],
)
def test_where_a_follower_cuts(theirs: EpochEnd, ours: EpochEnd | None, expected: Truncate) -> None:
    assert truncation(theirs, ours, log_end=70, high_watermark=20) == expected


def test_where_a_follower_starts() -> None:
    assert first_offset(log_end=9, high_watermark=4, has_epochs=True) == 9
    assert first_offset(log_end=9, high_watermark=4, has_epochs=False) == 4
    assert first_offset(log_end=3, high_watermark=4, has_epochs=False) == 3


@pytest.mark.parametrize(
    ("start", "end", "own_end", "expected"),
    [
        (0, 5, 9, Truncate(5, is_final=True)),
        (20, 30, 9, RestartAt(20)),
        (5, 30, 9, FetchFrom(9)),
        (9, 9, 9, FetchFrom(9)),
    ],
)
def test_an_offset_the_leader_does_not_have(
    start: int, end: int, own_end: int, expected: object
) -> None:
    assert out_of_range(leader_start=start, leader_end=end, log_end=own_end) == expected


def test_only_three_kinds_of_error_need_more_than_another_try() -> None:
    waits = {c for c in ErrorCode if reaction(c) is Reaction.WAIT_FOR_CONTROLLER}
    assert waits == {74, 6, 75, 3, 100}
    assert {c for c in ErrorCode if reaction(c) is Reaction.FIND_OFFSET} == {1}
    assert {c for c in ErrorCode if reaction(c) is Reaction.NEW_SESSION} == {70, 71, 106}


# A log as the epoch of each of its records. Logs of one partition share a prefix; behind it each
# has what it wrote or copied under leaders the other never followed.
_RUNS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=4)


def _log(runs: list[tuple[int, int]]) -> list[int]:
    return sorted(epoch for epoch, count in runs for _ in range(count))


def _end_of(log: list[int], asked: int) -> EpochEnd:
    """Section 5.4's lookup in a log that is written out."""
    if not log or asked < 0 or asked > log[-1]:
        return EpochEnd(-1, -1)
    if asked == log[-1]:
        return EpochEnd(asked, len(log))
    if asked < log[0]:
        return EpochEnd(asked, 0)
    largest = max(epoch for epoch in log if epoch <= asked)
    return EpochEnd(largest, sum(1 for epoch in log if epoch <= largest))


def _own_end_of(log: list[int], asked: int) -> EpochEnd:
    below = [epoch for epoch in log if epoch <= asked]
    return EpochEnd(below[-1], len(below)) if below else EpochEnd(asked, 0)


@given(common=_RUNS, theirs=_RUNS, ours=_RUNS)
@settings(max_examples=500, deadline=None)
def test_logs_agree_in_the_end_and_nothing_shared_is_cut(
    common: list[tuple[int, int]], theirs: list[tuple[int, int]], ours: list[tuple[int, int]]
) -> None:
    shared = _log(common)
    base = shared[-1] + 1 if shared else 0
    # Two leaders never write in the same epoch, so what follows the shared part differs in epoch.
    leader = shared + [base + 2 * epoch for epoch in _log(theirs)]
    follower = shared + [base + 2 * epoch + 1 for epoch in _log(ours)]
    for _ in range(20):
        if not follower:
            break
        last = follower[-1]
        answer = _end_of(leader, last)
        if answer.end != -1 and answer.epoch == last and answer.end >= len(follower):
            break
        cut = truncation(
            answer,
            _own_end_of(follower, answer.epoch),
            log_end=len(follower),
            high_watermark=len(shared),
        )
        assert cut.to <= len(follower)
        follower = follower[: cut.to]
        assert len(follower) >= len(shared)
    assert follower == leader[: len(follower)]
