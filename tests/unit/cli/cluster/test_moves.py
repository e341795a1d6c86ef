"""Plans move as little as they can and never two replicas of a partition onto one broker."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.cli.cluster import moves
from klamm.cli.facts import PartitionFacts, TopicFacts
from klamm.model.errors import UsageError
from klamm.model.names import ZERO_ID


def topic(*assignments: tuple[int, ...], name: str = "t") -> TopicFacts:
    partitions = tuple(PartitionFacts(i, r[0], 0, r, r) for i, r in enumerate(assignments))
    return TopicFacts(name, ZERO_ID, False, partitions)


def test_a_drained_broker_is_replaced_where_it_stood() -> None:
    plan = moves.drain([topic((0, 1), (1, 2), (2, 0))], 0, [0, 1, 2, 3])
    assert plan == {("t", 0): (3, 1), ("t", 2): (2, 3)}


def test_a_drain_goes_to_the_least_burdened() -> None:
    plan = moves.drain([topic((0,), (0,), (1,))], 0, [0, 1, 2])
    assert sorted(plan.values()) == [(1,), (2,)]


def test_a_drain_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="no broker left"):
        moves.drain([topic((0, 1))], 0, [0, 1])


def test_a_spread_keeps_what_already_is_in_place() -> None:
    assert moves.spread([topic((0, 1), (3, 1))], [0, 1, 2], None) == {("t", 1): (1, 2)}


def test_a_spread_may_change_the_replication_factor() -> None:
    assert moves.spread([topic((0, 1))], [0, 1, 2], 3) == {("t", 0): (0, 1, 2)}
    assert moves.spread([topic((0, 1))], [0, 1, 2], 1) == {("t", 0): (0,)}
    with pytest.raises(UsageError, match="4 replicas do not fit on 3 brokers"):
        moves.spread([topic((0, 1))], [0, 1, 2], 4)


@given(
    st.lists(st.permutations(range(5)).map(lambda order: tuple(order[:3])), min_size=1),
    st.sets(st.integers(0, 5), min_size=3).map(sorted),
)
def test_a_spread_is_on_the_chosen_brokers_without_doubles(
    assignments: list[tuple[int, ...]], brokers: list[int]
) -> None:
    facts = topic(*assignments)
    plan = moves.spread([facts], brokers, None)
    for partition in facts.partitions:
        after = plan.get(("t", partition.index), partition.replicas)
        assert len(set(after)) == len(after) == 3
        assert set(after) <= set(brokers)
        staying = [b for b in partition.replicas if b in brokers]
        assert [b for b in after if b in staying] == staying


def test_plans_are_in_the_json_of_kafkas_tool() -> None:
    plan: moves.Plan = {("t", 1): (2, 0), ("t", 0): (0, 1)}
    text = moves.to_json(plan)
    assert json.loads(text)["version"] == 1
    assert moves.from_json(text) == plan


@pytest.mark.parametrize("text", ["", "[]", '{"partitions": [{"topic": "t"}]}', '{"version": 1}'])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a reassignment plan"):
        moves.from_json(text)


def test_a_plan_may_say_in_which_directories_logs_are_kept() -> None:
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["/a", "any"]}
    plain = {"topic": "t", "partition": 1, "replicas": [1]}
    text = json.dumps({"version": 1, "partitions": [entry, plain]})
    assert moves.from_json(text) == {("t", 0): (1, 2), ("t", 1): (1,)}
    assert moves.directories(text) == {1: {("t", 0): "/a"}}
    entry["log_dirs"] = ["/a"]
    with pytest.raises(UsageError, match="2 replicas in 1 places"):
        moves.from_json(json.dumps({"version": 1, "partitions": [entry]}))
