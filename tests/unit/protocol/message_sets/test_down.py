"""Batches become message sets."""

from __future__ import annotations

import pytest
from kafka.record import MemoryRecords

from klamm.model.errors import ProtocolError
from klamm.protocol import batch
from klamm.protocol.batch import Codec, ControlKind, Record
from klamm.protocol.message_sets.down import START, NoSuchCodec, Piece, ResumePoint, downgrade
from klamm.protocol.message_sets.layout import message

ROOM = 64 << 20


def down(made: bytes, magic: int, *, since: int = 0, place: ResumePoint = START) -> Piece:
    header = batch.parse_header(made)
    return downgrade(
        made, header, magic, since=since, place=place, size_max=ROOM, pause=lambda: None
    )


def seen(messages: bytes) -> list[tuple[int, int | None, bytes | None, bytes | None]]:
    """The messages as an old client sees them."""
    found = []
    sets = MemoryRecords(messages)
    while (each := sets.next_batch()) is not None:
        assert each.validate_crc()
        found += [(r.offset, r.timestamp, r.key, r.value) for r in each]
    return found


def some(count: int = 5, **more: object) -> list[Record]:
    return [Record(40 + n, 1_000 + n, b"k%d" % n, b"v", (("h", b"x"),)) for n in range(count)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_an_old_client_sees_the_records_without_headers(magic: int, codec: Codec) -> None:
    piece = down(batch.encode_batch(some(), base_offset=40, codec=codec), magic)
    times = [1_000 + n if magic else None for n in range(5)]
    assert seen(piece.messages) == [(40 + n, times[n], b"k%d" % n, b"v") for n in range(5)]
    assert piece.rest is None
    assert piece.messages[17] & 7 == codec


def test_bytes_of_a_plain_record() -> None:
    made = batch.encode_batch([Record(3, 7, b"k", None)], base_offset=3)
    assert down(made, 0).messages == message(0, 3, -1, b"k", None)
    assert down(made, 1).messages == message(1, 3, 7, b"k", None)


def test_records_below_the_wanted_offset_are_left_out() -> None:
    for codec in (Codec.NONE, Codec.GZIP):
        made = batch.encode_batch(some(), base_offset=40, codec=codec)
        assert [offset for offset, *_ in seen(down(made, 1, since=43).messages)] == [43, 44]
        assert down(made, 1, since=45) == Piece(b"", None)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_holes_of_compaction_stay(codec: Codec) -> None:
    left = [Record(40, 5, None, b"a"), Record(47, 6, None, b"b"), Record(48, 7, None, b"c")]
    made = batch.encode_batch(left, base_offset=38, codec=codec, last_offset=60)
    assert [offset for offset, *_ in seen(down(made, 1).messages)] == [40, 47, 48]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_broker_s_time_is_told_for_every_record(codec: Codec) -> None:
    made = batch.encode_batch(
        some(2), base_offset=40, codec=codec, attributes=batch.LOG_APPEND_TIME, max_timestamp=9_000
    )
    messages = down(made, 1).messages
    assert messages[17] & 0x08
    assert [time for _, time, *_ in seen(messages)] == [9_000, 9_000]


def test_markers_are_nothing_to_an_old_client() -> None:
    marker = batch.encode_control_batch(
        ControlKind.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1
    )
    assert down(marker, 1) == Piece(b"", None)


def test_zstd_has_no_old_name() -> None:
    with pytest.raises(NoSuchCodec, match="zstd"):
        down(batch.encode_batch(some(), base_offset=40, codec=Codec.ZSTD), 1)


def test_damaged_records_are_noticed() -> None:
    made = bytearray(batch.encode_batch(some(), base_offset=40))
    made[batch.HEADER_SIZE] = 0xFE
    with pytest.raises(ProtocolError):
        down(bytes(made), 1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_that_unpacks_to_much_comes_in_pieces(codec: Codec) -> None:
    many = [Record(n, n, None, bytes(9_000)) for n in range(300)]
    made = batch.encode_batch(many, codec=codec)
    offsets: list[int] = []
    place: ResumePoint | None = START
    pieces = 0
    while place is not None:
        piece = down(made, 1, place=place)
        assert len(piece.messages) < 1_100_000
        offsets += [offset for offset, *_ in seen(piece.messages)]
        place = piece.rest
        pieces += 1
    assert offsets == list(range(300))
    assert pieces == 3
