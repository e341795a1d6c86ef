"""The sparse indexes of a segment."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.log.disk.files import FilePool
from klamm.log.segments.index import OffsetIndex, TimeIndex


@pytest.fixture(params=["in memory", "on disk"])
def offsets(request: pytest.FixtureRequest, tmp_path: Path, pool: FilePool) -> OffsetIndex:
    index = OffsetIndex(str(tmp_path / "x.index"), 100, pool)
    for number in range(1, 6):
        index.append(100 + 10 * number, 1000 * number)
    if request.param == "on disk":
        index.release()
    return index


@pytest.fixture(params=["in memory", "on disk"])
def times(request: pytest.FixtureRequest, tmp_path: Path, pool: FilePool) -> TimeIndex:
    index = TimeIndex(str(tmp_path / "x.timeindex"), 100, pool)
    for number in range(1, 6):
        index.append(1_000_000 + number, 100 + 10 * number)
    if request.param == "on disk":
        index.release()
    return index


@pytest.mark.parametrize(
    ("offset", "entry"),
    [(100, None), (109, None), (110, (110, 1000)), (119, (110, 1000)), (900, (150, 5000))],
)
def test_the_last_entry_not_above(
    offsets: OffsetIndex, offset: int, entry: tuple[int, int] | None
) -> None:
    assert offsets.entry_for(offset) == entry


@pytest.mark.parametrize(("position", "bound"), [(0, 110), (1000, 110), (1001, 120), (5001, None)])
def test_an_offset_above_all_before_a_position(
    offsets: OffsetIndex, position: int, bound: int | None
) -> None:
    assert offsets.bound_after(position) == bound


@pytest.mark.parametrize(("offset", "left"), [(100, 0), (110, 0), (111, 1), (150, 4), (151, 5)])
def test_entries_of_dropped_batches_go(offsets: OffsetIndex, offset: int, left: int) -> None:
    offsets.truncate(offset)
    assert len(offsets) == left
    offsets.release()
    assert Path(offsets.path).stat().st_size == 8 * left


@pytest.mark.parametrize(("offset", "left"), [(110, 0), (111, 1), (150, 4), (151, 5)])
def test_times_of_dropped_batches_go(times: TimeIndex, offset: int, left: int) -> None:
    times.truncate(offset)
    assert len(times) == left
    times.release()
    assert Path(times.path).stat().st_size == 12 * left


@pytest.mark.parametrize(
    ("timestamp", "entry"),
    [(0, None), (1_000_001, (1_000_001, 110)), (2_000_000, (1_000_005, 150))],
)
def test_the_last_time_not_above(
    times: TimeIndex, timestamp: int, entry: tuple[int, int] | None
) -> None:
    assert times.before(timestamp) == entry


def test_entries_may_be_added_after_a_restart(offsets: OffsetIndex, pool: FilePool) -> None:
    offsets.release()
    again = OffsetIndex(offsets.path, 100, pool)
    again.append(160, 6000)
    again.release()
    assert again.last == (160, 6000)
    assert len(again) == 6
