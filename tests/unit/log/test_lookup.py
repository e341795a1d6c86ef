"""Finding records by time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.log.partition import PartitionLog
from leading import offset_for_timestamp, offset_of_max_timestamp
from unit.log.helpers import T0, append

MakeLog = Callable[..., PartitionLog]


@pytest.fixture(params=[0, 1, 4], ids=["plain", "gzip", "zstd"])
def log(request: pytest.FixtureRequest, make_log: MakeLog) -> PartitionLog:
    """Batches of three records a millisecond apart, ten milliseconds from batch to batch."""
    log = make_log(segment_bytes=1000, index_interval_bytes=150)
    for number in range(20):
        append(log, b"a" * 50, b"b", b"c", timestamp=T0 + 10 * number, codec=request.param)
    log.advance_high_watermark(60)
    return log


@pytest.mark.parametrize(
    ("wanted", "offset", "found"),
    [(-5, 0, 0), (0, 0, 0), (1, 1, 1), (3, 3, 10), (10, 3, 10), (92, 29, 92), (192, 59, 192)],
)
def test_the_first_record_not_older(
    log: PartitionLog, wanted: int, offset: int, found: int
) -> None:
    assert offset_for_timestamp(log, T0 + wanted) == (offset, T0 + found)


def test_no_record_is_new_enough(log: PartitionLog) -> None:
    assert offset_for_timestamp(log, T0 + 193) is None


def test_only_what_may_be_seen_is_found(log: PartitionLog) -> None:
    assert offset_for_timestamp(log, T0 + 92, upto=29) is None
    log.advance_log_start(10)
    assert offset_for_timestamp(log, T0) == (10, T0 + 31)


def test_records_out_of_order(make_log: MakeLog) -> None:
    log = make_log(index_interval_bytes=0)
    for number, time in enumerate([50, 10, 90, 20, 70]):
        append(log, b"%d" % number, timestamp=T0 + time)
    log.advance_high_watermark(5)
    assert offset_for_timestamp(log, T0 + 60) == (2, T0 + 90)
    assert offset_for_timestamp(log, T0 + 15) == (0, T0 + 50)
    assert offset_of_max_timestamp(log) == (2, T0 + 90)
    assert offset_of_max_timestamp(log, upto=2) == (0, T0 + 50)


def test_the_newest_record_of_many_segments(log: PartitionLog) -> None:
    assert len(log.segments) >= 2
    assert offset_of_max_timestamp(log) == (59, T0 + 192)
    assert offset_of_max_timestamp(log, upto=30) == (29, T0 + 92)


def test_an_empty_log_has_no_newest_record(make_log: MakeLog) -> None:
    assert offset_of_max_timestamp(make_log()) is None
