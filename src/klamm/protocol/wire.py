"""Strings, lengths and leaders, for the two APIs whose bytes are handled by hand.

Produce and Fetch carry the records, so they are not decoded into objects that own their bytes: a
parsed message holds views into the frame it came in, and a response is a list of pieces, some of
which may still be in a file. Both come in two families, the plain and the flexible one; each
function here takes the family as its last argument.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

from klamm.model.errors import ProtocolError
from klamm.protocol.varint import ONE_BYTE, read_uvarint, uvarint

SHORT: Final = struct.Struct(">h")
INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
TWO_INTS: Final = struct.Struct(">ii")
# The protocol's messages have a handful at most.
_TAGS_MAX: Final = 64


class NodeEndpoint(NamedTuple):
    """The address of a leader that an answer mentions (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class CurrentLeader(NamedTuple):
    """The actual leader, for a client that asked the wrong broker (KIP-951)."""

    leader_id: int = -1
    leader_epoch: int = -1


def count(value: int, flexible: bool) -> bytes:
    """A count of elements, or the length of bytes; -1 for null."""
    if not flexible:
        return INT.pack(value)
    return ONE_BYTE[value + 1] if value < 127 else uvarint(value + 1)


def read_count(buf: memoryview, at: int, flexible: bool) -> tuple[int, int]:
    """The inverse of `count`. One that the rest of the message cannot hold is refused."""
    if flexible:
        value = buf[at] - 1
        at += 1
        if value > 126:
            value, at = read_uvarint(buf, at - 1)
            value -= 1
    else:
        (value,) = INT.unpack_from(buf, at)
        at += 4
    if value > len(buf) - at:
        raise ProtocolError("a count is larger than the message")
    return value, at


def too_many() -> NoReturn:
    """Refuse what has more items than it may have."""
    raise ProtocolError("more items than a request may have")


def text(value: str | None, flexible: bool) -> bytes:
    """A string, or null."""
    if value is None:
        return b"\0" if flexible else b"\xff\xff"
    data = value.encode()
    return (uvarint(len(data) + 1) if flexible else SHORT.pack(len(data))) + data


# A topic's name, of which there are a few, each in thousands of answers.
name = lru_cache(maxsize=1024)(text)


def read_text(buf: memoryview, at: int, flexible: bool) -> tuple[str | None, int]:
    """The inverse of `text`."""
    if flexible:
        size = buf[at]
        at += 1
        if size > 127:
            size, at = read_uvarint(buf, at - 1)
        size -= 1
    else:
        (size,) = SHORT.unpack_from(buf, at)
        at += 2
    if size < 0:
        return None, at
    end = at + size
    if end > len(buf):
        raise ProtocolError("a string is longer than the message")
    return str(buf[at:end], "utf-8"), end


def read_name(buf: memoryview, at: int, flexible: bool) -> tuple[str, int]:
    """A string that may not be null."""
    name, at = read_text(buf, at, flexible)
    if name is None:
        raise ProtocolError("a null where there must be a name")
    return name, at


def read_records(buf: memoryview, at: int, flexible: bool) -> tuple[memoryview | None, int]:
    """Bytes as a view of the message, or null."""
    size, at = read_count(buf, at, flexible)
    return (None, at) if size < 0 else (buf[at : at + size], at + size)


def tags(fields: Iterable[tuple[int, bytes]]) -> bytes:
    """A section of tagged fields, in the order of their tags."""
    parts = [uvarint(tag) + uvarint(len(data)) + data for tag, data in fields]
    return uvarint(len(parts)) + b"".join(parts)


def read_tags(buf: memoryview, at: int) -> tuple[dict[int, memoryview], int]:
    """The tagged fields, known or not, and where their section ends."""
    number, at = read_uvarint(buf, at)
    if number > _TAGS_MAX:
        raise ProtocolError(f"a section of {number} tagged fields; at most {_TAGS_MAX} are read")
    found: dict[int, memoryview] = {}
    for _ in range(number):
        tag, at = read_uvarint(buf, at)
        size, at = read_uvarint(buf, at)
        if at + size > len(buf):
            raise ProtocolError("a tagged field is longer than the message")
        found[tag] = buf[at : at + size]
        at += size
    return found, at


def leader(value: CurrentLeader) -> bytes:
    """A current leader as it stands in a tagged field."""
    return TWO_INTS.pack(*value) + b"\0"


def read_leader(data: memoryview) -> CurrentLeader:
    """The inverse of `leader`."""
    return CurrentLeader._make(TWO_INTS.unpack_from(data))


def endpoints(nodes: Iterable[NodeEndpoint]) -> bytes:
    """A list of nodes as it stands in a tagged field."""
    parts = [
        INT.pack(n.node_id) + text(n.host, True) + INT.pack(n.port) + text(n.rack, True) + b"\0"
        for n in nodes
    ]
    return count(len(parts), True) + b"".join(parts)


def read_endpoints(data: memoryview) -> list[NodeEndpoint]:
    """The inverse of `endpoints`."""
    number, at = read_count(data, 0, True)
    nodes = []
    for _ in range(number):
        (node_id,) = INT.unpack_from(data, at)
        host, at = read_name(data, at + 4, True)
        (port,) = INT.unpack_from(data, at)
        rack, at = read_text(data, at + 4, True)
        _, at = read_tags(data, at)
        nodes.append(NodeEndpoint(node_id, host, port, rack))
    return nodes
