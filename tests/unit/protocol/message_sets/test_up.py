"""Message sets become batches."""

from __future__ import annotations

import pytest

from klamm.model.errors import ErrorCode as E
from klamm.protocol import batch
from klamm.protocol.batch import Codec, Record, compress
from klamm.protocol.compression import ExpandsTooFar
from klamm.protocol.message_sets import lz4_frames
from klamm.protocol.message_sets.layout import SetRefused, message
from klamm.protocol.message_sets.up import is_message_set, upgrade

ROOM = 1 << 20
LATE = 0x08


def upgraded(data: bytes, **bounds: int) -> bytes | None:
    limits = {"message_size_max": ROOM, "plain_size_max": ROOM, "size_max": ROOM, **bounds}
    return upgrade(memoryview(data), pause=lambda: None, **limits)


def records(data: bytes) -> list[Record]:
    made = upgraded(data)
    assert made is not None
    assert batch.crc_ok(made)
    return list(batch.decode_records(made))


def wrapper(magic: int, codec: int, inside: bytes, *, time: int = 5, attributes: int = 0) -> bytes:
    packed = compress(codec, inside)
    if codec == Codec.LZ4 and magic == 0:
        packed = lz4_frames.from_standard(packed)
    return message(magic, 3, time, None, packed, codec | attributes)


def test_plain_messages_become_one_batch_with_new_offsets() -> None:
    data = (
        message(0, 77, -1, b"k", b"v") + message(0, 3, -1, None, None) + message(0, 9, 0, b"", b"")
    )
    assert records(data) == [
        Record(0, -1, b"k", b"v"),
        Record(1, -1, None, None),
        Record(2, -1, b"", b""),
    ]


def test_times_of_format_1_are_kept() -> None:
    data = message(1, 0, 1_000, None, b"a") + message(1, 1, 900, None, b"b")
    made = upgraded(data)
    assert made is not None
    header = batch.parse_header(made)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_000)
    assert [r.timestamp for r in batch.decode_records(made)] == [1_000, 900]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_a_wrapper_becomes_a_batch_of_its_codec(magic: int, codec: Codec) -> None:
    inside = b"".join(message(magic, at, 100 + at, b"k", b"v%d" % at) for at in range(4))
    made = upgraded(wrapper(magic, codec, inside))
    assert made is not None
    assert batch.parse_header(made).codec == codec
    times = [100, 101, 102, 103] if magic else [-1] * 4
    assert [(r.offset, r.timestamp, r.value) for r in batch.decode_records(made)] == [
        (at, times[at], b"v%d" % at) for at in range(4)
    ]


def test_a_broker_s_time_on_a_wrapper_holds_for_all_inside() -> None:
    inside = message(1, 0, 1, None, b"a") + message(1, 1, 2, None, b"b")
    data = wrapper(1, Codec.GZIP, inside, time=50, attributes=LATE)
    assert [r.timestamp for r in records(data)] == [50, 50]


def test_what_is_cut_off_is_left_out() -> None:
    data = message(1, 0, 1, None, b"a") + message(1, 1, 2, None, b"b")[:-1]
    assert [r.value for r in records(data)] == [b"a"]
    assert upgraded(b"") is None
    assert upgraded(message(0, 0, -1, None, b"a")[:-1]) is None


PLAIN = message(1, 0, 1, None, b"v")
NESTED = message(0, 0, -1, None, compress(Codec.GZIP, message(0, 0, -1, None, b"v")), Codec.GZIP)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (message(0, 0, -1, None, b"a") + message(1, 1, 2, None, b"b"), E.INVALID_RECORD),
        (NESTED * 2, E.INVALID_RECORD),
        (NESTED + message(0, 0, -1, None, b"a"), E.INVALID_RECORD),
        (message(0, 0, -1, None, b"a") + NESTED, E.INVALID_RECORD),
        (wrapper(0, Codec.GZIP, NESTED), E.INVALID_RECORD),
        (wrapper(0, Codec.GZIP, message(1, 0, 1, None, b"v")), E.INVALID_RECORD),
        (wrapper(0, Codec.GZIP, b""), E.INVALID_RECORD),
        (wrapper(0, Codec.GZIP, message(0, 0, -1, None, b"v")[:-1]), E.INVALID_RECORD),
        (wrapper(0, Codec.GZIP, message(0, 0, -1, None, b"v")[:-1] + b"x"), E.CORRUPT_MESSAGE),
        (wrapper(0, Codec.ZSTD, message(0, 0, -1, None, b"v")), E.INVALID_RECORD),
        (message(0, 0, -1, None, None, Codec.GZIP), E.INVALID_RECORD),
        (message(0, 0, -1, None, b"no gzip", Codec.GZIP), E.INVALID_RECORD),
        (message(0, 0, -1, None, b"no frame", Codec.LZ4), E.INVALID_RECORD),
        (message(0, 0, -1, None, b"", 6), E.UNSUPPORTED_COMPRESSION_TYPE),
        (wrapper(1, Codec.GZIP, message(1, 4, 1, None, b"v")), E.INVALID_RECORD),
        (message(1, 0, -2, None, b"v"), E.INVALID_TIMESTAMP),
        (message(1, 0, -1, None, b"v", LATE), E.INVALID_TIMESTAMP),
        (
            wrapper(1, 1, message(1, 0, 1, None, b"v"), time=-1, attributes=LATE),
            E.INVALID_TIMESTAMP,
        ),
    ],
)
def test_what_cannot_be_is_refused_with_kafka_s_code(data: bytes, code: E) -> None:
    with pytest.raises(SetRefused) as refused:
        upgraded(data)
    assert refused.value.code is code


def test_messages_beyond_their_bounds_are_refused() -> None:
    data = message(0, 0, -1, None, b"v" * 100)
    with pytest.raises(SetRefused, match="a message has 126 bytes") as refused:
        upgraded(data, message_size_max=125)
    assert refused.value.code is E.MESSAGE_TOO_LARGE
    with pytest.raises(SetRefused, match="send fewer at a time") as refused:
        upgraded(data * 3, plain_size_max=250)
    assert refused.value.code is E.MESSAGE_TOO_LARGE
    with pytest.raises(ExpandsTooFar):
        upgraded(data * 3, size_max=250)


def test_a_wrapper_that_expands_too_far_is_not_unpacked() -> None:
    bomb = message(0, 0, -1, None, compress(Codec.GZIP, bytes(64 << 20)), Codec.GZIP)
    assert len(bomb) < 100_000
    with pytest.raises(ExpandsTooFar):
        upgraded(bomb)


def test_formats_are_told_apart() -> None:
    assert is_message_set(memoryview(message(1, 0, 1, None, b"v")))
    assert is_message_set(memoryview(b"short"))
    assert not is_message_set(memoryview(batch.encode_batch([Record(0, 1, None, b"v")])))
