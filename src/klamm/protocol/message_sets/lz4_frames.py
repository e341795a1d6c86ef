"""LZ4 frames as format 0 has them: with the wrong checksum of their header.

The first Kafka clients with LZ4 took the checksum of the frame's header over the magic number too,
which the format does not say. Messages of format 0 keep that fault for good, so that old clients
and brokers understand each other; everything else in a frame is as it should be (KIP-57).
"""

from __future__ import annotations

from typing import Final

from klamm.model.errors import ProtocolError

_MAGIC: Final = b"\x04\x22\x4d\x18"
_CONTENT_SIZE: Final = 0x08  # a flag: eight more bytes of header
_DICTIONARY: Final = 0x01  # a flag: four more
_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_WORD: Final = 0xFFFFFFFF


def to_standard(frame: bytes | memoryview) -> bytes:
    """A frame of format 0 with the header's checksum as the rest of the world has it."""
    return _with_checksum(frame, len(_MAGIC))


def from_standard(frame: bytes | memoryview) -> bytes:
    """A frame with the header's checksum as format 0 has it."""
    return _with_checksum(frame, 0)


def _with_checksum(frame: bytes | memoryview, since: int) -> bytes:
    out = bytearray(frame)
    if len(out) < 7 or out[:4] != _MAGIC:
        raise ProtocolError("records are not LZ4: they do not begin as a frame")
    flags = out[4]
    end = 6 + 8 * bool(flags & _CONTENT_SIZE) + 4 * bool(flags & _DICTIONARY)
    if len(out) <= end:
        raise ProtocolError("records are not LZ4: the header of a frame ends early")
    out[end] = xxh32(bytes(out[since:end])) >> 8 & 0xFF
    return bytes(out)


def xxh32(data: bytes) -> int:
    """The hash that LZ4 frames use. By hand: a header has 18 bytes at most."""
    first, second, third, fourth, fifth = _PRIMES
    at, size = 0, len(data)
    if size >= 16:
        lanes = [(first + second) & _WORD, second, 0, -first & _WORD]
        while at + 16 <= size:
            for lane in range(4):
                word = int.from_bytes(data[at : at + 4], "little")
                lanes[lane] = _rotated(lanes[lane] + word * second, 13) * first & _WORD
                at += 4
        hashed = sum(map(_rotated, lanes, (1, 7, 12, 18))) & _WORD
    else:
        hashed = fifth
    hashed = (hashed + size) & _WORD
    while at + 4 <= size:
        word = int.from_bytes(data[at : at + 4], "little")
        hashed = _rotated(hashed + word * third, 17) * fourth & _WORD
        at += 4
    for byte in data[at:]:
        hashed = _rotated(hashed + byte * fifth, 11) * first & _WORD
    hashed = (hashed ^ hashed >> 15) * second & _WORD
    hashed = (hashed ^ hashed >> 13) * third & _WORD
    return hashed ^ hashed >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _WORD
    return (value << bits | value >> 32 - bits) & _WORD
