"""Messages of formats 0 and 1, byte by byte."""

from __future__ import annotations

from zlib import crc32

import pytest

from klamm.model.errors import ErrorCode as E
from klamm.protocol.message_sets.layout import SetRefused, message, read_message

# offset 7, 19 bytes: checksum, format 0, no attributes, key "k", value "abcd"
FORMAT_0 = "0000000000000007 00000013 df61c36d 00 00 00000001 6b 00000004 61626364"
# offset 9, 22 bytes: checksum, format 1, no attributes, 1,000 ms, no key, an empty value
FORMAT_1 = "0000000000000009 00000016 784dc1ca 01 00 00000000000003e8 ffffffff 00000000"


def test_bytes_of_a_message() -> None:
    assert message(0, 7, -1, b"k", b"abcd") == bytes.fromhex(FORMAT_0)
    assert message(1, 9, 1_000, None, b"") == bytes.fromhex(FORMAT_1)


def test_a_message_is_read_where_it_lies() -> None:
    whole = memoryview(bytes.fromhex(FORMAT_0 + FORMAT_1))
    first = read_message(whole, 0)
    assert first is not None
    assert (first.magic, first.timestamp, first.end) == (0, -1, 31)
    assert (bytes(first.key or b""), bytes(first.value or b"")) == (b"k", b"abcd")
    second = read_message(whole, first.end)
    assert second is not None
    assert (second.magic, second.timestamp, second.key, second.value) == (1, 1_000, None, b"")
    assert read_message(whole, second.end) is None


@pytest.mark.parametrize("size", [1, 11, 12, 30])
def test_a_message_that_is_cut_off_is_none(size: int) -> None:
    assert read_message(memoryview(bytes.fromhex(FORMAT_0))[:size], 0) is None


@pytest.mark.parametrize(
    ("at", "value", "code", "words"),
    [
        (11, 13, E.CORRUPT_MESSAGE, "a size of 13 bytes"),
        (30, 0x65, E.CORRUPT_MESSAGE, "checksum"),
        (16, 5, E.CORRUPT_MESSAGE, "no message format 5"),
        (16, 2, E.INVALID_RECORD, "different formats"),
    ],
)
def test_what_cannot_be_is_refused(at: int, value: int, code: E, words: str) -> None:
    spoilt = bytearray.fromhex(FORMAT_0)
    spoilt[at] = value
    with pytest.raises(SetRefused, match=words) as refused:
        read_message(memoryview(spoilt), 0)
    assert refused.value.code is code


@pytest.mark.parametrize(("key", "value"), [(200, 0), (1, 3), (1, 200), (-1, 200)])
def test_lengths_inside_are_not_believed(key: int, value: int) -> None:
    made = bytearray(message(0, 0, -1, b"k", b"abcd"))
    made[18:22] = key.to_bytes(4, "big", signed=True)
    if key == 1:
        made[23:27] = value.to_bytes(4, "big")
    with pytest.raises(SetRefused) as refused:
        read_message(memoryview(_sealed(made)), 0)
    assert refused.value.code is E.INVALID_RECORD


def _sealed(made: bytearray) -> bytearray:
    """The same with the checksum that belongs to it."""
    made[12:16] = crc32(made[16:]).to_bytes(4, "big")
    return made
