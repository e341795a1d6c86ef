"""Segment files that have their full size from the beginning."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.log.disk.files import FilePool
from klamm.log.partition import PartitionLog
from klamm.log.recovery.loading import Known, load_log
from klamm.log.settings import LogSettings
from unit.log.conftest import PARTITION
from unit.log.helpers import append, values

SETTINGS = LogSettings(preallocate=True, segment_bytes=1000)
WRITTEN = [b"%d" % number * 100 for number in range(7)]

MakeLog = Callable[..., PartitionLog]


def sizes(log: PartitionLog) -> list[int]:
    return [os.stat(segment.path).st_size for segment in log.segments]


def again(log: PartitionLog, **known: object) -> PartitionLog:
    return load_log(PARTITION, log.directory, SETTINGS, log.pool, Known(**known))  # type: ignore[arg-type]


@pytest.fixture
def log(make_log: MakeLog) -> PartitionLog:
    log = make_log(preallocate=True, segment_bytes=1000)
    for value in WRITTEN:
        append(log, value)
    assert len(log.segments) > 1
    return log


def test_a_file_has_its_full_size_until_its_segment_is_closed(log: PartitionLog) -> None:
    *closed, active = log.segments
    assert sizes(log) == [*(segment.size for segment in closed), 1000]
    assert active.size < 1000
    assert values(log) == WRITTEN


def test_a_clean_stop_leaves_what_is_written(log: PartitionLog) -> None:
    log.close(clean=True)
    found = again(log, clean=True, recovery_point=log.log_end_offset)
    assert sizes(found) == [segment.size for segment in log.segments]
    assert values(found) == WRITTEN
    append(found, b"more")
    assert values(found) == [*WRITTEN, b"more"]


def test_a_new_segment_without_records_is_cut_as_well(log: PartitionLog) -> None:
    log.roll()
    assert sizes(log)[-1] == 1000
    log.close(clean=True)
    assert sizes(log)[-1] == 0


def test_recovery_finds_the_real_end(log: PartitionLog) -> None:
    log.close(clean=False)
    found = again(log)
    assert found.log_end_offset == len(WRITTEN)
    assert sizes(found)[-1] == found.segments.active.size
    append(found, b"more")
    assert values(found) == [*WRITTEN, b"more"]


def test_a_closed_file_that_was_never_cut_hides_no_later_segment(log: PartitionLog) -> None:
    first = log.segments[0]
    log.close(clean=False)
    os.truncate(first.path, 1000)  # the cut had not reached the disk when the power went
    found = again(log)
    assert values(found) == WRITTEN
    assert sizes(found)[0] == first.size


def test_missing_records_still_end_the_log(log: PartitionLog) -> None:
    first = log.segments[0]
    log.close(clean=False)
    last = list(first.headers())[-1]
    os.truncate(first.path, last[0])
    os.truncate(first.path, 1000)  # zeros where a batch was
    found = again(log)
    assert found.log_end_offset == last[1].base_offset
    assert values(found) == WRITTEN[: found.log_end_offset]


def test_a_file_that_was_cut_back_goes_on(log: PartitionLog, tmp_path: Path) -> None:
    log.truncate_to(len(WRITTEN) - 1)
    append(log, b"other", epoch=1)
    log.close(clean=False)
    log.pool = FilePool()
    assert values(again(log)) == [*WRITTEN[:-1], b"other"]
