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
from klamm.protocol.batch import HEADER_SIZE, Record, decode_records, encode_batch
from klamm.protocol.record_scan import Bounds, Fault, Rules, hop
from klamm.protocol.varint import varint

record_kernel = pytest.importorskip("klamm.protocol.record_kernel")

T0 = 1_700_000_000_000
FAR = 1 << 62
ANY = Rules(T0, -FAR, FAR, False)
Scan = Callable[[bytes, int, Rules, list[Fault]], tuple[int, int]]


def by_hand(area: bytes, count: int, rules: Rules, faults: list[Fault]) -> tuple[int, int]:
    return record_scan.scan(area, 0, 0, count, rules, faults)


SCANS = pytest.mark.parametrize("scan", [by_hand, record_kernel.scan], ids=["by hand", "compiled"])


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
}


@SCANS
@pytest.mark.parametrize("area", BROKEN.values(), ids=list(BROKEN))
def test_broken_records_are_refused(scan: Scan, area: bytes) -> None:
    with pytest.raises(ProtocolError):
        scan(area, 1, ANY, [])


@settings(max_examples=500, deadline=None)
@given(count=st.integers(1, 6), where=st.integers(0, 200), what=st.binary(min_size=1, max_size=3))
def test_both_ways_agree_on_damage(count: int, where: int, what: bytes) -> None:
    area = bytearray(area_of(*sample(count)))
    where %= len(area)
    area[where : where + len(what)] = what
    outcomes = []
    for scan in (by_hand, record_kernel.scan):
        try:
            outcomes.append(scan(bytes(area), count, ANY, []))
        except ProtocolError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]


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
    found = record_kernel.latest(bytes(batch), count, T0)
    try:
        end, latest = record_scan.scan(batch, HEADER_SIZE, 0, count, ANY, [])
    except ProtocolError:
        end, latest = -1, 0
    assert found == (latest if end == len(batch) else record_scan.FAILED)


def test_the_short_way_knows_places_of_any_size() -> None:
    batch = encode_batch([Record(i, T0 + i, None, b"") for i in range(20_000)])
    assert record_kernel.latest(batch, 20_000, T0) == T0 + 19_999
    assert record_kernel.latest(batch, 19_999, T0) == record_scan.FAILED
    assert record_kernel.latest(batch, 20_001, T0) == record_scan.FAILED


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


@pytest.mark.parametrize("compiled", [False, True])
def test_a_time_is_found(compiled: bool) -> None:
    area = area_of(*(Record(i, T0 + t, None, None) for i, t in enumerate([5, 1, 9, 9, 2])))

    def first(since: int, start: int = 0, upto: int = 9) -> tuple[int, int] | None:
        bounds = Bounds(since, start, upto)
        if compiled:
            return record_kernel.find_first(area, 5, bounds)
        return record_scan.find_first(area, 5, bounds, lambda: None)

    def newest(start: int = 0, upto: int = 9) -> tuple[int, int] | None:
        bounds = Bounds(0, start, upto)
        if compiled:
            return record_kernel.find_newest(area, 5, bounds)
        return record_scan.find_newest(area, 5, bounds, lambda: None)

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


def test_a_length_that_lies_does_not_lead_outside() -> None:
    area = struct.pack(">B", 200) + b"\x01" + bytes(50)
    with pytest.raises(ProtocolError):
        hop(area, 0, 3)
