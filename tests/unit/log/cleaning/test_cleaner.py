"""Compaction: what stays, what goes, and that a crash never mixes the two."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from klamm.log.cleaning import cleaner
from klamm.log.directory import LogDirectory
from klamm.log.disk.files import FilePool
from klamm.log.partition import PartitionLog
from klamm.log.recovery.loading import Known, load_log
from klamm.log.settings import LogSettings
from klamm.log.writing.append import AppendRefused
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.batch import (
    DELETE_HORIZON,
    BatchHeader,
    ControlKind,
    crc_ok,
    decode_records,
    encode_control_batch,
    iter_batches,
)
from unit.log.helpers import T0, append, batch, records, try_append

MakeLog = Callable[..., PartitionLog]
DAY = 86_400_000


@pytest.fixture
def log(make_log: MakeLog) -> PartitionLog:
    return make_log(compact=True, delete=False)


def put(log: PartitionLog, *pairs: tuple[str, str | None], **options: object) -> None:
    append(
        log,
        *(None if value is None else value.encode() for _, value in pairs),
        keys=[key.encode() for key, _ in pairs],
        **options,
    )
    log.advance_high_watermark(log.log_end_offset)


def end_transaction(log: PartitionLog, kind: ControlKind, producer_id: int) -> None:
    marker = encode_control_batch(
        kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=1, timestamp=T0
    )
    outcome = try_append(log, memoryview(bytearray(marker)), from_client=False)
    assert not isinstance(outcome, AppendRefused)
    log.advance_high_watermark(log.log_end_offset)


def pairs(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of all records but markers, aborted or not."""
    found = []
    for header, data in _stored(log):
        if not header.is_control:
            found += [
                (r.offset, (r.key or b"").decode(), r.value and r.value.decode())
                for r in decode_records(data)
            ]
    return found


def _stored(log: PartitionLog) -> Iterator[tuple[BatchHeader, memoryview]]:
    for segment in log.segments:
        yield from iter_batches(Path(segment.path).read_bytes())


def batches(log: PartitionLog) -> list[tuple[int, int, int]]:
    """(base offset, last offset, records) of every batch; all checksums must be right."""
    found = []
    for header, data in _stored(log):
        assert crc_ok(data)
        assert len(list(decode_records(data))) == header.record_count
        found.append((header.base_offset, header.last_offset, header.record_count))
    return found


def test_the_last_record_of_each_key_stays_where_it_is(log: PartitionLog) -> None:
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", "2"))
    put(log, ("c", "1"), ("b", "2"), ("c", "2"))
    log.roll()
    assert cleaner.clean(log, T0)
    assert pairs(log) == [(2, "a", "2"), (4, "b", "2"), (5, "c", "2")]
    assert batches(log) == [(2, 2, 1), (3, 5, 2)]
    assert log.log_end_offset == 6
    assert log.cleaned_to == 6


