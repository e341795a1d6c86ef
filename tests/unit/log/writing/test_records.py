"""What a log makes of hostile records: on the way in, in a look-up and in a cleaning."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import islice

import pytest

from klamm.log.cleaning import cleaner
from klamm.log.partition import PartitionLog
from klamm.log.settings import LogSettings
from klamm.log.writing.append import LATER, Appended, AppendRefused
from klamm.model.errors import ErrorCode
from klamm.protocol.batch import HEADER_SIZE as H
from klamm.protocol.batch import (
    MAGIC,
    BatchHeader,
    Codec,
    Record,
    compress,
    crc_ok,
    encode_batch,
    iter_batches,
    seal,
)
from klamm.protocol.native.records import LOOPS
from klamm.protocol.varint import varint
from leading import offset_for_timestamp, offset_of_max_timestamp
from unit.log.helpers import T0, append, batch, records, try_append

MakeLog = Callable[..., PartitionLog]


@pytest.fixture(params=["by hand", "compiled"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two ways to look through records."""
    name: str = request.param
    if name == "by hand":
        monkeypatch.setattr(LOOPS, "kernel", None)
    elif LOOPS.kernel is None:
        pytest.skip(f"no compiled loops: {LOOPS.why_not}")
    return name


def raw(area: bytes, count: int, codec: int = 0, **fields: int) -> memoryview:
    """A batch with a right checksum around any bytes."""
    if codec:
        area = compress(codec, area)
    header = BatchHeader(
        0, 0, -1, MAGIC, 0, codec, count - 1, T0, T0, producer_id=-1,
        producer_epoch=-1, base_sequence=-1, record_count=count,
    )  # fmt: skip
    return memoryview(bytearray(seal(header._replace(**fields), area)))


def copy(data: memoryview) -> memoryview:
    return memoryview(bytearray(data))


def area(*offsets: int) -> bytes:
    return encode_batch([Record(i, T0, b"k", b"v") for i in offsets])[H:]


POISON = {
    "garbage": raw(b"\xff\x07garbage" * 9, 5),
    "no bytes": raw(b"", 1),
    "2^31-1 records in no bytes": raw(b"", (1 << 31) - 1),
    "2^31-1 records in few compressed bytes": raw(b"\0" * 99, (1 << 31) - 1, Codec.ZSTD),
    "one record too many": raw(area(0, 1), 3),
    "one record too few": raw(area(0, 1), 1),
    "more bytes": raw(area(0) + b"\0", 1),
    "an offset twice": raw(area(0, 0), 2),
    "offsets out of order": raw(area(1, 0), 2),
    "the middle is garbage": raw(area(0) + b"\x10" + b"\xff" * 8 + area(2), 3),
    "the last offset of many": raw(area(*range(199), 3), 200),
    "the first offset of many": raw(area(7, *range(1, 200)), 200),
    "a broken chain": raw(area(*range(10)) + b"\x7f" + area(*range(11, 200)), 200),
    "many without a last": raw(area(*range(199)) + b"\xff" * 9, 200),
    "many records too few": raw(area(*range(50), 199), 200),
    "no zstd": raw(b"garbage", 1, attributes=Codec.ZSTD),
    "no gzip": raw(b"garbage", 1, attributes=Codec.GZIP),
    "no snappy": raw(b"garbage", 1, attributes=Codec.SNAPPY),
    "no lz4": raw(b"garbage", 1, attributes=Codec.LZ4),
    "a transaction of nobody": raw(area(0), 1, attributes=0x10),
    "a delete horizon": raw(area(0), 1, attributes=0x40),
    **{
        f"{codec.name} of garbage": raw(b"\xff\x07garbage" * 9, 5, codec)
        for codec in Codec
        if codec
    },
}


@pytest.mark.parametrize("poison", POISON.values(), ids=list(POISON))
def test_poison_is_refused(make_log: MakeLog, loops: str, poison: memoryview) -> None:
    log = make_log()
    outcome = try_append(log, poison)
    assert isinstance(outcome, AppendRefused)
    too_many = outcome.code is ErrorCode.MESSAGE_TOO_LARGE and "unpacked" in outcome.message
    assert outcome.code is ErrorCode.INVALID_RECORD or too_many
    assert log.log_end_offset == 0


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [1, 3, 50, 3000])
def test_what_is_right_is_taken(make_log: MakeLog, loops: str, codec: Codec, count: int) -> None:
    log = make_log()
    append(log, *(b"%d" % i for i in range(count)), codec=codec)
    assert [record.offset for record in records(log)] == list(range(count))


