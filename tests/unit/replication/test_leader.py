from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from klamm.replication import leader as core
from klamm.replication.leader import FollowerState, Isr, LeaderView, ProposalVerdict

A, B, C = BrokerId(0), BrokerId(1), BrokerId(2)
LAG_MS = 1_000


def view(**changes: object) -> LeaderView:
    base = LeaderView(
        leader=A,
        leader_end=10,
        high_watermark=4,
        epoch_start=0,
        isr=Isr((A, B, C)),
        followers={B: FollowerState(10, 0, 100, 10, 100), C: FollowerState(7, 0, 100, 10, 90)},
        in_sync_min=1,
        lag_ms_max=LAG_MS,
        now_ms=100,
    )
    return base._replace(**changes)  # type: ignore[arg-type]


def test_the_high_watermark_is_the_least_end_in_sync() -> None:
    assert core.high_watermark(view(), {B, C}) == 7


def test_it_never_falls() -> None:
    assert core.high_watermark(view(high_watermark=9), {B, C}) == 9


def test_it_rests_while_too_few_are_in_sync() -> None:
    assert core.high_watermark(view(isr=Isr((A,)), in_sync_min=2), set()) == 4
    assert core.high_watermark(view(isr=Isr((A,)), in_sync_min=1), set()) == 10


def test_it_waits_for_a_follower_that_is_about_to_join() -> None:
    out = view(isr=Isr((A, B)))
    assert core.high_watermark(out, {B, C}) == 7
    assert core.high_watermark(out, {B}) == 10  # not eligible: its broker is going
    assert core.high_watermark(out._replace(now_ms=100 + LAG_MS), {B, C}) == 10  # too long behind


def test_a_pending_expansion_counts_and_a_pending_shrinkage_does_not() -> None:
    late = {B: FollowerState(10, 0, 0, 10, 0), C: FollowerState(7, 0, 0, 10, -LAG_MS * 2)}
    grows = view(isr=Isr((A, B), (A, B, C)), followers=late)
    assert core.high_watermark(grows, set()) == 7
    shrinks = view(isr=Isr((A, B, C), (A, B)), followers=late)
    assert core.high_watermark(shrinks, set()) == 7


def test_a_member_that_never_fetched_holds_the_high_watermark() -> None:
    fresh = {B: core.at_election(in_sync=True, now_ms=100), C: FollowerState(10, 0, 100, 10, 100)}
    assert core.high_watermark(view(followers=fresh), {B, C}) == 4


@pytest.mark.parametrize(
    ("state", "epoch_start", "joins"),
    [
        (FollowerState(10, 0, 0, 10, 0), 0, True),
        (FollowerState(4, 0, 0, 10, 0), 0, True),
        (FollowerState(3, 0, 0, 10, 0), 0, False),
        (FollowerState(9, 0, 0, 10, 0), 10, False),
    ],
)
def test_a_follower_joins_at_the_high_watermark_and_in_the_epoch(
    state: FollowerState, epoch_start: int, joins: bool
) -> None:
    seen = view(isr=Isr((A, B)), followers={C: state}, epoch_start=epoch_start)
    assert core.expansion(seen, C, {B, C}) == ((A, B, C) if joins else None)
    assert core.expansion(seen, C, {B}) is None
    assert core.expansion(seen._replace(isr=Isr((A, B), (A,))), C, {B, C}) is None


def test_who_is_late_is_dropped_but_never_the_leader() -> None:
    late = {B: FollowerState(9, 0, 0, 10, 0), C: FollowerState(10, 0, 0, 10, 0)}
    assert core.shrinkage(view(followers=late, now_ms=LAG_MS)) is None
    assert core.shrinkage(view(followers=late, now_ms=LAG_MS + 1)) == (A, C)
    assert core.shrinkage(view(followers={}, now_ms=LAG_MS + 1)) == (A,)
    assert core.shrinkage(view(followers=late, isr=Isr((A, B), (A,)), now_ms=LAG_MS + 1)) is None


