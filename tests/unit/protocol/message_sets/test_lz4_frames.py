"""The checksum of LZ4 frames in format 0."""

from __future__ import annotations

import lz4.frame
import pytest
import xxhash
from kafka.codec import lz4_decode_old_kafka, lz4_encode_old_kafka

from klamm.model.errors import ProtocolError
from klamm.protocol.message_sets.lz4_frames import from_standard, to_standard, xxh32

TEXT = b"hello " * 100


@pytest.mark.parametrize("size", [0, 1, 3, 4, 15, 16, 17, 40])
def test_the_hash_is_that_of_the_format(size: int) -> None:
    data = bytes(range(size))
    assert xxh32(data) == xxhash.xxh32(data).intdigest()


@pytest.mark.parametrize("with_size", [False, True])
def test_a_frame_of_format_0_and_back(with_size: bool) -> None:
    frame = lz4.frame.compress(TEXT, store_size=with_size)
    old = from_standard(frame)
    assert old != frame
    assert to_standard(old) == frame == to_standard(frame)


def test_an_old_client_reads_what_is_written_and_the_other_way_round() -> None:
    assert lz4_decode_old_kafka(from_standard(lz4.frame.compress(TEXT))) == TEXT
    assert lz4.frame.decompress(to_standard(lz4_encode_old_kafka(TEXT))) == TEXT


@pytest.mark.parametrize(
    "data", [b"", b"\x04\x22\x4d\x18\x60\x40", b"no frame", b"\x04\x22\x4d\x18h@1"]
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="not LZ4"):
        to_standard(data)
