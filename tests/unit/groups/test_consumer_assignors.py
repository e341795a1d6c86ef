"""Assignments of the new protocol: balanced, sticky, co-located."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.groups.consumer.assignors import ASSIGNORS, Wishes, assign_range, assign_uniform
from klamm.groups.consumer.state import NOTHING, Partitions, TopicIdPartition, TopicShape


def topics(**sizes: int) -> dict[str, TopicShape]:
    return {
        name: TopicShape(uuid.UUID(int=i), size) for i, (name, size) in enumerate(sizes.items(), 1)
    }


def wishes(
    shapes: dict[str, TopicShape],
    subscriptions: dict[str, set[str]],
    before: dict[str, Partitions] | None = None,
) -> Wishes:
    return Wishes(
        subscriptions={who: frozenset(names) for who, names in subscriptions.items()},
        ranks={who: who for who in subscriptions},
        topics=shapes,
        before=before or {},
    )


def sizes(given: dict[str, Partitions]) -> list[int]:
    return sorted(len(partitions) for partitions in given.values())


def test_uniform_gives_everybody_the_same() -> None:
    shapes = topics(t=7, u=3)
    given = assign_uniform(wishes(shapes, {m: {"t", "u"} for m in "abc"}))
    assert sizes(given) == [3, 3, 4]


def test_uniform_moves_no_more_than_a_new_member_needs() -> None:
    shapes = topics(t=12)
    before = assign_uniform(wishes(shapes, {m: {"t"} for m in "abc"}))
    after = assign_uniform(wishes(shapes, {m: {"t"} for m in "abcd"}, before))
    assert sizes(after) == [3, 3, 3, 3]
    assert all(after[m] < before[m] for m in "abc"), "somebody got what another had"


def test_uniform_hands_on_only_what_a_departed_member_had() -> None:
    shapes = topics(t=12)
    before = assign_uniform(wishes(shapes, {m: {"t"} for m in "abcd"}))
    after = assign_uniform(wishes(shapes, {m: {"t"} for m in "abc"}, before))
    assert sizes(after) == [4, 4, 4]
    assert all(before[m] < after[m] for m in "abc")


def test_uniform_forgets_partitions_that_are_gone() -> None:
    before = {"a": frozenset({TopicIdPartition(uuid.UUID(int=1), 5)})}
    assert assign_uniform(wishes(topics(t=1), {"a": {"t"}}, before)) == {
        "a": frozenset({TopicIdPartition(uuid.UUID(int=1), 0)})
    }


def test_uniform_levels_members_that_read_different_topics() -> None:
    shapes = topics(t=6, u=6)
    given = assign_uniform(wishes(shapes, {"a": {"t"}, "b": {"t", "u"}, "c": {"u"}}))
    assert sizes(given) == [4, 4, 4]


def test_range_gives_the_same_numbers_of_topics_of_one_size() -> None:
    given = assign_range(wishes(topics(t=5, u=5), {m: {"t", "u"} for m in "ab"}))
    assert Counter(p.partition for p in given["a"]) == {0: 2, 1: 2, 2: 2}
    assert Counter(p.partition for p in given["b"]) == {3: 2, 4: 2}


def test_range_sorts_by_instance_before_id() -> None:
    asked = Wishes(
        subscriptions={"m1": frozenset({"t"}), "m2": frozenset({"t"})},
        ranks={"m1": "second", "m2": "first"},
        topics=topics(t=2),
        before={},
    )
    given = assign_range(asked)
    assert {p.partition for p in given["m2"]} == {0}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(data=st.data())
def test_every_partition_somebody_reads_is_given_once_and_to_a_reader(
    name: str, data: st.DataObject
) -> None:
    shapes = topics(**data.draw(st.dictionaries(st.sampled_from("tuvw"), st.integers(0, 9))))
    names = st.sets(st.sampled_from(sorted(shapes) or [""])).map(lambda s: s & shapes.keys())
    subscriptions = data.draw(st.dictionaries(st.sampled_from("abcdef"), names))
    stray = {
        who: frozenset(TopicIdPartition(uuid.UUID(int=i), n) for i, n in held)
        for who, held in data.draw(
            st.dictionaries(
                st.sampled_from("abcxyz"),
                st.sets(st.tuples(st.integers(1, 6), st.integers(0, 12))),
            )
        ).items()
    }
    given = ASSIGNORS[name](wishes(shapes, subscriptions, stray))
    assert given.keys() == subscriptions.keys()
    read = {topic for names in subscriptions.values() for topic in names}
    wanted = {TopicIdPartition(shapes[t].id, n) for t in read for n in range(shapes[t].partitions)}
    assert NOTHING.union(*given.values()) == wanted
    assert sum(len(partitions) for partitions in given.values()) == len(wanted)
    by_id = {shape.id: topic for topic, shape in shapes.items()}
    for who, partitions in given.items():
        assert {by_id[p.topic_id] for p in partitions} <= subscriptions[who]
    if name == "uniform" and len({frozenset(s) for s in subscriptions.values()}) == 1:
        assert max(sizes(given)) - min(sizes(given)) <= 1