def test_by_hand_the_middle_of_many_is_not_looked_at(make_log: MakeLog, loops: str) -> None:
    """As docs say (rooms/log.md); topics that ask for keys or times have each record opened."""
    odd = raw(area(*range(100), 7, *range(101, 200)), 200)
    log = make_log()
    # A leader stamps what it appends, so each time it is a copy.
    assert isinstance(try_append(log, copy(odd)), AppendRefused) == (loops == "compiled")
    for asks in (LogSettings(compact=True), LogSettings(timestamp_after_max_ms=10)):
        log.settings = asks
        assert isinstance(try_append(log, copy(odd)), AppendRefused)


def test_by_hand_as_many_lengths_are_followed_as_are_allowed(make_log: MakeLog, loops: str) -> None:
    chain = raw(area(*range(100)) + b"\x7f" + area(*range(101, 200)), 200)
    log = make_log()
    taken = []
    for most in (0, 98, 120):
        log.settings = LogSettings(records_by_hand_max=most)
        taken.append(isinstance(try_append(log, copy(chain)), Appended))
    assert taken == ([True, True, False] if loops == "by hand" else [False] * 3)


def test_by_hand_no_sound_batch_is_refused(make_log: MakeLog, loops: str) -> None:
    """Where the last record is not seen from the end, all lengths are followed."""
    log = make_log()
    append(log, *[b"x" * 9_000] * 100)  # further from the end than is looked
    append(log, *[b"%d" % i for i in range(99)], varint(99) * 50)  # its offset many times
    late = encode_batch([Record(i, T0 + (i << 40), None, b"") for i in range(100)])
    assert isinstance(try_append(log, memoryview(bytearray(late))), Appended)
    assert log.log_end_offset == 300


def test_a_wrong_largest_time_is_set_right_where_each_record_is_opened(
    make_log: MakeLog, loops: str
) -> None:
    log = make_log()
    for count in (2, 20):
        sent = batch(*[b"x"] * count, max_timestamp=T0 + 999)
        assert isinstance(try_append(log, sent), Appended)
    part = log.read(0, max_bytes=1 << 20)
    assert not isinstance(part, ErrorCode)
    written = list(iter_batches(part.read()))
    told = T0 + 19 if loops == "compiled" else T0 + 999
    assert [header.max_timestamp for header, _ in written] == [T0 + 1, told]
    assert all(crc_ok(data) for _, data in written)


def test_a_time_out_of_all_bounds_is_refused(make_log: MakeLog) -> None:
    outcome = try_append(make_log(), raw(area(0), 1, base_timestamp=1 << 62))
    assert isinstance(outcome, AppendRefused)
    assert outcome.code is ErrorCode.INVALID_TIMESTAMP


def test_each_faulty_record_is_named(make_log: MakeLog, loops: str) -> None:
    log = make_log(compact=True)
    outcome = try_append(log, batch(b"a", b"b", b"c", keys=[b"k", None, None]))
    assert isinstance(outcome, AppendRefused)
    assert outcome.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in outcome.record_errors] == [1, 2]


def bomb(count: int = 1_000_000) -> memoryview:
    """Many records in few bytes: all without anything in them."""
    return raw(b"\x0c\0\0\0\x01\x01\0" * count, count, Codec.ZSTD)


def test_what_expands_too_far_is_refused_before_it_takes_memory(make_log: MakeLog) -> None:
    log = make_log(expanded_bytes_max=1 << 20)
    many = bomb()
    few = raw(b"\0" * 50_000_000, 5, Codec.ZSTD)
    assert len(many) < 10_000
    tracemalloc.start()
    for data in (many, few):
        outcome = try_append(log, data)
        assert isinstance(outcome, AppendRefused)
        assert outcome.code is ErrorCode.MESSAGE_TOO_LARGE
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_what_takes_long_is_left_for_later(make_log: MakeLog, loops: str) -> None:
    log = make_log()
    assert log.append_at_once(bomb(), leader_epoch=0, now_ms=T0) is LATER
    packed = batch(*[b"x" * 1000] * 300, codec=Codec.GZIP)
    assert log.append_at_once(packed, leader_epoch=0, now_ms=T0) is LATER
    small = batch(*[b"x" * 10] * 30, codec=Codec.GZIP)
    assert isinstance(log.append_at_once(small, leader_epoch=0, now_ms=T0), Appended)


def as_written_before(log: PartitionLog, data: memoryview) -> None:
    """Put a batch into a log that nobody has looked through, as an older broker did."""
    end = log.log_end_offset
    changed = bytearray(data)
    changed[:8] = end.to_bytes(8, "big")
    log.append_as_follower(memoryview(changed), now_ms=T0)
    log.advance_high_watermark(log.log_end_offset)


