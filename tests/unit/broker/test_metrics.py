"""Counting and timing."""

from __future__ import annotations

import asyncio
import time
from typing import get_args

import pytest

from klamm.broker.metrics import BOUNDS_S, BrokerMetrics, Histogram
from klamm.broker.net.stopwatch import Stopwatch, Timed
from klamm.broker.term import observing
from klamm.broker.term.controller_metrics import ControllerMetrics
from klamm.broker.term.controller_states import STATES, ControllerState, state_of
from klamm.broker.term.inbox import Inbox
from klamm.controller import events


def test_a_histogram_files_a_time_under_the_first_bound_that_holds_it() -> None:
    times = Histogram()
    for seconds in (0.0, BOUNDS_S[0], 0.0002, BOUNDS_S[-1] + 1):
        times.observe(seconds)
    assert (times.counts[0], times.counts[1], times.counts[-1]) == (2, 1, 1)
    assert times.count == 4
    assert times.sum_s == pytest.approx(61.0003)


def test_an_in_sync_set_shrinks_or_expands() -> None:
    metrics = BrokerMetrics()
    for before, after in ((3, 2), (2, 1), (1, 3), (3, 3)):
        metrics.isr_changed(before, after)
    assert (metrics.isr_shrinks, metrics.isr_expands) == (2, 1)


def test_the_state_is_that_of_the_event_worked_on_and_an_urgent_one_nests() -> None:
    metrics = ControllerMetrics()
    with metrics.working(ControllerState.TOPIC_CHANGE):
        with metrics.working(ControllerState.BROKER_CHANGE):
            assert metrics.state == 2
        assert metrics.state == 3
    assert metrics.state == 0
    assert {state.timer: times.count for state, times in metrics.work_s.items()} == {
        "LeaderElection": 1,
        "TopicChange": 1,
    }


@pytest.mark.parametrize(
    ("content", "state"),
    [
        (observing.MarkersHint(), ControllerState.TOPIC_DELETION),
        (events.UncleanSwitched(None, True), ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE),
        (events.UncleanSwitched("t", True), ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE),
        (events.ExplanationAsked("t"), ControllerState.IDLE),
    ],
)
def test_each_kind_of_event_has_its_state(content: events.Event, state: ControllerState) -> None:
    assert state_of(content) is state


# Those that only look, or count for nothing in Kafka either.
QUESTIONS = {
    "ExplanationAsked",
    "ExplanationsAsked",
    "PlanAsked",
    "ProducerIdsAsked",
    "StatesAsked",
    "StatusAsked",
    "UncleanSwitched",
}


def test_no_kind_of_event_is_without_a_state_by_oversight() -> None:
    kinds = {*get_args(events.Event), *get_args(observing.Hint)}
    assert {kind.__name__ for kind in kinds - STATES.keys()} == QUESTIONS


def test_the_queue_knows_how_many_of_each_kind_wait() -> None:
    inbox = Inbox()
    for content in (events.RetryDue(), events.RetryDue(), observing.TopicsHint()):
        inbox.put(content)
    assert inbox.sizes() == {"RetryDue": 2, "TopicsHint": 1}


async def test_only_the_turns_of_a_coroutine_count() -> None:
    gate = asyncio.Event()

    async def work() -> str:
        _spin(0.02)
        await gate.wait()
        _spin(0.02)
        return "done"

    watch = Stopwatch()
    watch.stop()
    task = asyncio.ensure_future(Timed(work(), watch))
    await asyncio.sleep(0)
    after_first = watch.busy_s
    _spin(0.05)  # somebody else's turn
    assert watch.busy_s == after_first
    gate.set()
    assert await task == "done"
    assert 0.04 <= watch.busy_s <= watch.total_s - 0.05


async def test_a_timed_coroutine_can_be_cancelled_and_can_catch_it() -> None:
    caught: list[str] = []

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            caught.append("cancelled")
            raise
        return "never"

    task = asyncio.ensure_future(Timed(work(), Stopwatch()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert caught == ["cancelled"]


async def test_a_timed_coroutine_gets_the_errors_of_what_it_waits_for() -> None:
    async def work() -> str:
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(failed.set_exception, ValueError("no"))
        try:
            await failed
        except ValueError as fault:
            return f"caught {fault}"
        return "never"

    assert await Timed(work(), Stopwatch()) == "caught no"


def _spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
