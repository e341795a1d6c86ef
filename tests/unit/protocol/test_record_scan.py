"""Looking through records: by hand and compiled, with one outcome."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.model.errors import ProtocolError
from klamm.protocol import record_scan
from klamm.protocol.batch import (
    HEADER,
    HEADER_SIZE,
    BatchHeader,
    Record,
    decode_records,
    encode_batch,
)
from klamm.protocol.native.records import LOOPS, Kernel
from klamm.protocol.record_scan import Fault, RecordBounds, Rules, find_last, hop
from klamm.protocol.varint import varint

T0 = 1_700_000_000_000
FAR = 1 << 62
ANY = Rules(T0, -FAR, FAR, False)
Scan = Callable[[bytes, int, Rules, list[Fault]], tuple[int, int]]


def by_hand(area: bytes, count: int, rules: Rules, faults: list[Fault]) -> tuple[int, int]:
    return record_scan.scan(area, 0, 0, count, rules, faults)


@pytest.fixture
def kernel() -> Kernel:
    if LOOPS.kernel is None:
        pytest.skip(f"no compiled loops: {LOOPS.why_not}")
    return LOOPS.kernel


def compiled(area: bytes, count: int, rules: Rules, faults: list[Fault]) -> tuple[int, int]:
    if LOOPS.kernel is None:
        pytest.skip(f"no compiled loops: {LOOPS.why_not}")
    return LOOPS.kernel.scan(area, count, rules, faults)


SCANS = pytest.mark.parametrize("scan", [by_hand, compiled], ids=["by hand", "compiled"])


def area_of(*records: Record) -> bytes:
    return encode_batch(records, base_timestamp=T0)[HEADER_SIZE:]


def sample(count: int) -> list[Record]:
    return [
        Record(
            i, T0 + i // 3, b"k" * (i % 200), None if i % 5 else b"v" * (i % 300), (("h", b"x"),)
        )
        for i in range(count)
    ]


@SCANS
def test_whole_records_pass(scan: Scan) -> None:
    area = area_of(*sample(9_000))
    assert scan(area, 9_000, ANY, []) == (len(area), T0 + 2_999)
    assert hop(area, 0, 9_000) == len(area)


@SCANS
def test_records_that_break_rules_are_named(scan: Scan) -> None:
    faults: list[Fault] = []
    area = area_of(Record(0, T0, None, b""), Record(1, T0 + 9, b"k", b""), Record(2, -1, b"k", b""))
    scan(area, 3, Rules(T0, T0 - 5, T0 + 5, True), faults)
    assert faults == [Fault(0, None), Fault(1, T0 + 9)]


@SCANS
def test_no_more_than_a_hundred_are_named(scan: Scan) -> None:
    faults: list[Fault] = []
    scan(
        area_of(*(Record(i, T0, None, None) for i in range(500))),
        500,
        ANY._replace(needs_key=True),
        faults,
    )
    assert [fault.record for fault in faults] == list(range(100))


GOOD = area_of(Record(0, T0, b"k", b"v"))
BROKEN = {
    "nothing": b"",
    "negative length": varint(-3) + bytes(20),
    "longer than its batch": GOOD[:-1],
    "shorter than it says": varint(20) + GOOD[1:] + bytes(20 - len(GOOD) + 1),
    "key longer than the record": b"\x0e\0\0\0\x7e\x01\0\0",
    "key of another negative length": varint(6) + b"\0\0\0" + varint(-2) + varint(-1) + b"\0",
    "value longer than the record": b"\x0c\0\0\0\x01\x7e\0",
    "header count": varint(7) + b"\0\0\0\x01\x01" + varint(1000),
    "nameless header": varint(8) + b"\0\0\0\x01\x01\x02\x01\x01",
    "endless number": b"\xff" * 30,
    "another offset": area_of(Record(1, T0, b"k", b"v")),
    "time beyond all bounds": varint(15) + b"\0" + varint(1 << 62) + b"\0\x01\x01\0",
    "time of more than 64 bits": varint(15) + b"\0" + b"\x80" * 9 + b"\x02\0\x01\x01\0",
}


@SCANS
@pytest.mark.parametrize("area", BROKEN.values(), ids=list(BROKEN))
def test_broken_records_are_refused(scan: Scan, area: bytes) -> None:
    with pytest.raises(ProtocolError):
        scan(area, 1, ANY, [])


def outcome(scan: Scan, area: bytes, count: int, rules: Rules) -> object:
    faults: list[Fault] = []
    try:
        return scan(area, count, rules, faults), faults
    except ProtocolError:
        return None


VARINTS = st.one_of(
    st.integers(-3, 200).map(varint),
    st.integers(-(1 << 70), 1 << 70).map(varint),
    st.sampled_from((b"\x80\0", b"\x82\x80\x80\x80\0", b"\x80" * 5 + b"\0", b"\xff" * 11)),
)
STRICT = Rules(T0, T0 - 5, T0 + 5, True)


@settings(max_examples=1000, deadline=None)
@given(count=st.integers(1, 6), where=st.integers(0, 200), what=VARINTS, grows=st.booleans())
def test_both_ways_agree_on_damage(count: int, where: int, what: bytes, grows: bool) -> None:
    area = bytearray(area_of(*sample(count)))
    where %= len(area)
    area[where : where + (0 if grows else len(what))] = what
    for rules in (ANY, STRICT):
        expected = outcome(by_hand, bytes(area), count, rules)
        assert outcome(compiled, bytes(area), count, rules) == expected


@settings(max_examples=1000, deadline=None)
@given(st.lists(VARINTS, max_size=9), st.integers(-2, 30), st.binary(max_size=3))
def test_both_ways_agree_on_a_record_of_any_numbers(
    numbers: list[bytes], longer: int, rest: bytes
) -> None:
    body = b"\0" + b"".join(numbers) + rest
    area = varint(max(len(body) + longer, -1)) + body
    expected = outcome(by_hand, area, 1, STRICT)
    assert outcome(compiled, area, 1, STRICT) == expected


@settings(max_examples=1000, deadline=None)
@given(
    count=st.integers(1, 6),
    size=st.sampled_from((0, 3, 70, 9000)),
    where=st.integers(0, 200),
    what=st.binary(max_size=3),
)
def test_the_short_way_passes_the_same(count: int, size: int, where: int, what: bytes) -> None:
    records = [
        Record(i, T0 - i * 40, b"k" * i if i % 2 else None, b"v" * (size + i)) for i in range(count)
    ]
    batch = bytearray(encode_batch(records))
    at = HEADER_SIZE + where % (len(batch) - HEADER_SIZE)
    batch[at : at + len(what)] = what
    kernel = LOOPS.kernel
    if kernel is None:
        pytest.skip(f"no compiled loops: {LOOPS.why_not}")
    try:
        end, latest = record_scan.scan(batch, HEADER_SIZE, 0, count, ANY, [])
    except ProtocolError:
        end, latest = -1, 0
    said = BatchHeader._make(HEADER.unpack_from(batch)).max_timestamp
    expected = end == len(batch) and latest == said
    assert kernel.holds(bytes(batch)) == expected
    assert kernel.holds(memoryview(batch)) == expected


def test_the_short_way_knows_places_of_any_size(kernel: Kernel) -> None:
    batch = bytearray(encode_batch([Record(i, T0 + i, None, b"") for i in range(20_000)]))
    assert kernel.holds(batch)
    for count in (19_999, 20_001, (1 << 32) - 1):
        batch[57:61] = count.to_bytes(4, "big")
        assert not kernel.holds(batch)


@pytest.mark.parametrize(
    ("at", "what"), [(27, T0 + 1), (35, T0 + 1), (27, -1), (27, 1 << 62), (35, -(1 << 63))]
)
def test_the_short_way_reads_the_times_of_the_header(kernel: Kernel, at: int, what: int) -> None:
    batch = bytearray(encode_batch([Record(0, T0, None, b"")]))
    assert kernel.holds(batch)
    batch[at : at + 8] = what.to_bytes(8, "big", signed=True)
    assert not kernel.holds(batch)


def test_the_short_way_is_not_led_outside(kernel: Kernel) -> None:
    batch = encode_batch(sample(5))
    assert kernel.holds(batch)
    assert not any(kernel.holds(memoryview(batch)[:size]) for size in range(len(batch)))
    with pytest.raises(TypeError):
        kernel.holds(5)
    with pytest.raises(BufferError):
        kernel.holds(memoryview(batch)[::2])


def test_the_last_record_is_seen_from_the_end() -> None:
    for size in (0, 3, 70, 5000):
        records = [Record(i, T0 + 300 * i, b"k" * (i % 3), b"v" * size) for i in range(200)]
        area, before = area_of(*records), area_of(*records[:-1])
        assert find_last(area, 199) == len(before)
        assert find_last(area, 198) is None
        assert find_last(area[:-1], 199) is None
    assert find_last(b"", 5) is None
    assert find_last(varint(199) * 5000, 199) is None


def test_what_passes_is_what_the_decoder_reads() -> None:
    """Single bytes of a batch changed at random: nothing passes that a reader cannot read."""
    batch = encode_batch(sample(4))
    passed = 0
    for _ in range(3_000):
        changed = bytearray(batch)
        changed[HEADER_SIZE + os.urandom(1)[0] % (len(batch) - HEADER_SIZE)] = os.urandom(1)[0]
        area = bytes(changed[HEADER_SIZE:])
        try:
            end, _ = record_scan.scan(area, 0, 0, 4, ANY, [])
        except ProtocolError:
            continue
        if end == len(area):
            passed += 1
            assert len(list(decode_records(changed))) == 4
    assert passed


def found_by_hand(area: bytes, count: int, bounds: RecordBounds, newest: bool) -> object:
    find = record_scan.find_newest if newest else record_scan.find_first
    return find(area, count, bounds, lambda: None)


def found_compiled(area: bytes, count: int, bounds: RecordBounds, newest: bool) -> object:
    if LOOPS.kernel is None:
        pytest.skip(f"no compiled loops: {LOOPS.why_not}")
    kernel = LOOPS.kernel
    return (kernel.find_newest if newest else kernel.find_first)(area, count, bounds)


FINDS = pytest.mark.parametrize("find", [found_by_hand, found_compiled])


@FINDS
def test_a_time_is_found(find: Callable[[bytes, int, RecordBounds, bool], object]) -> None:
    area = area_of(*(Record(i, T0 + t, None, None) for i, t in enumerate([5, 1, 9, 9, 2])))

    def first(since: int, start: int = 0, upto: int = 9) -> object:
        return find(area, 5, RecordBounds(since, start, upto), False)

    def newest(start: int = 0, upto: int = 9) -> object:
        return find(area, 5, RecordBounds(0, start, upto), True)

    assert first(-(1 << 80)) == (0, 5)
    assert first(1 << 80) is None
    assert (first(6), first(3), first(10), first(0, start=4), first(6, upto=2)) == (
        (2, 9),
        (0, 5),
        None,
        (4, 2),
        None,
    )
    assert (newest(), newest(upto=2), newest(start=3), newest(start=5)) == (
        (2, 9),
        (0, 5),
        (3, 9),
        None,
    )


@settings(max_examples=500, deadline=None)
@given(where=st.integers(0, 200), what=VARINTS, first=st.integers(-5, 5), newest=st.booleans())
def test_both_ways_find_the_same(where: int, what: bytes, first: int, newest: bool) -> None:
    area = bytearray(area_of(*sample(5)))
    where %= len(area)
    area[where : where + len(what)] = what
    bounds = RecordBounds(0, first, 1 << 62)
    found: list[object] = []
    for find in (found_by_hand, found_compiled):
        try:
            found.append(find(bytes(area), 5, bounds, newest))
        except ProtocolError:
            found.append("nonsense")
    assert found[0] == found[1]


def test_a_length_that_lies_does_not_lead_outside() -> None:
    area = struct.pack(">B", 200) + b"\x01" + bytes(50)
    with pytest.raises(ProtocolError):
        hop(area, 0, 3)
