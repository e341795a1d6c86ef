"""The layout of a message, and its bytes.

    offset i64 | size i32 | crc u32 | format i8 | attributes i8 | time i64 | key | value

Format 0 has no time. Key and value are a length of four bytes and so many bytes, or -1 for null.
The checksum (of zlib, not Castagnoli's) covers all from the format on. The lowest three bits of the
attributes name a codec: then the value is another message set, compressed, and the message a
wrapper with the offset of the last one inside. In format 1 the messages inside count their offsets
from 0, and the fourth bit says that the wrapper's time, a broker's, holds for all of them.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple
from zlib import crc32

from klamm.model.errors import ErrorCode, ProtocolError

NO_TIMESTAMP: Final = -1
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
MAGIC_AT: Final = 16
FRAME_SIZE: Final = 12  # offset and size, which the size does not count

_HEAD: Final = struct.Struct(">qiIbb")
_TIME: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_BODY_0: Final = struct.Struct(">bb")
_BODY_1: Final = struct.Struct(">bbq")
_FRAME: Final = struct.Struct(">qiI")
_CRC_FROM: Final = 16
_SIZES_MIN: Final = (14, 22)  # of a message of each format, without offset and size
_NULL: Final = _LENGTH.pack(-1)


class SetRefused(ProtocolError):
    """A message set that cannot be taken, with the code that its sender is told."""

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code = code


class OldMessage(NamedTuple):
    """One message; its key and value are views of the set."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None
    end: int  # where the next one begins

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def has_broker_time(self) -> bool:
        """Whether it claims that its time is that of a broker's append."""
        return bool(self.magic and self.attributes & LOG_APPEND_TIME)


def read_message(data: memoryview, at: int) -> OldMessage | None:
    """The message that begins here; None when the set ends before it does."""
    left = len(data) - at
    if left < FRAME_SIZE:
        return None
    (size,) = _LENGTH.unpack_from(data, at + 8)
    if size < _SIZES_MIN[0]:
        raise SetRefused(ErrorCode.CORRUPT_MESSAGE, f"a message claims a size of {size} bytes")
    end = at + FRAME_SIZE + size
    if end > len(data):
        return None
    offset, _, crc, magic, attributes = _HEAD.unpack_from(data, at)
    if magic not in (0, 1):
        raise SetRefused(*_wrong_magic(magic))
    if crc32(data[at + _CRC_FROM : end]) != crc:
        raise SetRefused(ErrorCode.CORRUPT_MESSAGE, "the checksum of a message is wrong")
    if size < _SIZES_MIN[magic]:
        raise SetRefused(ErrorCode.CORRUPT_MESSAGE, f"a message claims a size of {size} bytes")
    inside = at + _HEAD.size
    timestamp = NO_TIMESTAMP
    if magic:
        (timestamp,) = _TIME.unpack_from(data, inside)
        inside += _TIME.size
    key, inside = _nullable(data, inside, end)
    value, inside = _nullable(data, inside, end)
    if inside != end:
        raise SetRefused(ErrorCode.INVALID_RECORD, "a message has other lengths than it says")
    return OldMessage(offset, magic, attributes, timestamp, key, value, end)


def _wrong_magic(magic: int) -> tuple[ErrorCode, str]:
    if magic == 2:
        why = "a message set has messages of different formats"
        return ErrorCode.INVALID_RECORD, why
    return ErrorCode.CORRUPT_MESSAGE, f"there is no message format {magic}"


def _nullable(data: memoryview, at: int, end: int) -> tuple[memoryview | None, int]:
    if at + _LENGTH.size > end:
        raise SetRefused(ErrorCode.INVALID_RECORD, "a message has other lengths than it says")
    (size,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    if size < 0:
        return None, at
    if at + size > end:
        raise SetRefused(ErrorCode.INVALID_RECORD, "a key or value is longer than its message")
    return data[at : at + size], at + size


def message(
    magic: int,
    offset: int,
    timestamp: int,
    key: bytes | memoryview | None,
    value: bytes | memoryview | None,
    attributes: int = 0,
) -> bytes:
    """The bytes of one message."""
    head = _BODY_1.pack(magic, attributes, timestamp) if magic else _BODY_0.pack(magic, attributes)
    body = b"".join((head, *_sized(key), *_sized(value)))
    return _FRAME.pack(offset, len(body) + 4, crc32(body)) + body


def _sized(data: bytes | memoryview | None) -> tuple[bytes | memoryview, ...]:
    return (_NULL,) if data is None else (_LENGTH.pack(len(data)), data)
