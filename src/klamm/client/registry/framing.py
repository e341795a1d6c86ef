"""The frame around a value: one byte 0, four bytes with the schema's number, then the value."""

from __future__ import annotations

import struct
from typing import Final

from klamm.model.errors import KlammError

_FRAME: Final = struct.Struct(">bi")


class Undecodable(KlammError):
    """A value that is not what its frame or schema says."""


def unframed(data: bytes) -> tuple[int, bytes]:
    """The number of the schema, and the value itself."""
    if len(data) < _FRAME.size or data[0] != 0:
        raise Undecodable("it has no frame of a schema registry")
    _, number = _FRAME.unpack_from(data)
    if number < 0:
        raise Undecodable(f"its frame has the schema number {number}")
    return number, data[_FRAME.size :]


def framed(number: int, value: bytes) -> bytes:
    """A value with its frame."""
    return _FRAME.pack(0, number) + value
