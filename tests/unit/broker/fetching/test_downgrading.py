"""Stored batches as message sets: made whole where they are small, and while they are sent."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.record import MemoryRecords

from klamm.broker.fetching.downgrading import Downgrade, MessageStream, magic_of
from klamm.log.reading import Slice
from klamm.protocol.batch import Codec, ControlKind, Record, encode_batch, encode_control_batch

ROOM = 32 << 20


class _Stored:
    """Batches in a file, and the slices of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("w+b", buffering=0)
        self.end = 0

    def add(self, *batches: bytes) -> None:
        for each in batches:
            self.file.write(each)

    def slice(self, since: int = 0, size: int | None = None) -> Slice:
        whole = os.fstat(self.file.fileno()).st_size
        return Slice(self.file, 0, whole if size is None else size, since)  # type: ignore[arg-type]


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[_Stored]:
    made = _Stored(tmp_path / f"{uuid.uuid4()}.log")
    yield made
    made.file.close()


def batch(first: int, count: int, value: bytes = b"v", codec: Codec = Codec.NONE) -> bytes:
    records = [Record(first + n, 5, None, value) for n in range(count)]
    return encode_batch(records, base_offset=first, codec=codec)


def marker(offset: int) -> bytes:
    return encode_control_batch(
        ControlKind.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=1,
        base_offset=offset,
    )


def offsets(data: bytes) -> list[int]:
    found: list[int] = []
    sets = MemoryRecords(data)
    while (each := sets.next_batch()) is not None:
        found += [record.offset for record in each]
    return found


def pieces(source: Downgrade) -> list[bytes]:
    return list(iter(source.next_piece, None))


async def sent(stream: MessageStream) -> bytes:
    return b"".join([piece async for piece in stream.pieces()])


def test_formats_go_with_versions() -> None:
    assert [magic_of(version) for version in range(5)] == [0, 0, 1, 1, None]


def test_markers_and_what_is_cut_off_are_left_out(stored: _Stored) -> None:
    stored.add(batch(0, 2), marker(2), batch(3, 1), batch(4, 5))
    source = Downgrade(stored.slice(1, stored.slice().size - 1), 1, ROOM)
    assert [offsets(piece) for piece in pieces(source)] == [[1], [3]]
    assert source.offset_end == 4


def test_nothing_but_markers_says_where_they_end(stored: _Stored) -> None:
    stored.add(marker(7), marker(8))
    source = Downgrade(stored.slice(7), 1, ROOM)
    assert source.next_piece() is None
    assert source.offset_end == 9


async def test_a_stream_has_the_size_that_was_told(stored: _Stored) -> None:
    stored.add(*(batch(10 * n, 10) for n in range(50)))
    whole = sum(map(len, pieces(Downgrade(stored.slice(), 1, ROOM))))
    for size in (whole, whole - 1, whole - 100, 500, whole + 1, whole + 12, whole + 200_000):
        data = await sent(MessageStream([], Downgrade(stored.slice(), 1, ROOM), size))
        assert len(data) == size
        found = offsets(data)
        assert found == list(range(len(found)))
        assert len(found) == (500 if size >= whole else len(found))


async def test_a_batch_that_cannot_be_told_ends_the_messages(stored: _Stored) -> None:
    stored.add(batch(0, 3), batch(3, 3, bytes(200), Codec.ZSTD), batch(6, 3))
    source = Downgrade(stored.slice(), 1, ROOM)
    data = await sent(MessageStream([], source, 5_000))
    assert len(data) == 5_000
    assert offsets(data) == [0, 1, 2]


async def test_what_was_begun_is_sent_first(stored: _Stored) -> None:
    stored.add(batch(0, 3), batch(3, 3))
    source = Downgrade(stored.slice(), 0, ROOM)
    first = source.next_piece()
    assert first is not None
    assert offsets(await sent(MessageStream([first], source, 500))) == list(range(6))
