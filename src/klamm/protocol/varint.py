"""Integers of variable length: seven bits a byte, lowest first, the top bit says "more follows".

Lengths and counts of flexible messages are unsigned; everything inside a record is zig-zag, so
that small negative numbers stay short too.
"""

from __future__ import annotations

from typing import Final

from klamm.model.errors import ProtocolError

# Nearly every number on the wire fits one byte.
ONE_BYTE: Final = tuple(bytes((n,)) for n in range(128))


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned number."""
    if value < 128:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """The bytes of a signed number, zig-zag."""
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def read_uvarint(buf: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """An unsigned number of at most five bytes, and where it ends."""
    # The first two by hand: this is the length of every string and the size of every batch.
    value = buf[at]
    if value < 128:
        return value, at + 1
    byte = buf[at + 1]
    value += (byte - 1) << 7  # the byte before counted its top bit as 128
    if byte < 128:
        return value, at + 2
    for place in (2, 3, 4):
        byte = buf[at + place]
        value += (byte - 1) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise ProtocolError("a number of variable length has more than five bytes")


def read_varint(buf: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """A signed number of at most ten bytes, and where it ends."""
    # The first two by hand: a record has six of these, and hardly one is longer.
    value = buf[at]
    if value < 128:
        return (value >> 1) ^ -(value & 1), at + 1
    byte = buf[at + 1]
    value += (byte - 1) << 7  # the byte before counted its top bit as 128
    at += 2
    shift = 14
    while byte > 127:
        if shift > 63:
            raise ProtocolError("a number of variable length has more than ten bytes")
        byte = buf[at]
        value += (byte - 1) << shift
        at += 1
        shift += 7
    return (value >> 1) ^ -(value & 1), at
