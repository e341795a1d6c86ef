"""What a log lets go of, and when."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.log.partition import PartitionLog
from klamm.model.errors import ErrorCode
from unit.log.helpers import T0, append, values

MakeLog = Callable[..., PartitionLog]


def fill(log: PartitionLog, count: int = 5) -> None:
    """A segment for each record, a second apart."""
    for number in range(count):
        append(log, b"%d" % number, timestamp=T0 + number * 1000)
        if number < count - 1:
            log.roll()
    log.advance_high_watermark(count)


def test_segments_older_than_the_time_go(make_log: MakeLog) -> None:
    log = make_log(retention_ms=2000)
    fill(log)
    assert log.apply_retention(T0 + 3000) == 1
    assert log.apply_retention(T0 + 3000) == 0
    assert log.log_start_offset == 1
    assert values(log) == [b"1", b"2", b"3", b"4"]
    assert log.read(0, max_bytes=100) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_active_segment_goes_too_and_the_log_knows_its_end(make_log: MakeLog) -> None:
    log = make_log(retention_ms=2000)
    fill(log)
    assert log.apply_retention(T0 + 100_000) == 5
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert log.segments.bases == [5]
    assert Path(log.segments.active.path).exists()
    assert append(log, b"next").base_offset == 5


def test_nothing_above_the_high_watermark_goes(make_log: MakeLog) -> None:
    log = make_log(retention_ms=0)
    fill(log)
    log.high_watermark = 2
    assert log.apply_retention(T0 + 100_000) == 2
    assert log.log_start_offset == 2


def test_only_the_excess_of_size_goes(make_log: MakeLog) -> None:
    log = make_log(retention_ms=-1, retention_bytes=200)
    fill(log)
    size = log.segments[0].size
    assert 2 * size <= 200 < 3 * size
    assert log.apply_retention(T0) == 2, "three segments are just above the limit"
    assert log.size_bytes == 3 * size


def test_no_limit_no_loss(make_log: MakeLog) -> None:
    log = make_log(retention_ms=-1, retention_bytes=-1)
    fill(log)
    assert log.apply_retention(T0 * 2) == 0


def test_deleted_records_take_their_segments_with_them(make_log: MakeLog) -> None:
    log = make_log(retention_ms=-1)
    fill(log)
    assert log.advance_log_start(3)
    assert values(log) == [b"3", b"4"]
    assert log.segments.bases == [0, 1, 2, 3, 4]
    assert log.apply_retention(T0) == 3
    assert log.segments.bases == [3, 4]


@pytest.mark.parametrize("offset", [0, 6])
def test_the_start_neither_goes_back_nor_past_the_high_watermark(
    make_log: MakeLog, offset: int
) -> None:
    log = make_log()
    fill(log)
    assert not log.advance_log_start(offset)
    assert log.log_start_offset == 0


def test_a_compacted_log_keeps_old_segments_but_not_deleted_records(make_log: MakeLog) -> None:
    log = make_log(delete=False, retention_ms=0, retention_bytes=0)
    fill(log)
    assert log.apply_retention(T0 * 2) == 0
    log.advance_log_start(2)
    assert log.apply_retention(T0 * 2) == 2


def test_files_are_renamed_first_and_removed_after_the_delay(make_log: MakeLog) -> None:
    log = make_log(retention_ms=0, file_delete_delay_ms=5000)
    fill(log, 2)
    part = log.read(0, max_bytes=100)
    now = T0 + 100_000
    log.apply_retention(now)
    left = [name for name in os.listdir(log.directory) if name.endswith(".deleted")]
    assert "00000000000000000000.log.deleted" in left
    assert log.segments.next_purge_ms == now + 5000
    log.segments.purge(now + 4999)
    assert sorted(os.listdir(log.directory)) == sorted({*os.listdir(log.directory), *left})
    log.segments.purge(now + 5000)
    assert not [name for name in os.listdir(log.directory) if name.endswith(".deleted")]
    assert len(part.read()) == part.size, "who had found it may still send it"


def test_epochs_of_segments_that_were_too_old_go(make_log: MakeLog) -> None:
    log = make_log(retention_ms=500)
    for number in range(3):
        append(log, b"x", epoch=number, timestamp=T0 + number * 1000)
        log.roll()
    log.advance_high_watermark(3)
    log.apply_retention(T0 + 2000)
    assert log.epochs.entries == ((2, 2),)


def test_epochs_and_snapshots_go_with_their_records(make_log: MakeLog) -> None:
    log = make_log(retention_ms=-1)
    for number in range(4):
        append(log, b"x", epoch=number, producer_id=1, producer_epoch=0, base_sequence=number)
        log.roll()
    log.advance_high_watermark(4)
    log.advance_log_start(2)
    log.apply_retention(T0)
    assert log.epochs.entries == ((2, 2), (3, 3))
    snapshots = sorted(name for name in os.listdir(log.directory) if name.endswith("snapshot"))
    assert snapshots == [f"{offset:020d}.snapshot" for offset in (2, 3, 4)]
