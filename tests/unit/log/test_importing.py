"""What a leader looks at before it takes over batches with their offsets."""

from __future__ import annotations

import pytest

from klamm.log.writing.append import AppendRefused
from klamm.log.writing.importing import fault_of
from klamm.model.errors import ErrorCode
from klamm.pipelines.records.batches import Place, seal_area

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
        ((flipped(batch(10)),), ErrorCode.CORRUPT_MESSAGE, "offsets 10 to 10 is wrong"),
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
