"""Asking one broker what it believes, with a Metadata request on a socket of our own."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple


class Belief(NamedTuple):
    """A broker's picture of the cluster."""

    controller: int
    alive: set[int]
    topics: dict[str, dict[int, tuple[int, int]]]  # partition -> leader, size of the ISR


class Witness:
    """One broker, asked over and over."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 30) -> None:
        self._socket = socket.create_connection(address, timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def ask(self) -> Belief:
        """Metadata, version 1, of all topics."""
        body = struct.pack(">hhih5si", 3, 1, 7, 5, b"bench", -1)
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        return _parse(self._read(struct.unpack(">i", self._read(4))[0]))

    def _read(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._socket.recv(min(count, 1 << 20))
            if not part:
                raise ConnectionError("the broker hung up")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def text(self) -> str:
        (size,) = self.take(">h")
        self._at += max(size, 0)
        return self._data[self._at - max(size, 0) : self._at].decode()

    def numbers(self) -> int:
        """How many numbers a list has; they are passed over."""
        (count,) = self.take(">i")
        self._at += 4 * count
        return count


def _parse(data: bytes) -> Belief:
    read = _Reader(data)
    read.take(">i")
    alive = set()
    for _ in range(read.take(">i")[0]):
        (node,) = read.take(">i")
        read.text()
        read.take(">i")
        read.text()
        alive.add(node)
    controller, count = read.take(">ii")
    topics: dict[str, dict[int, tuple[int, int]]] = {}
    for _ in range(count):
        read.take(">h")
        name = read.text()
        _, partitions = read.take(">bi")
        found = topics[name] = {}
        for _ in range(partitions):
            _, index, leader = read.take(">hii")
            read.numbers()
            found[index] = leader, read.numbers()
    return Belief(controller, alive, topics)
