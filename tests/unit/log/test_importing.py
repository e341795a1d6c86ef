"""What a leader looks at before it takes over batches with their offsets."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from klamm.log.writing.append import AppendRefused
from klamm.log.writing.importing import fault_of, records_fault
from klamm.model.errors import ErrorCode
from klamm.pipelines.records.batches import Place, seal_area
from klamm.protocol.compression import ExpandsTooFar
from klamm.protocol.native.records import LOOPS
from klamm.protocol.varint import varint

BODY = b"\x0e\x00\x00\x00\x01\x02v\x00"


def batch(
    first: int, last: int | None = None, *, epoch: int = 3, count: int = 1, attributes: int = 0
) -> bytes:
    return seal_area(
        BODY,
        attributes=attributes,
        count=count,
        times=(5, 5),
        producer=(-1, -1, -1),
        place=Place(first, first if last is None else last, epoch),
    )


def looked(*batches: bytes, start: int = 0, end: int = 10, epoch: int = 3) -> AppendRefused | None:
    data = memoryview(b"".join(batches))
    return fault_of(data, start=start, end=end, epoch=epoch, epoch_max=5)


def record(offset: int, value: bytes = b"v") -> bytes:
    body = b"\x00\x00" + varint(offset) + b"\x01" + varint(len(value)) + value + b"\x00"
    return varint(len(body)) + body


def of_records(*records: bytes, last: int, count: int | None = None, codec: int = 0) -> bytes:
    """A batch of offsets from 10 on, whose checksum is right whatever it holds."""
    area = b"".join(records)
    return seal_area(
        zlib.compress(area, wbits=31) if codec else area,
        attributes=codec,
        count=len(records) if count is None else count,
        times=(5, 5),
        producer=(-1, -1, -1),
        place=Place(10, 10 + last, 3),
    )


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    "batches",
    [
        (),
        (batch(10), batch(11)),
        (batch(10, epoch=3), batch(11, epoch=5)),
        (batch(15), batch(40, 60, count=3)),  # with gaps
        (batch(10, 12, count=0),),
        (batch(8), batch(9), batch(10)),  # the first two are there
    ],
)
def test_batches_that_go_on_are_taken(batches: tuple[bytes, ...]) -> None:
    assert looked(*batches) is None


def test_an_empty_log_may_begin_inside_of_a_batch() -> None:
    assert looked(batch(5, 20), start=10, end=10, epoch=-1) is None
    assert looked(batch(5, 20), start=0, end=10) is not None


@pytest.mark.parametrize(
    ("batches", "code", "words"),
    [
        ((batch(10)[:-1],), ErrorCode.INVALID_RECORD, "says that it has"),
        ((batch(10), b"tail"), ErrorCode.INVALID_RECORD, "4 bytes are no record batch"),
        ((batch(10)[:16] + b"\x01" + batch(10)[17:],), ErrorCode.INVALID_RECORD, "format 1"),
        ((batch(10), batch(10)), ErrorCode.INVALID_RECORD, "overlaps what ends at 11"),
        ((batch(12), batch(11)), ErrorCode.INVALID_RECORD, "overlaps what ends at 13"),
        ((batch(9, 11, count=2),), ErrorCode.INVALID_RECORD, "overlaps what ends at 10"),
        ((batch(10, epoch=2),), ErrorCode.INVALID_RECORD, "not between 3 of the batch before"),
        ((batch(10, epoch=5), batch(11, epoch=4)), ErrorCode.INVALID_RECORD, "not between 5"),
        ((batch(10, epoch=6),), ErrorCode.INVALID_RECORD, "and 5 of the leader"),
        ((batch(10, count=2),), ErrorCode.INVALID_RECORD, "2 records do not fit in 1 offsets"),
        ((batch(10, 9),), ErrorCode.INVALID_RECORD, "0 of them"),
        ((batch(-2, -1),), ErrorCode.INVALID_RECORD, "offsets from -2"),
        ((batch((1 << 63) - 1),), ErrorCode.INVALID_RECORD, "offsets from 9223372036854775807"),
        ((batch(10, attributes=5),), ErrorCode.INVALID_RECORD, "no compression type 5"),
        ((batch(10, attributes=16),), ErrorCode.INVALID_RECORD, "a transaction of no producer"),
    ],
)
def test_others_are_refused(batches: tuple[bytes, ...], code: ErrorCode, words: str) -> None:
    refused = looked(*batches)
    assert refused is not None
    assert refused.code is code
    assert words in refused.message


@pytest.fixture(params=["compiled", "by hand"])
def _loops(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "compiled":
        yield
    else:
        with patch.object(LOOPS, "kernel", None):
            yield


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize(
    "whole",
    [
        of_records(record(0), record(1), record(2), last=2),
        of_records(record(0), record(4), record(9), last=9),  # compacted
        of_records(record(3), last=9),
        of_records(last=9),
        of_records(record(0), record(4), last=9, codec=1),
    ],
)
def test_records_with_and_without_gaps_are_taken(whole: bytes) -> None:
    assert records_fault(memoryview(whole + whole), 1 << 20, 1 << 20) is None


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize(
    ("wrong", "code", "words"),
    [
        (flipped(batch(10)), ErrorCode.CORRUPT_MESSAGE, "offsets 10 to 10 is wrong"),
        (of_records(b"\xff" * 40, last=0), ErrorCode.INVALID_RECORD, "10 to 10: "),
        (of_records(record(0), record(0), last=9), ErrorCode.INVALID_RECORD, "has offset 0"),
        (of_records(record(3), record(1), last=9), ErrorCode.INVALID_RECORD, "has offset 1"),
        (of_records(record(0), record(5), last=4), ErrorCode.INVALID_RECORD, "has offset 5"),
        (of_records(record(0) + b"x", last=0, count=1), ErrorCode.INVALID_RECORD, "more bytes"),
        (of_records(record(0)[:-1], last=0), ErrorCode.INVALID_RECORD, "record"),
        (of_records(record(0), last=4, count=2), ErrorCode.INVALID_RECORD, "do not fit"),
        (of_records(record(0), last=1 << 20, count=1 << 20), ErrorCode.INVALID_RECORD, "not fit"),
        (of_records(record(0), last=9, codec=4), ErrorCode.INVALID_RECORD, "10 to 19: "),
        (batch(10, attributes=5), ErrorCode.INVALID_RECORD, "no compression type 5"),
    ],
)  # fmt: skip
def test_records_that_make_no_sense_are_refused(wrong: bytes, code: ErrorCode, words: str) -> None:
    refused = records_fault(memoryview(batch(9) + wrong), 1 << 20, None)
    assert refused is not None
    assert refused.code is code
    assert words in refused.message


def test_a_bomb_is_not_unpacked() -> None:
    bomb = memoryview(of_records(record(0, bytes(1 << 22)), last=0, codec=1))
    with pytest.raises(ExpandsTooFar):
        records_fault(bomb, 1 << 21, 1 << 20)
    refused = records_fault(bomb, 1 << 21, None)
    assert refused is not None
    assert refused.code is ErrorCode.MESSAGE_TOO_LARGE
    assert records_fault(bomb, 1 << 23, None) is None
