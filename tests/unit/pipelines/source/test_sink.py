"""What a sink's task makes of a frame before anything is sent."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.pipelines.source.sink import _times

# All that a datetime can hold, in microseconds.
MICROS = st.integers(min_value=-62_135_596_800_000_000, max_value=253_402_300_799_999_999)


@settings(deadline=None)
@given(st.lists(MICROS, min_size=1))
def test_times_are_cut_to_milliseconds_downwards(micros: list[int]) -> None:
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        column = pa.array(micros, pa.int64()).cast(kind)
        assert _times(column, len(micros)).tolist() == [m // 1000 for m in micros]
    assert _times(pa.array(micros, pa.int64()), len(micros)).tolist() == micros


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.int64()])
def test_no_time_is_now(kind: pa.DataType) -> None:
    (only,) = _times(None, 1)
    first, second = _times(pa.array([None, 0], kind), 2)
    assert 0 <= first - only < 60_000
    assert second == 0