@pytest.mark.parametrize("poison", ["garbage", "no zstd", "one record too many"])
def test_a_batch_that_does_not_open_is_found_as_a_whole(make_log: MakeLog, poison: str) -> None:
    log = make_log()
    append(log, b"a", timestamp=T0 - 10)
    as_written_before(log, POISON[poison])
    append(log, b"z", timestamp=T0 + 10)
    log.advance_high_watermark(log.log_end_offset)
    assert offset_for_timestamp(log, T0 - 5) == (1, T0)
    assert offset_for_timestamp(log, T0 + 5) == (log.log_end_offset - 1, T0 + 10)
    assert offset_of_max_timestamp(log) == (log.log_end_offset - 1, T0 + 10)


def test_a_search_opens_a_bounded_number_of_batches(make_log: MakeLog) -> None:
    log = make_log()
    for _ in range(100):
        as_written_before(log, raw(area(0), 1, max_timestamp=T0 + 5))
    search = log.search_timestamp(T0 + 5, 100)
    assert all(wanted is not None for wanted in islice(search, 64))
    with pytest.raises(StopIteration) as stop:
        next(search)
    assert stop.value.value == (64, T0 + 5)


def test_a_cleaning_of_a_bomb_takes_little_memory(make_log: MakeLog) -> None:
    log = make_log(compact=True, expanded_bytes_max=1 << 20, segment_bytes=20_000)
    append(log, b"old", b"new", keys=[b"a", b"a"])
    as_written_before(log, bomb())
    as_written_before(log, POISON["garbage"])
    append(log, b"x" * 15_000, keys=[b"a"])
    append(log, b"y" * 15_000, keys=[b"b"])
    log.advance_high_watermark(log.log_end_offset)
    tracemalloc.start()
    plan = cleaner.plan(log, T0)
    assert plan is not None
    cleaned = cleaner.build(plan)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cleaned is not None
    assert cleaned.uncleaned == (2, 1_000_002)
    assert cleaner.install(plan, cleaned)
    part = log.read(0, max_bytes=1 << 20)
    assert not isinstance(part, ErrorCode)
    assert {2, 1_000_002} <= {header.base_offset for header, _ in iter_batches(part.read())}
    assert peak < 4 << 20


def test_a_cleaning_can_be_stopped(make_log: MakeLog) -> None:
    log = make_log(compact=True, segment_bytes=30_000)
    for _ in range(3):
        append(log, *[b"x"] * 1500, keys=[b"%d" % i for i in range(1500)])
    log.advance_high_watermark(log.log_end_offset)
    plan = cleaner.plan(log, T0)
    assert plan is not None
    assert cleaner.build(plan, is_stopping=lambda: True) is None


def test_more_keys_than_there_is_memory_for_stay(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klamm.log.cleaning.compaction._OVERSHOOT", 10)
    log = make_log(compact=True, segment_bytes=2_000)
    for _ in range(3):
        append(log, *[b"v"] * 100, keys=[b"key %d" % i for i in range(100)])
    log.advance_high_watermark(log.log_end_offset)
    plan = cleaner.plan(log, T0)
    assert plan is not None
    cleaned = cleaner.build(plan, 20)
    assert cleaned is not None
    assert cleaned.uncleaned[0] == 0
    assert cleaner.install(plan, cleaned)
    assert {record.key for record in records(log)} == {b"key %d" % i for i in range(100)}


def test_long_keys_are_told_apart(make_log: MakeLog) -> None:
    log = make_log(compact=True, segment_bytes=1_000)
    long = b"k" * 100
    append(log, b"1", b"2", b"3", keys=[long + b"a", long + b"b", long + b"a"])
    append(log, b"x" * 900, keys=[b"other"])
    append(log, b"x" * 900, keys=[b"other"])
    log.advance_high_watermark(log.log_end_offset)
    assert cleaner.clean(log, T0)
    assert [record.offset for record in records(log)][:2] == [1, 2]


def test_a_varint_of_a_new_base_time_is_as_long_as_it_must_be(make_log: MakeLog) -> None:
    """A tombstone's batch gets a deadline for a base time; keys, headers and times stay."""
    log = make_log(compact=True, segment_bytes=1_000, delete_retention_ms=1 << 40)
    sent = [Record(0, T0, b"a", None, (("h", b"\xff"),)), Record(1, T0 + 300, b"b", b"v" * 90)]
    assert isinstance(try_append(log, memoryview(bytearray(encode_batch(sent)))), Appended)
    for _ in range(2):
        append(log, b"x" * 900, keys=[b"other"])
    log.advance_high_watermark(log.log_end_offset)
    assert cleaner.clean(log, T0 + 1000)
    assert records(log)[:2] == sent
    assert len(varint(-(1 << 40))) > 5
