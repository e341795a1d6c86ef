"""Bytes <-> the primitive types of ZooKeeper's records; everything is big-endian.

A length or a count is compared with what is left before anything is read or made for it.

Pure: no clock, no disk, no loop.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from klamm.model.errors import ProtocolError
from klamm.store.access import Acl, Grant
from klamm.store.tree import Entry, as_int32

INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_GRANT_SIZE_MIN: Final = 12
_TEXT_SIZE_MIN: Final = 4

T = TypeVar("T")


class Malformed(ProtocolError):
    """A record ends before it is complete, or says of itself what cannot be."""


class Reader:
    """A place in a frame that moves on as records are read."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at
        self._end = len(data)

    @property
    def left(self) -> int:
        """The number of bytes that have not been read."""
        return self._end - self._at

    def int32(self) -> int:
        at = self._take(4)
        return INT.unpack_from(self._data, at)[0]  # type: ignore[no-any-return]

    def int64(self) -> int:
        at = self._take(8)
        return LONG.unpack_from(self._data, at)[0]  # type: ignore[no-any-return]

    def boolean(self) -> bool:
        return self._data[self._take(1)] != 0

    def buffer(self) -> bytes | None:
        """Some bytes; None and empty are different."""
        size = self.int32()
        if size < 0:
            if size != -1:
                raise Malformed(f"a length of {size}")
            return None
        at = self._take(size)
        return self._data[at : at + size]

    def text(self) -> str | None:
        """A text; what is not UTF-8 in it becomes U+FFFD, which no path can have."""
        data = self.buffer()
        return None if data is None else data.decode("utf-8", "replace")

    def path(self) -> str:
        """A text that has to be there."""
        text = self.text()
        if text is None:
            raise Malformed("a path is missing")
        return text

    def many(self, read: Callable[[], T], size_min: int = _TEXT_SIZE_MIN) -> list[T]:
        """A list, which may be missing."""
        count = self.int32()
        if count < -1 or count * size_min > self.left:
            raise Malformed(f"a list of {count} in {self.left} bytes")
        return [read() for _ in range(count)]

    def acl(self) -> list[Grant]:
        return self.many(self._grant, _GRANT_SIZE_MIN)

    def _grant(self) -> Grant:
        return Grant(self.int32(), self.text() or "", self.text() or "")

    def _take(self, size: int) -> int:
        at = self._at
        if size > self._end - at:
            raise Malformed(f"{size} bytes of {self._end - at}")
        self._at = at + size
        return at


def buffer(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else INT.pack(len(data)) + data


def text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return INT.pack(len(data)) + data


def texts(values: Iterable[str]) -> bytes:
    parts = [text(value) for value in values]
    return b"".join((INT.pack(len(parts)), *parts))


def acl(grants: Acl) -> bytes:
    parts = [INT.pack(perms) + text(scheme) + text(id) for perms, scheme, id in grants]
    return b"".join((INT.pack(len(parts)), *parts))


def stat(entry: Entry) -> bytes:
    """A node's Stat, 68 bytes."""
    data, known, made, pzxid, mtime_ms, _, aversion, _, count = entry
    version, czxid, mzxid, ctime_ms, owner = known
    return _STAT.pack(
        czxid,
        mzxid,
        ctime_ms,
        mtime_ms,
        as_int32(version),
        as_int32(2 * made - count),
        as_int32(aversion),
        owner,
        len(data) if data else 0,
        count,
        pzxid,
    )