def test_the_active_segment_is_left_alone(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    log.roll()
    put(log, ("a", "2"))
    put(log, ("a", "3"))
    assert cleaner.clean(log, T0)
    assert [value for _, _, value in pairs(log)] == ["1", "2", "3"]


def test_a_later_cleaning_removes_what_an_earlier_one_kept(log: PartitionLog) -> None:
    put(log, ("a", "1"), ("b", "1"))
    log.roll()
    cleaner.clean(log, T0)
    put(log, ("a", "2"))
    log.roll()
    cleaner.clean(log, T0)
    assert pairs(log) == [(1, "b", "1"), (2, "a", "2")]


def test_small_segments_are_merged(log: PartitionLog) -> None:
    for number in range(5):
        put(log, (f"k{number}", "v"))
        log.roll()
    assert len(log.segments) == 6
    cleaner.clean(log, T0)
    assert log.segments.bases == [0, 5]
    assert len(pairs(log)) == 5


def test_groups_do_not_exceed_the_size_of_a_segment(make_log: MakeLog) -> None:
    log = make_log(compact=True, segment_bytes=400)
    for number in range(9):
        put(log, (f"key{number}", "v" * 60))
    log.roll()
    cleaner.clean(log, T0)
    assert all(segment.size <= 400 for segment in log.segments)
    assert len(pairs(log)) == 9


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_batches_stay_compressed(log: PartitionLog, codec: int) -> None:
    put(log, ("a", "1" * 100), ("b", "1" * 100), codec=codec)
    put(log, ("a", "2"))
    log.roll()
    cleaner.clean(log, T0)
    assert pairs(log) == [(1, "b", "1" * 100), (2, "a", "2")]
    first = next(log.segments[0].headers())[1]
    assert first.codec == codec


def test_a_tombstone_stays_until_its_horizon(log: PartitionLog) -> None:
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", None), ("c", "1"), timestamp=T0 + 5)
    log.roll()
    cleaner.clean(log, T0)
    assert pairs(log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    header = list(log.segments[0].headers())[-1][1]
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == T0 + DAY
    assert [record.timestamp for record in records(log)] == [T0 + 1, T0 + 5, T0 + 6]

    put(log, ("d", "1"))
    log.roll()
    cleaner.clean(log, T0 + DAY - 1)
    assert (2, "a", None) in pairs(log)

    put(log, ("e", "1"))
    log.roll()
    cleaner.clean(log, T0 + DAY)
    assert (2, "a", None) not in pairs(log)
    assert [key for _, key, _ in pairs(log)] == ["b", "c", "d", "e"]


def test_an_open_transaction_stops_the_cleaning(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    put(log, ("a", "3"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    put(log, ("a", "4"))
    log.roll()
    cleaner.clean(log, T0)
    assert [value for _, _, value in pairs(log)] == ["2", "3", "4"]
    assert log.cleaned_to == 2


def test_nothing_is_judged_that_may_not_be_cleaned_yet(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"before", keys=[None])
    append(log, b"x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, b"after", keys=[None])
    log.advance_high_watermark(3)
    log.settings = LogSettings(compact=True)
    log.roll()
    cleaner.clean(log, T0)
    assert [value for _, _, value in pairs(log)] == ["x", "after"]


def test_aborted_records_go_and_do_not_count(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "x"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    put(log, ("b", "1"), producer_id=2, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(log, ControlKind.ABORT, 1)
    end_transaction(log, ControlKind.COMMIT, 2)
    put(log, ("z", "1"), producer_id=1, producer_epoch=0, base_sequence=1)
    log.roll()
    cleaner.clean(log, T0)
    assert pairs(log) == [(0, "a", "1"), (2, "b", "1"), (5, "z", "1")]
    assert [(a.producer_id, a.first_offset) for a in log.aborted_transactions(0, 6)] == [(1, 1)]


def test_a_marker_goes_after_its_records_and_its_horizon(log: PartitionLog) -> None:
    put(log, ("a", "1"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(log, ControlKind.COMMIT, 1)
    put(log, ("z", "1"), producer_id=1, producer_epoch=0, base_sequence=1)
    log.roll()
    cleaner.clean(log, T0)
    assert batches(log) == [(0, 0, 1), (1, 1, 1), (2, 2, 1)]
    put(log, ("a", "2"))
    log.roll()
    cleaner.clean(log, T0 + 1)
    assert batches(log) == [(1, 1, 1), (2, 2, 1), (3, 3, 1)]
    put(log, ("b", "1"))
    log.roll()
    cleaner.clean(log, T0 + 1 + DAY)
    assert batches(log) == [(2, 2, 1), (3, 3, 1), (4, 4, 1)]


def test_an_epoch_whose_first_records_are_gone_keeps_its_start(log: PartitionLog) -> None:
    for epoch in (0, 1):
        put(log, ("a", "1"), epoch=epoch)
        put(log, ("a", "2"), epoch=epoch)
    log.roll()
    put(log, ("b", "1"), epoch=1)
    cleaner.clean(log, T0)
    assert batches(log) == [(3, 3, 1), (4, 4, 1)]
    log.flush()
    log.close(clean=False)
    found = load_log(log.topic_partition, log.directory, log.settings, log.pool, Known())
    assert found.epochs.entries == ((1, 2),)


def test_the_last_batch_of_a_producer_stays_even_empty(log: PartitionLog) -> None:
    put(log, ("a", "1"), ("b", "1"), producer_id=7, producer_epoch=3, base_sequence=5)
    put(log, ("a", "2"), ("b", "2"))
    log.roll()
    cleaner.clean(log, T0)
    assert batches(log) == [(0, 1, 0), (2, 3, 2)]
    known = Known(recovery_point=0)
    log.close(clean=False)
    found = load_log(log.topic_partition, log.directory, log.settings, log.pool, known)
    retry = batch(b"1", b"1", keys=[b"a", b"b"], producer_id=7, producer_epoch=3, base_sequence=5)
    assert try_append(found, retry).is_duplicate


def test_records_without_a_key_are_refused_and_old_ones_dropped(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"keyless", b"kept", keys=[None, b"k"])
    log.advance_high_watermark(2)
    log.settings = LogSettings(compact=True)
    refused = try_append(log, batch(b"a", b"b", keys=[b"k", None]))
    assert refused.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [1]
    log.roll()
    cleaner.clean(log, T0)
    assert pairs(log) == [(1, "k", "kept")]


def test_young_segments_wait_for_the_compaction_lag(make_log: MakeLog) -> None:
    log = make_log(compact=True, min_compaction_lag_ms=1000)
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll()
    put(log, ("a", "3"), timestamp=T0 + 500)
    log.roll()
    assert cleaner.plan(log, T0 + 999) is None
    cleaner.clean(log, T0 + 1400)
    assert [value for _, _, value in pairs(log)] == ["2", "3"]


def test_a_survey_that_is_full_leaves_the_rest_for_later(log: PartitionLog) -> None:
    for number in range(6):
        put(log, (f"k{number}", "1"))
        put(log, ("same", str(number)))
        log.roll()
    plan = cleaner.plan(log, T0)
    assert plan is not None
    cleaned = cleaner.build(plan, keys_max=3)
    assert cleaned is not None
    assert cleaned.end == 3
    assert cleaner.install(plan, cleaned)
    cleaner.clean(log, T0)
    assert log.cleaned_to == 12
    assert [key for _, key, _ in pairs(log)] == ["k0", "k1", "k2", "k3", "k4", "k5", "same"]


def test_a_plan_is_worthwhile_when_enough_is_dirty_or_it_is_overdue(make_log: MakeLog) -> None:
    log = make_log(compact=True, max_compaction_lag_ms=5000)
    put(log, *((f"k{n}", "v" * 50) for n in range(10)))
    log.roll()
    cleaner.clean(log, T0)
    put(log, ("k0", "v"))
    log.roll()
    plan = cleaner.plan(log, T0)
    assert plan is not None
    assert plan.dirty_ratio < 0.5
    assert not plan.is_worthwhile
    later = cleaner.plan(log, T0 + 5001)
    assert later is not None
    assert later.is_worthwhile


def test_what_was_built_for_a_log_that_changed_is_thrown_away(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll()
    put(log, ("b", "1"))
    plan = cleaner.plan(log, T0)
    assert plan is not None
    cleaned = cleaner.build(plan)
    assert cleaned is not None
    log.truncate_to(2)
    assert not cleaner.install(plan, cleaned)
    assert [value for _, _, value in pairs(log)] == ["1", "2"]
    assert not [name for name in os.listdir(log.directory) if name.endswith(".cleaned")]


def test_a_reader_goes_on_with_the_file_it_has(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll()
    part = log.read(0, max_bytes=1000)
    before = part.read()
    cleaner.clean(log, T0)
    log.segments.purge(T0 * 2)
    assert part.read() == before


def test_the_directory_picks_the_dirtiest_log_and_remembers(tmp_path: Path) -> None:
    settings = LogSettings(compact=True, delete=False)
    directory = LogDirectory.open(tmp_path, 0, "c" * 22, settings_for=lambda topic: settings)
    clean, dirty = (
        directory.create(TopicPartition(name, 0), None, settings) for name in ("clean", "dirty")
    )
    for log in (clean, dirty):
        put(log, *((f"k{n}", "v" * 50) for n in range(10)))
        log.roll()
    cleaner.clean(clean, T0)
    put(clean, *((f"k{n}", "v" * 50) for n in range(10)))
    clean.roll()
    plan = directory.plan_cleaning(T0)
    assert plan is not None
    assert plan.log is dirty
    cleaned = cleaner.build(plan)
    assert cleaned is not None
    cleaner.install(plan, cleaned)
    directory.checkpoint_cleaned()
    text = (tmp_path / "cleaner-offset-checkpoint").read_text()
    assert text == "0\n2\nclean 0 10\ndirty 0 10\n"
    directory.close()
    directory = LogDirectory.open(tmp_path, 0, "c" * 22, settings_for=lambda topic: settings)
    found = directory.get(TopicPartition("dirty", 0))
    assert found is not None
    assert found.cleaned_to == 10
    directory.close()


def crash_in_install(directory: Path, settings: LogSettings, fatal: int) -> int:
    """Clean the log in a child that dies at its n-th change of the directory; its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        log = load_log(TopicPartition("t", 0), str(directory), settings, FilePool(), Known())
        log.advance_high_watermark(log.log_end_offset)
        plan = cleaner.plan(log, T0)
        assert plan is not None
        cleaned = cleaner.build(plan)
        assert cleaned is not None
        count = 0

        def crash(event: str, arguments: object) -> None:
            nonlocal count
            count += event in ("os.rename", "os.remove", "os.truncate")
            if count == fatal:
                os._exit(9)

        sys.addaudithook(crash)
        cleaner.install(plan, cleaned)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child does nothing else
def test_a_crash_anywhere_leaves_the_old_or_the_new_segments(
    tmp_path: Path, make_log: MakeLog
) -> None:
    settings = LogSettings(compact=True, segment_bytes=600)
    log = make_log(compact=True, segment_bytes=600)
    for number in range(14):
        put(log, (f"k{number % 3}", f"{number}" * 40), (f"once{number}", "v"))
    expected = {key: value for _, key, value in pairs(log)}
    log.close(clean=False)
    outcomes = set()
    for fatal in range(1, 200):
        copy = tmp_path / "crashed"
        _copy(Path(log.directory), copy)
        died = crash_in_install(copy, settings, fatal)
        found = load_log(TopicPartition("t", 0), str(copy), settings, log.pool, Known())
        assert found.log_end_offset == 28
        assert {key: value for _, key, value in pairs(found)} == expected
        assert not [n for n in os.listdir(copy) if n.endswith((".swap", ".cleaned", ".deleted"))]
        outcomes.add(len(pairs(found)))
        found.close(clean=False)
        if not died:
            break
        assert died == 9
    assert fatal > 10, "there were crash points"
    assert len(outcomes) > 1, "some crashes came before the decision, some after"


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        for path in target.iterdir():
            path.unlink()
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())


def test_all_that_is_read_and_written_is_told_to_the_pace(log: PartitionLog) -> None:
    for value in ("1", "2", "3"):
        put(log, ("a", value))
    log.roll()
    plan = cleaner.plan(log, T0)
    assert plan is not None
    told: list[int] = []
    cleaned = cleaner.build(plan, pace=told.append)
    assert cleaned is not None
    read = sum(segment.size for segment in plan.segments)
    written = sum(segment.size for _, segment in cleaned.replacements)
    # Once to see where each key is last, once to sift.
    assert sum(told) == 2 * read + written
    assert 0 < written < read
    assert cleaner.install(plan, cleaned)
