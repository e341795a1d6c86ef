"""How a table goes on, and what it does not pass over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from klamm.pipelines.tables.choices import OnLoss, OnRecreated
from klamm.pipelines.tables.planning import Refused, TopicNow, go_on, lag_of
from klamm.pipelines.tables.state import Follow

STATE = Follow(
    topic="t", topic_id="A", cluster="c", values="raw", adding=False, by_day=True,
    offsets={0: 10, 1: 20},
)  # fmt: skip
NOW = TopicNow(topic_id="A", cluster="c", earliest={0: 0, 1: 0}, ends={0: 15, 1: 20})
REFUSE = (OnLoss.REFUSE, OnRecreated.REFUSE)


def test_as_it_was() -> None:
    assert go_on(STATE, NOW, *REFUSE).state == STATE
    assert lag_of(STATE, NOW) == {0: 5, 1: 0}


def test_grown_topic_goes_on_with_the_new_partition() -> None:
    grown = replace(NOW, earliest={**NOW.earliest, 2: 3}, ends={**NOW.ends, 2: 9})
    plan = go_on(STATE, grown, *REFUSE)
    assert (plan.state.offsets, plan.notes) == ({0: 10, 1: 20, 2: 3}, ())


@pytest.mark.parametrize(
    ("now", "why", "offsets", "lost"),
    [
        (replace(NOW, earliest={0: 12, 1: 0}), "begins at 12, and 10 was next", {0: 12, 1: 20}, 2),
        (replace(NOW, ends={0: 15, 1: 4}), "ends at 4, and was read to 20", {0: 10, 1: 4}, 0),
        (replace(NOW, ends={0: 15}), "partition 1 is gone", {0: 10, 1: 20}, 0),
    ],
)
def test_losses_are_refused_or_accepted(
    now: TopicNow, why: str, offsets: dict[int, int], lost: int
) -> None:
    with pytest.raises(Refused, match=why):
        go_on(STATE, now, *REFUSE)
    plan = go_on(STATE, now, OnLoss.ACCEPT, OnRecreated.REFUSE)
    assert (plan.state.offsets, plan.state.lost) == (offsets, lost)
    assert why in plan.notes[0]


def test_recreated_topic_is_refused_or_begun_anew() -> None:
    other = replace(NOW, topic_id="B", earliest={0: 1}, ends={0: 3})
    with pytest.raises(Refused, match="deleted and created again"):
        go_on(STATE, other, OnLoss.ACCEPT, OnRecreated.REFUSE)
    plan = go_on(STATE, other, OnLoss.REFUSE, OnRecreated.RESTART)
    assert (plan.state.topic_id, plan.state.offsets) == ("B", {0: 1})


def test_other_cluster_is_always_refused() -> None:
    with pytest.raises(Refused, match="cluster"):
        go_on(STATE, replace(NOW, cluster="d"), OnLoss.ACCEPT, OnRecreated.RESTART)
