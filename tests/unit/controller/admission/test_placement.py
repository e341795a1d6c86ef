"""Replica placement: the worked examples, and what holds for every placement."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.admission.placement import (
    MixedRacks,
    Placement,
    Start,
    alternated,
    even_start,
    expansion_start,
    place,
)
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import BrokerId


def rackless(*brokers: int) -> dict[BrokerId, str | None]:
    return {BrokerId(broker): None for broker in brokers}


def racked(racks: dict[int, str]) -> dict[BrokerId, str | None]:
    return {BrokerId(broker): rack for broker, rack in racks.items()}


def placed(placement: Placement | Refused) -> dict[int, list[int]]:
    assert not isinstance(placement, Refused), placement
    return {partition: list(replicas) for partition, replicas in placement.items()}


def test_leaders_go_round_and_followers_shift_with_every_round() -> None:
    placement = place(rackless(0, 1, 2, 3, 4), count=10, factor=3, start=Start.fixed(0))
    assert placed(placement) == {
        0: [0, 1, 2],
        1: [1, 2, 3],
        2: [2, 3, 4],
        3: [3, 4, 0],
        4: [4, 0, 1],
        5: [0, 2, 3],
        6: [1, 3, 4],
        7: [2, 4, 0],
        8: [3, 0, 1],
        9: [4, 1, 2],
    }


def test_start_and_shift_are_drawn_separately() -> None:
    placement = place(rackless(4, 2, 3, 1), count=8, factor=2, start=Start(2, 1))
    assert list(placed(placement).values()) == [
        [3, 1],
        [4, 2],
        [1, 3],
        [2, 4],
        [3, 2],
        [4, 3],
        [1, 4],
        [2, 1],
    ]


def test_replicas_are_spread_over_racks() -> None:
    racks = racked({0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"})
    assert alternated(racks) == [0, 3, 1, 5, 4, 2]
    placement = place(racks, count=7, factor=3, start=Start.fixed(0))
    assert list(placed(placement).values()) == [
        [0, 3, 1],
        [3, 1, 5],
        [1, 5, 4],
        [5, 4, 2],
        [4, 2, 0],
        [2, 0, 3],
        [0, 4, 2],
    ]


def test_brokers_are_arranged_with_racks_in_turn() -> None:
    nine = racked({broker: f"r{broker // 3}" for broker in range(9)})
    assert alternated(nine) == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    assert alternated(racked({0: "a", 1: "a", 2: "a", 3: "b"})) == [0, 3, 1, 2]


def test_a_topic_grows_from_the_leader_of_its_first_partition() -> None:
    brokers = rackless(0, 1, 2, 3)
    start = expansion_start(brokers, BrokerId(1))
    placement = place(brokers, count=2, factor=2, start=start, first=1)
    assert placed(placement) == {1: [2, 0], 2: [3, 1]}


@pytest.mark.parametrize(("first_replica", "index"), [(0, 0), (2, 1), (3, 1), (9, 0)])
def test_a_first_replica_that_is_gone_is_replaced_by_the_next_id(
    first_replica: int, index: int
) -> None:
    assert expansion_start(rackless(1, 3, 5), BrokerId(first_replica)) == Start.fixed(index)


def test_even_growth_starts_where_the_fewest_leaders_are() -> None:
    brokers = rackless(0, 1, 2)
    start = even_start(brokers, [BrokerId(0), BrokerId(0), BrokerId(1)], first=3, count=2)
    placement = placed(place(brokers, count=2, factor=1, start=start, first=3))
    assert placement == {3: [1], 4: [2]}


@pytest.mark.parametrize(
    ("count", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-3, 9, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 4, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_what_cannot_be_placed_is_refused(count: int, factor: int, code: ErrorCode) -> None:
    refused = place(rackless(1, 2, 3), count=count, factor=factor, start=Start.fixed(0))
    assert isinstance(refused, Refused)
    assert refused.code is code


@pytest.mark.parametrize(
    ("mixed", "code"),
    [
        (MixedRacks.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR),
        (MixedRacks.REFUSE, ErrorCode.INVALID_REQUEST),
    ],
)
def test_racks_of_some_brokers_only_are_refused(mixed: MixedRacks, code: ErrorCode) -> None:
    racks = {BrokerId(0): "a", BrokerId(1): None}
    refused = place(racks, count=1, factor=1, start=Start.fixed(0), mixed=mixed)
    assert isinstance(refused, Refused)
    assert refused.code is code
    assert "without one: 1" in refused.why


def test_racks_of_some_brokers_only_can_be_ignored() -> None:
    racks = {BrokerId(0): "a", BrokerId(1): None}
    placement = place(racks, count=2, factor=2, start=Start.fixed(0), mixed=MixedRacks.IGNORE)
    assert placed(placement) == {0: [0, 1], 1: [1, 0]}


_RACKS = st.dictionaries(
    st.integers(0, 50).map(BrokerId), st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=12
)


@given(
    racks=_RACKS,
    aware=st.booleans(),
    rounds=st.integers(1, 4),
    data=st.data(),
    index=st.integers(0, 20),
    shift=st.integers(0, 20),
)
def test_every_placement_is_even_and_spread(
    racks: dict[BrokerId, str],
    aware: bool,
    rounds: int,
    data: st.DataObject,
    index: int,
    shift: int,
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    brokers: dict[BrokerId, str | None] = {b: rack if aware else None for b, rack in racks.items()}
    count = rounds * len(brokers)
    placement = place(brokers, count=count, factor=factor, start=Start(index, shift))
    assert not isinstance(placement, Refused)
    assert list(placement) == list(range(count))
    for replicas in placement.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(brokers)
        if aware:
            used = {racks[broker] for broker in replicas}
            assert len(used) == min(factor, len(set(racks.values())))
    # A multiple of the brokers' number gives every broker the same number of leaders.
    assert set(Counter(r[0] for r in placement.values()).values()) == {rounds}


@given(racks=_RACKS, first=st.integers(0, 30), index=st.integers(0, 20), count=st.integers(1, 9))
def test_even_growth_never_leaves_a_broker_two_leaders_behind(
    racks: dict[BrokerId, str], first: int, index: int, count: int
) -> None:
    brokers = rackless(*racks)
    before = place(brokers, count=first, factor=1, start=Start.fixed(index)) if first else {}
    assert not isinstance(before, Refused)
    leaders = [replicas[0] for replicas in before.values()]
    start = even_start(brokers, leaders, first=first, count=count)
    grown = place(brokers, count=count, factor=1, start=start, first=first)
    assert not isinstance(grown, Refused)
    led = Counter(dict.fromkeys(brokers, 0))
    led.update(leaders)
    led.update(replicas[0] for replicas in grown.values())
    assert max(led.values()) - min(led.values()) <= 1
