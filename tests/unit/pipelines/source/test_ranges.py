"""Planning what a query reads: limits, losses and splits, without Spark."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.model.names import TopicPartition
from klamm.pipelines.source.ranges import (
    Range,
    StreamOffsets,
    cut_losses,
    losses,
    plan_splits,
    share_limit,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
partitions = st.integers(0, 9).map(lambda p: TopicPartition("t", p))
backlogs = st.dictionaries(
    partitions, st.tuples(st.integers(0, 1000), st.integers(0, 10_000)), min_size=1
)


def _range(partition: int, start: int, stop: int) -> Range:
    return Range(topic="t", topic_id="id", partition=partition, start=start, stop=stop)


def test_limit_is_shared_by_backlog() -> None:
    assert share_limit({T0: 0, T1: 0}, {T0: 900, T1: 100}, 100) == {T0: 90, T1: 10}


def test_small_share_is_rounded_up_so_that_no_partition_starves() -> None:
    assert share_limit({T0: 0, T1: 0}, {T0: 1_000_000, T1: 3}, 10)[T1] == 1


@settings(deadline=None)
@given(backlogs, st.integers(1, 5000))
def test_limit_never_moves_back_nor_past_the_end(
    backlog: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    start = {tp: begin for tp, (begin, _) in backlog.items()}
    end = {tp: begin + more for tp, (begin, more) in backlog.items()}
    ends = share_limit(start, end, limit)
    assert all(start[tp] <= ends[tp] <= end[tp] for tp in end)
    assert sum(ends[tp] - start[tp] for tp in end) <= limit + len(end)
    if any(more for _, more in backlog.values()):
        assert any(ends[tp] > start[tp] for tp in end)


def test_start_past_the_end_is_a_loss_and_not_nothing_to_do() -> None:
    assert losses({T0: 500}, {T0: 110}, {T0: 0}) == [
        "t-0 ends at 110, before the position 500 it was read to"
    ]


def test_records_that_aged_out_are_a_loss() -> None:
    assert losses({T0: 3}, {T0: 110}, {T0: 10}) == ["t-0 begins at 10: offsets 3 to 9 are gone"]


def test_vanished_partition_is_a_loss() -> None:
    assert losses({T0: 3}, {T0: 9}, {T0: 0}, gone=[T1]) == ["t-1 is gone"]


def test_nothing_lost_is_no_loss() -> None:
    assert losses({T0: 3}, {T0: 9}, {T0: 3}) == []


def test_accepted_loss_starts_at_what_is_left() -> None:
    assert cut_losses({T0: 3, T1: 500}, {T0: 110, T1: 110}, {T0: 10, T1: 0}) == {T0: 10, T1: 110}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 5000)), min_size=1, max_size=8),
    st.one_of(st.none(), st.integers(1, 700)),
    st.one_of(st.none(), st.integers(1, 40)),
    st.booleans(),
)
def test_splits_tile_the_ranges_exactly(
    sizes: list[tuple[int, int]], records_max: int | None, splits_min: int | None, group: bool
) -> None:
    ranges = [_range(p, begin, begin + more) for p, (begin, more) in enumerate(sizes)]
    splits = plan_splits(ranges, records_max=records_max, splits_min=splits_min, group_small=group)
    read = [(r.partition, o) for split in splits for r in split for o in range(r.start, r.stop)]
    wanted = [(r.partition, o) for r in ranges for o in range(r.start, r.stop)]
    assert sorted(read) == wanted
    assert all(r.size > 0 for split in splits for r in split)
    if records_max is not None:
        assert all(r.size <= records_max for split in splits for r in split)


def test_splits_reach_the_wanted_number_by_cutting_the_large_ranges() -> None:
    splits = plan_splits([_range(0, 0, 10), _range(1, 0, 990)], splits_min=10)
    assert [len(s) for s in splits] == [1] * 10
    assert sum(1 for (r,) in splits if r.partition == 0) == 1


def test_splits_by_bytes() -> None:
    splits = plan_splits([_range(0, 0, 1000)], bytes_max=1000, bytes_per_offset={T0: 10.0})
    assert len(splits) == 10


def test_tiny_ranges_share_a_split() -> None:
    splits = plan_splits([_range(p, 0, 100) for p in range(8)], group_small=True)
    assert len(splits) == 1
    assert len(splits[0]) == 8


def test_stream_offsets_are_one_text_whatever_the_order() -> None:
    one = StreamOffsets({T1: 2, T0: 1}, {"t": "id"})
    other = StreamOffsets({T0: 1, T1: 2}, {"t": "id"})
    assert one.text() == other.text() == '{"ids":{"t":"id"},"topics":{"t":{"0":1,"1":2}},"v":1}'
    assert StreamOffsets.from_json(one.to_json()) == other


def test_stream_offsets_of_the_official_connector_are_read() -> None:
    assert StreamOffsets.from_json({"t": {"0": 5}}) == StreamOffsets({T0: 5})
