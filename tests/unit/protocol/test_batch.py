"""Corners of record batches that no random draw would meet."""

from __future__ import annotations

import cramjam
import pytest

from klamm.model.errors import ProtocolError
from klamm.protocol import batch as batches
from klamm.protocol.batch import Codec, ControlKind, Record
from klamm.protocol.compression import compress, decompress


def test_a_bare_snappy_block_is_read_too() -> None:
    area = b"records " * 100
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(area))) == area


def test_lz4_blocks_are_independent() -> None:
    area = bytes(range(256)) * 1024
    frame = compress(Codec.LZ4, area)
    assert frame[4] & 0x20, "Java's reader refuses linked blocks"
    assert decompress(Codec.LZ4, frame) == area


def test_what_a_codec_cannot_open_is_refused() -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        with pytest.raises(ProtocolError):
            decompress(codec, b"this is no compressed data at all")
    with pytest.raises(ProtocolError):
        decompress(5, b"")


@pytest.mark.parametrize("codec", [c for c in Codec if c is not Codec.NONE])
def test_a_batch_that_unpacks_to_more_than_is_allowed_is_refused(codec: Codec) -> None:
    packed = compress(codec, bytes(3_000_000))
    assert len(packed) < 200_000
    assert decompress(codec, packed, size_max=3_000_000) == bytes(3_000_000)
    with pytest.raises(ProtocolError, match="more than 2999999 bytes"):
        decompress(codec, packed, size_max=2_999_999)


def test_gzip_may_come_in_several_members() -> None:
    both = compress(Codec.GZIP, b"one ") + compress(Codec.GZIP, b"two")
    assert decompress(Codec.GZIP, both) == b"one two"
    with pytest.raises(ProtocolError):
        decompress(Codec.GZIP, both[:-9])


@pytest.mark.parametrize("kind", list(ControlKind))
def test_control_batches(kind: ControlKind) -> None:
    made = batches.encode_control_batch(
        kind, producer_id=5, producer_epoch=1, coordinator_epoch=3, timestamp=99, base_offset=17
    )
    header = batches.parse_header(made)
    assert header.is_control
    assert header.is_transactional
    assert (header.record_count, header.base_sequence, header.last_offset) == (1, -1, 17)
    assert batches.control_kind(made) == kind.value
    assert batches.coordinator_epoch(made) == 3


def test_a_batch_that_is_cut_off_at_the_end_is_left_out() -> None:
    one = batches.encode_batch([Record(0, 1, None, b"a")])
    two = batches.encode_batch([Record(1, 1, None, b"b")], base_offset=1)
    seen = [header.base_offset for header, _ in batches.iter_batches(one + two + one[:65])]
    assert seen == [0, 1]


def test_compaction_keeps_the_end_of_a_batch() -> None:
    made = batches.encode_batch([Record(12, 1, b"k", b"v")], base_offset=10, last_offset=19)
    assert batches.parse_header(made).last_offset == 19
    assert [r.offset for r in batches.decode_records(made)] == [12]


def test_log_append_time_is_the_time_of_every_record() -> None:
    made = bytearray(batches.encode_batch([Record(0, 5, None, b"a"), Record(1, 9, None, b"b")]))
    made[22] |= batches.LOG_APPEND_TIME
    assert [r.timestamp for r in batches.decode_records(made)] == [9, 9]


def test_old_formats_are_refused() -> None:
    made = bytearray(batches.encode_batch([Record(0, 5, None, b"a")]))
    made[16] = 1
    with pytest.raises(ProtocolError, match="magic 1"):
        batches.parse_header(made)