def test_a_follower_that_follows_a_growing_log_counts_as_caught_up() -> None:
    state = FollowerState()
    for step in range(1, 50):
        # Always one record behind the leader, but never behind what the leader had before.
        state = core.fetched(
            state, offset=step * 10 - 1, log_start=0, leader_end=step * 10, now_ms=step * 100
        )
        state = core.fetched(
            state, offset=step * 10, log_start=0, leader_end=step * 10 + 5, now_ms=step * 100 + 50
        )
    assert not state.lags(10_000, 50 * 100, LAG_MS)


def test_an_idle_follower_counts_its_lag_from_the_append_it_misses() -> None:
    state = FollowerState(10, 0, 0, 10, 0)
    assert not state.lags(10, 1_000_000, LAG_MS)
    state = core.left_behind(state, 1_000_000)
    assert not state.lags(11, 1_000_000 + LAG_MS, LAG_MS)
    assert state.lags(11, 1_000_001 + LAG_MS, LAG_MS)


def test_every_answer_to_a_proposal_has_a_verdict() -> None:
    by_verdict = {
        ProposalVerdict.COMMIT: {0},
        ProposalVerdict.ROLL_BACK: {55, 107},
        ProposalVerdict.WAIT: {3, 100, 74, 95, 42},
    }
    for code in ErrorCode:
        expected = next((v for v, codes in by_verdict.items() if code in codes), None)
        assert core.verdict(code) is (expected or ProposalVerdict.PROPOSE_AGAIN)


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("fetch"), st.sampled_from([B, C]), st.integers(0, 12)),
        st.tuples(st.just("tick"), st.integers(1, LAG_MS)),
        st.tuples(st.just("shrink")),
        st.tuples(st.just("answer"), st.booleans()),
    ),
    max_size=60,
)


@given(steps=_STEPS, in_sync_min=st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_whoever_may_be_elected_has_everything_below_the_high_watermark(
    steps: list[tuple[object, ...]], in_sync_min: int
) -> None:
    """Whichever of the two sets the controller believes in, no member lacks a committed record."""
    now = view(
        leader_end=0,
        high_watermark=0,
        isr=Isr((A, B, C)),
        followers={b: core.at_election(in_sync=True, now_ms=0) for b in (B, C)},
        in_sync_min=in_sync_min,
        now_ms=0,
    )
    ends = {B: 0, C: 0}
    for step in steps:
        before = now.high_watermark
        match step:
            case ("append", int(count)):
                now = now._replace(leader_end=now.leader_end + count)
            case ("fetch", broker, int(count)):
                assert isinstance(broker, int)
                at = BrokerId(broker)
                ends[at] = min(now.leader_end, ends[at] + count)
                state = core.fetched(
                    now.followers[at],
                    offset=ends[at],
                    log_start=0,
                    leader_end=now.leader_end,
                    now_ms=now.now_ms,
                )
                now = now._replace(followers={**now.followers, at: state})
                grown = core.expansion(now, at, {B, C})
                if grown is not None:
                    now = now._replace(isr=Isr(now.isr.committed, grown))
            case ("tick", int(ms)):
                now = now._replace(now_ms=now.now_ms + ms)
            case ("shrink",):
                fewer = core.shrinkage(now)
                if fewer is not None:
                    now = now._replace(isr=Isr(now.isr.committed, fewer))
            case ("answer", bool(accepted)) if now.isr.proposed is not None:
                kept = now.isr.proposed if accepted else now.isr.committed
                now = now._replace(isr=Isr(kept))
            case _:
                pass
        now = now._replace(high_watermark=core.high_watermark(now, {B, C}))
        assert now.high_watermark >= before
        assert now.high_watermark <= now.leader_end
        for member in {*now.isr.committed, *(now.isr.proposed or ())} - {A}:
            assert ends[member] >= now.high_watermark, f"{member} in {now.isr}"
