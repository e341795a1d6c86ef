"""Plans move as little as they can and never two replicas of a partition onto one broker."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.cli.cluster import placement
from klamm.cli.facts import PartitionFacts, TopicFacts
from klamm.model.errors import UsageError
from klamm.model.names import ZERO_ID, TopicPartition


def topic(*assignments: tuple[int, ...], name: str = "t") -> TopicFacts:
    partitions = tuple(PartitionFacts(i, r[0], 0, r, r) for i, r in enumerate(assignments))
    return TopicFacts(name, ZERO_ID, False, partitions)


def test_a_drained_broker_is_replaced_where_it_stood() -> None:
    plan = placement.drain([topic((0, 1), (1, 2), (2, 0))], 0, [0, 1, 2, 3])
    assert plan == {("t", 0): (3, 1), ("t", 2): (2, 3)}


def test_a_drain_goes_to_the_least_burdened() -> None:
    plan = placement.drain([topic((0,), (0,), (1,))], 0, [0, 1, 2])
    assert sorted(plan.values()) == [(1,), (2,)]


def test_a_drain_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="no broker left"):
        placement.drain([topic((0, 1))], 0, [0, 1])


def test_internal_topics_give_up_a_replica_rather_than_stop_a_drain() -> None:
    own = replace(topic((0, 1, 2), (1, 0, 2), name="__klamm_ledger"), is_internal=True)
    plan = placement.drain([own, topic((0, 1))], 0, [0, 1, 2])
    assert plan == {
        ("__klamm_ledger", 0): (1, 2),
        ("__klamm_ledger", 1): (1, 2),
        ("t", 0): (2, 1),
    }


def test_a_spread_keeps_what_already_is_in_place() -> None:
    assert placement.spread([topic((0, 1), (3, 1))], [0, 1, 2], None) == {("t", 1): (1, 2)}


def test_a_spread_may_change_the_replication_factor() -> None:
    assert placement.spread([topic((0, 1))], [0, 1, 2], 3) == {("t", 0): (0, 1, 2)}
    assert placement.spread([topic((0, 1))], [0, 1, 2], 1) == {("t", 0): (0,)}
    with pytest.raises(UsageError, match="4 replicas do not fit on 3 brokers"):
        placement.spread([topic((0, 1))], [0, 1, 2], 4)


@given(
    st.lists(st.permutations(range(5)).map(lambda order: tuple(order[:3])), min_size=1),
    st.sets(st.integers(0, 5), min_size=3).map(sorted),
)
def test_a_spread_is_on_the_chosen_brokers_without_doubles(
    assignments: list[tuple[int, ...]], brokers: list[int]
) -> None:
    facts = topic(*assignments)
    plan = placement.spread([facts], brokers, None)
    for partition in facts.partitions:
        after = plan.get(TopicPartition("t", partition.index), partition.replicas)
        assert len(set(after)) == len(after) == 3
        assert set(after) <= set(brokers)
        staying = [b for b in partition.replicas if b in brokers]
        assert [b for b in after if b in staying] == staying


def test_plans_are_in_the_json_of_kafkas_tool() -> None:
    plan: placement.Plan = {TopicPartition("t", 1): (2, 0), TopicPartition("t", 0): (0, 1)}
    text = placement.to_json(plan)
    assert json.loads(text)["version"] == 1
    assert placement.from_json(text) == plan


@pytest.mark.parametrize("text", ["", "[]", '{"partitions": [{"topic": "t"}]}', '{"version": 1}'])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a reassignment plan"):
        placement.from_json(text)


def test_a_plan_may_say_in_which_directories_logs_are_kept() -> None:
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["/a", "any"]}
    plain = {"topic": "t", "partition": 1, "replicas": [1]}
    text = json.dumps({"version": 1, "partitions": [entry, plain]})
    assert placement.from_json(text) == {("t", 0): (1, 2), ("t", 1): (1,)}
    assert placement.directories(text) == {1: {("t", 0): "/a"}}
    entry["log_dirs"] = ["/a"]
    with pytest.raises(UsageError, match="2 replicas in 1 places"):
        placement.from_json(json.dumps({"version": 1, "partitions": [entry]}))
