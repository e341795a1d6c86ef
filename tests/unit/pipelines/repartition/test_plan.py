"""Where records go, and in which order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.client.partitioner import partition_of
from klamm.pipelines.records.batches import pieces_of, positive_murmur2
from klamm.pipelines.repartition.plan import (
    Reshaping,
    StrangeKey,
    Stretch,
    Way,
    fitting_window,
    grid,
    monotonic,
    stretches,
    way_of,
)


@pytest.mark.parametrize(
    ("sources", "targets", "way"),
    [
        (6, 12, Way.GROW),
        (1, 5, Way.GROW),
        (6, 3, Way.SHRINK),
        (6, 1, Way.SHRINK),
        (6, 4, Way.SHUFFLE),
        (6, 7, Way.SHUFFLE),
    ],
)
def test_where_one_count_divides_the_other_nothing_is_shuffled(
    sources: int, targets: int, way: Way
) -> None:
    assert way_of(sources, targets, is_orderly=True) is way
    assert way_of(sources, targets, is_orderly=False) is Way.SHUFFLE


@settings(deadline=None)  # the first call may compile
@given(
    counts=st.tuples(st.integers(1, 12), st.integers(1, 24)),
    keys=st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=30),
    offset=st.integers(0, 1 << 40),
)
def test_keys_go_where_producers_would_put_them(
    counts: tuple[int, int], keys: list[bytes], offset: int
) -> None:
    pa = pytest.importorskip("pyarrow")
    sources, targets = counts
    shape = Reshaping(sources, targets, way_of(sources, targets, is_orderly=True))
    for source in range(sources):
        own: list[bytes | None] = [k for k in keys if partition_of(k, sources) == source]
        own += [None, None]
        column = pieces_of(pa.array(own, pa.binary()))
        offsets = np.arange(offset, offset + len(own))
        found = shape.target_of(source, positive_murmur2(column), offsets, column.size >= 0)
        for key, target in zip(own, found.tolist(), strict=True):
            assert 0 <= target < targets
            assert key is None or target == partition_of(key, targets)
        if shape.way is not Way.SHUFFLE:
            tasks = shape.tasks(range(sources))
            assert sum(source in task for task in tasks) == 1


def test_a_key_that_is_elsewhere_is_noticed() -> None:
    hashes, offsets, known = np.array([1]), np.array([0]), np.array([True])
    with pytest.raises(StrangeKey):
        Reshaping(2, 4, Way.GROW).target_of(0, hashes, offsets, known)
    assert Reshaping(2, 3, Way.SHUFFLE).target_of(0, hashes, offsets, known).tolist() == [1]


@settings(deadline=None)  # the first call may compile
@given(
    sizes=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 900)), min_size=1, max_size=4),
    size=st.sampled_from([64, 128]),
    points=st.lists(st.integers(0, 1200), max_size=8),
)
def test_windows_tile_every_source_in_its_order(
    sizes: list[tuple[int, int]], size: int, points: list[int]
) -> None:
    starts = {n: first for n, (first, _) in enumerate(sizes)}
    ends = {n: first + more for n, (first, more) in enumerate(sizes)}
    borders = {n: monotonic(sorted(points), ends[n]) for n in starts}
    found = stretches(starts, ends, size, borders)
    for source, start in starts.items():
        position = start
        for window in [w for w in found if w.source == source]:
            assert window.first == position
            assert window.stop == ends[source] or window.stop % size == 0
            position = window.stop
        assert position == ends[source]
    assert [w.time for w in found] == sorted(w.time for w in found)


def test_windows_of_several_sources_come_in_the_order_of_time() -> None:
    borders = {0: [0, 64, 100], 1: [0, 0, 64]}
    found = stretches({0: 0, 1: 0}, {0: 100, 1: 100}, 64, borders)
    assert found == [
        Stretch(1, 0, 0, 64),
        Stretch(2, 0, 64, 100),
        Stretch(2, 1, 0, 64),
        Stretch(3, 1, 64, 100),
    ]


def test_times_and_sizes() -> None:
    assert grid(0, 100, 1) == grid(5, 5, 9) == []
    assert grid(0, 100, 2) == [25, 50, 75, 100]
    assert len(grid(0, 1 << 40, 10_000)) == 500
    assert monotonic([3, 2, 7, -1], 9) == [3, 3, 7, 9]
    assert fitting_window(100) == 1 << 16
    assert fitting_window(1024) == 1 << 14
    assert fitting_window(1 << 30) == 1 << 9
