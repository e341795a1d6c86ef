"""Appending, reading and cutting one log."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.log.epochs import EpochCache
from klamm.log.partition import PartitionLog
from klamm.log.settings import LogSettings
from klamm.log.writing.append import Appended, AppendRefused
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.protocol.batch import (
    LOG_APPEND_TIME,
    Codec,
    Record,
    crc_ok,
    encode_batch,
    iter_batches,
    parse_header,
)
from unit.log.helpers import T0, append, batch, records, try_append, values

MakeLog = Callable[..., PartitionLog]


def test_offsets_follow_each_other(make_log: MakeLog) -> None:
    log = make_log()
    assert append(log, b"a", b"b") == Appended(0, 1, 0)
    assert append(log, b"c") == Appended(2, 2, 0)
    assert log.log_end_offset == 3
    assert [(r.offset, r.value) for r in records(log)] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_the_leader_stamps_offset_and_epoch_and_leaves_the_checksum_right(
    make_log: MakeLog,
) -> None:
    log = make_log()
    append(log, b"a", epoch=4)
    append(log, b"b", epoch=7)
    found = [
        (header.base_offset, header.leader_epoch, crc_ok(data))
        for header, data in iter_batches(log.read(0, max_bytes=1000).read())
    ]
    assert found == [(0, 4, True), (1, 7, True)]
    assert log.epochs.entries == ((4, 0), (7, 1))


def test_reading_starts_at_the_batch_that_holds_the_offset(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    part = log.read(2, max_bytes=1000)
    assert parse_header(part.read()).base_offset == 0
    assert values(log, 2) == [b"c", b"d"]


@pytest.mark.parametrize("offset", [-1, 5])
def test_an_offset_outside_of_the_log_is_out_of_range(make_log: MakeLog, offset: int) -> None:
    log = make_log()
    append(log, b"a", b"b", b"c", b"d")
    assert log.read(offset, max_bytes=10) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_end_of_the_log_is_in_range_and_empty(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a")
    assert log.read(1, max_bytes=10).size == 0


def test_nothing_from_the_bound_on_is_returned(make_log: MakeLog) -> None:
    log = make_log()
    for value in (b"a", b"b", b"c"):
        append(log, value, b"-")
    assert values(log, 0, upto=4) == [b"a", b"-", b"b", b"-"]
    assert values(log, 0, upto=5) == [b"a", b"-", b"b", b"-"], "a batch is below the bound or not"
    assert log.read(4, max_bytes=1000, upto=4).size == 0


def test_the_first_batch_is_returned_whole_even_when_it_is_too_large(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"x" * 500)
    append(log, b"y")
    assert [h.base_offset for h, _ in iter_batches(log.read(0, max_bytes=10).read())] == [0]
    nothing = log.read(0, max_bytes=10, at_least_one=False)
    assert (nothing.size, nothing.left_out) == (0, 10), "never a part of the first batch alone"


def test_an_answer_ends_with_a_whole_batch_where_batches_are_large(make_log: MakeLog) -> None:
    log = make_log()
    for _ in range(4):
        append(log, b"x" * 400)
    one = log.read(0, max_bytes=10).size
    part = log.read(0, max_bytes=one + 60)
    assert (part.size, part.left_out) == (one, 60), "nothing that would be sent again"
    assert log.read(0, max_bytes=2 * one).size == 2 * one
    assert log.read(0, max_bytes=4 * one).size == 4 * one
    assert log.read(1, max_bytes=3 * one - 1, at_least_one=False).size == 2 * one


def test_small_batches_fill_an_answer_to_the_byte(make_log: MakeLog) -> None:
    log = make_log()
    for _ in range(40):
        append(log, b"x" * 10)
    one = log.read(0, max_bytes=10).size
    assert log.read(0, max_bytes=30 * one + 5).size == 30 * one + 5


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"cut": 60}, ErrorCode.INVALID_RECORD),
        ({"cut": -1}, ErrorCode.INVALID_RECORD),
        ({"double": True}, ErrorCode.INVALID_RECORD),
        ({"byte": 16}, ErrorCode.INVALID_RECORD),
        ({"byte": 7}, ErrorCode.INVALID_RECORD),
        ({"byte": 70}, ErrorCode.CORRUPT_MESSAGE),
        ({"byte": 17}, ErrorCode.CORRUPT_MESSAGE),
        ({"last_offset": 7}, ErrorCode.INVALID_RECORD),
        ({"is_control": True}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 5, "producer_epoch": 0}, ErrorCode.INVALID_RECORD),
        ({"codec": 4, "version": 6}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"attributes": 7}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_a_leader_refuses(make_log: MakeLog, change: dict[str, int], code: ErrorCode) -> None:
    log = make_log()
    version = change.pop("version", 11)
    cut, double, byte = (change.pop(name, None) for name in ("cut", "double", "byte"))
    data = batch(b"hello", b"there", **change)
    if cut:
        data = data[:cut]
    if double:
        data = memoryview(bytearray(data) * 2)
    if byte:
        data[byte] ^= 1
    outcome = try_append(log, data, request_version=version)
    assert isinstance(outcome, AppendRefused)
    assert outcome.code is code
    assert log.log_end_offset == 0
    assert log.size_bytes == 0


def test_too_large_for_the_topic_and_too_large_for_a_segment(make_log: MakeLog) -> None:
    log = make_log(max_message_bytes=200, segment_bytes=150)
    assert try_append(log, batch(b"x" * 200)).code is ErrorCode.MESSAGE_TOO_LARGE
    assert try_append(log, batch(b"x" * 100)).code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_append_time_is_stamped_and_sealed(make_log: MakeLog) -> None:
    log = make_log(log_append_time=True)
    outcome = try_append(log, batch(b"a", b"b", timestamp=5), now_ms=T0 + 9)
    assert outcome == Appended(0, 1, 0, T0 + 9)
    assert crc_ok(log.read(0, max_bytes=1000).read())
    assert [record.timestamp for record in records(log)] == [T0 + 9, T0 + 9]


def test_a_read_only_batch_is_copied_before_it_is_stamped(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a")
    data = bytes(batch(b"b"))
    assert try_append(log, memoryview(data)) == Appended(1, 1, 0)
    assert parse_header(data).base_offset == 0


def test_followers_keep_the_bytes_and_leave_out_a_cut_batch(
    make_log: MakeLog, tmp_path: Path, pool: object
) -> None:
    leader = make_log()
    for value in (b"a", b"b", b"c"):
        append(leader, value, epoch=3)
    data = leader.read(0, max_bytes=10_000).read()
    follower = PartitionLog.create(
        leader.topic_partition,
        str(tmp_path / "follower"),
        leader.settings,
        leader.pool,
    )
    assert follower.append_as_follower(memoryview(data[:-5])) == Appended(0, 1, 0)
    assert follower.append_as_follower(memoryview(data)) == Appended(2, 2, 0)
    assert follower.read(0, max_bytes=10_000).read() == data
    assert follower.epochs.entries == ((3, 0),)


def test_a_damaged_batch_from_a_leader_is_not_written(make_log: MakeLog) -> None:
    data = batch(b"a", b"b")
    data[-1] ^= 1
    log = make_log()
    with pytest.raises(ProtocolError):
        log.append_as_follower(data)
    assert log.size_bytes == 0


def test_segments_roll_by_size_and_reading_goes_on(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200)
    for number in range(10):
        append(log, b"%d" % number * 50)
    assert log.segments.bases == list(range(10))
    assert values(log) == [b"%d" % number * 50 for number in range(10)]


def test_segments_roll_by_the_time_of_their_messages(make_log: MakeLog) -> None:
    log = make_log(segment_ms=1000)
    append(log, b"a", timestamp=T0)
    append(log, b"b", timestamp=T0 + 1000)
    append(log, b"c", timestamp=T0 + 1001)
    assert log.segments.bases == [0, 2]


def test_truncation_drops_whole_batches(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=250)
    for number in range(8):
        append(log, b"%d" % number * 40, b"-", epoch=number // 3)
    log.advance_high_watermark(16)
    assert log.truncate_to(9) == 8
    assert (log.log_end_offset, log.high_watermark) == (8, 8)
    assert log.epochs.latest == 1
    append(log, b"new", epoch=5)
    assert values(log)[-2:] == [b"-", b"new"]


def test_a_log_can_restart_elsewhere(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a")
    log.restart_at(70)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (70, 70, 70)
    assert append(log, b"b").base_offset == 70
    assert values(log) == [b"b"]


def test_a_flush_does_not_vouch_for_records_that_were_replaced_meanwhile(
    make_log: MakeLog,
) -> None:
    log = make_log()
    append(log, b"a", b"b")

    class Interrupting(EpochCache):
        """While a flush writes the epochs, the loop cuts the log and goes on."""

        @property
        def entries(self) -> tuple[tuple[int, int], ...]:
            log.truncate_to(0)
            append(log, b"other", b"others")
            return super().entries

    log.epochs = Interrupting(lambda: log.log_end_offset)
    log.epochs.assign(1, 0)
    log.flush()
    assert (log.log_end_offset, log.recovery_point) == (2, 0)


def test_a_log_that_is_deleted_during_a_flush_is_no_failure(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a")
    log.close(clean=False)
    shutil.rmtree(log.directory)
    log.flush()
    assert log.health.failure is None


def test_an_empty_follower_may_begin_inside_a_batch(make_log: MakeLog) -> None:
    log = make_log()
    log.restart_at(12)
    data = encode_batch([Record(n, T0, None, b"v") for n in range(10, 15)], base_offset=10)
    log.append_as_follower(memoryview(data))
    assert (log.log_start_offset, log.log_end_offset) == (12, 15)
    assert [record.offset for record in records(log)] == [12, 13, 14]


def test_a_follower_refuses_a_batch_that_overlaps_its_end(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a", b"b", b"c")
    data = encode_batch([Record(n, T0, None, b"v") for n in range(1, 6)], base_offset=1)
    with pytest.raises(ProtocolError, match="overlaps"):
        log.append_as_follower(memoryview(data))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("sent", [0, 1, 4])
def test_a_topic_may_want_its_own_codec(make_log: MakeLog, codec: str, sent: int) -> None:
    log = make_log(compression_type=codec)
    append(log, b"v" * 500, b"w", codec=sent)
    data = log.read(0, max_bytes=10_000).read()
    assert crc_ok(data)
    assert Codec(parse_header(data).codec).name.lower() == codec.replace("uncompressed", "none")
    assert values(log) == [b"v" * 500, b"w"]


@pytest.mark.parametrize(("time", "fits"), [(T0 - 101, False), (T0 - 100, True), (T0 + 51, False)])
def test_records_too_old_or_too_new_are_named(make_log: MakeLog, time: int, fits: bool) -> None:
    log = make_log(timestamp_before_max_ms=100, timestamp_after_max_ms=50)
    outcome = try_append(log, batch(b"a", timestamp=time), now_ms=T0)
    if fits:
        assert isinstance(outcome, Appended)
    else:
        assert isinstance(outcome, AppendRefused)
        assert outcome.code is ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in outcome.record_errors] == [0]


def test_a_batch_that_claims_the_brokers_time_is_refused(make_log: MakeLog) -> None:
    refused = try_append(make_log(), batch(b"a", attributes=LOG_APPEND_TIME))
    assert refused.code is ErrorCode.INVALID_TIMESTAMP


def test_reading_far_behind_uses_the_index(make_log: MakeLog) -> None:
    log = make_log(index_interval_bytes=500)
    for number in range(400):
        append(log, b"%d" % number)
    assert len(log.segments.active.offsets) > 20
    for offset in (0, 1, 57, 200, 399):
        part = log.read(offset, max_bytes=100)
        assert parse_header(part.read()).base_offset == offset


def test_a_follower_splits_what_it_gets_at_the_size_of_a_segment(
    make_log: MakeLog, tmp_path: Path
) -> None:
    leader = make_log()
    for number in range(20):
        append(leader, b"%d" % number * 20, epoch=number // 8)
    data = leader.read(0, max_bytes=100_000).read()
    follower = PartitionLog.create(
        leader.topic_partition,
        str(tmp_path / "follower"),
        LogSettings(segment_bytes=350),
        leader.pool,
    )
    assert follower.append_as_follower(memoryview(data)) == Appended(0, 19, 0)
    assert len(follower.segments) > 5
    assert all(segment.size <= 350 for segment in follower.segments)
    assert values(follower) == values(leader)
    assert follower.epochs.entries == leader.epochs.entries


def test_reading_in_a_gap_goes_on_behind_it(make_log: MakeLog) -> None:
    log = make_log()
    for first in (10, 20, 30):
        data = encode_batch([Record(first + n, T0, None, b"v") for n in (0, 1)], base_offset=first)
        log.append_as_follower(memoryview(data))
    for offset, expected in ((0, 10), (11, 10), (12, 20), (19, 20), (22, 30)):
        assert parse_header(log.read(offset, max_bytes=500).read()).base_offset == expected
    assert log.read(12, max_bytes=500, upto=15).size == 0
    assert values(log, 0, upto=12) == [b"v", b"v"]
    assert values(log, 0, upto=20) == [b"v", b"v"]
