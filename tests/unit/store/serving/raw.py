"""A client that knows ZooKeeper's bytes and nothing of klamm's own codecs."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

WAIT_S = 20
OPEN_ACL = struct.pack(">ii", 1, 31) + b"\0\0\0\5world\0\0\0\6anyone"
END = struct.pack(">i?i", -1, True, -1)


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">i", len(data)) + data


def blob(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def texts(*values: str) -> bytes:
    return struct.pack(">i", len(values)) + b"".join(map(text, values))


def acl(*grants: tuple[int, str, str]) -> bytes:
    parts = [struct.pack(">i", perms) + text(scheme) + text(id) for perms, scheme, id in grants]
    return struct.pack(">i", len(grants)) + b"".join(parts)


def create(
    path: str | bytes, data: bytes | None = b"", flags: int = 0, grants: bytes = OPEN_ACL
) -> bytes:
    return text(path) + blob(data) + grants + struct.pack(">i", flags)


def set_data(path: str, data: bytes | None, version: int = -1) -> bytes:
    return text(path) + blob(data) + struct.pack(">i", version)


def versioned(path: str | bytes, version: int = -1) -> bytes:
    """The body of a delete, a check, or of removing watches."""
    return text(path) + struct.pack(">i", version)


def read(path: str | bytes, watch: bool = False) -> bytes:
    return text(path) + struct.pack(">?", watch)


def multi(*ops: tuple[int, bytes]) -> bytes:
    return b"".join(struct.pack(">i?i", kind, False, -1) + body for kind, body in ops) + END


@dataclass(frozen=True)
class Stat:
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    owner: int
    size: int
    children: int
    pzxid: int

    @classmethod
    def of(cls, data: bytes) -> Self:
        return cls(*struct.unpack(">qqqqiiiqiiq", data[:68]))


@dataclass(frozen=True)
class Reply:
    xid: int
    zxid: int
    err: int
    body: bytes

    @property
    def stat(self) -> Stat:
        return Stat.of(self.body[-68:])

    @property
    def event(self) -> tuple[int, str]:
        assert self.xid == -1, self
        kind, state, size = struct.unpack_from(">iii", self.body)
        assert state == 3
        return kind, self.body[12 : 12 + size].decode()


@dataclass(frozen=True)
class Connected:
    size: int
    timeout_ms: int
    session: int
    password: bytes


_OPENED: list[Raw] = []


def drop_all() -> None:
    """Hang up wherever a test has not."""
    while _OPENED:
        _OPENED.pop().drop()


class Raw:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.xid = 0
        self.events: list[tuple[int, str]] = []
        self.hello: Connected

    @classmethod
    async def open(cls, port: int) -> Self:
        opened = cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 26))
        _OPENED.append(opened)
        return opened

    async def connect(
        self,
        timeout_ms: int = 10_000,
        session: int = 0,
        password: bytes = bytes(16),
        seen: int = 0,
        read_only: bool = True,
    ) -> Connected:
        body = struct.pack(">iqiq", 0, seen, timeout_ms, session) + blob(password)
        self.frame(body + (b"\0" if read_only else b""))
        return await self.connected()

    async def connected(self) -> Connected:
        data = await self.recv_frame()
        _, timeout_ms, session, size = struct.unpack_from(">iiqi", data)
        self.hello = Connected(len(data), timeout_ms, session, data[20 : 20 + size])
        return self.hello

    def frame(self, body: bytes) -> None:
        self.writer.write(struct.pack(">i", len(body)) + body)

    def send(self, op: int, body: bytes = b"", xid: int | None = None) -> int:
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.frame(struct.pack(">ii", xid, op) + body)
        return xid

    async def recv_frame(self) -> bytes:
        async with asyncio.timeout(WAIT_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def recv(self) -> Reply:
        """The next frame, be it an event or a reply."""
        data = await self.recv_frame()
        xid, zxid, err = struct.unpack_from(">iqi", data)
        return Reply(xid, zxid, err, data[16:])

    async def reply(self) -> Reply:
        """The next reply; events before it are kept."""
        while (got := await self.recv()).xid == -1:
            self.events.append(got.event)
        return got

    async def call(self, op: int, body: bytes = b"", xid: int | None = None) -> Reply:
        sent = self.send(op, body, xid)
        got = await self.reply()
        assert got.xid == sent
        return got

    async def err(self, op: int, body: bytes = b"") -> int:
        return (await self.call(op, body)).err

    async def settle(self) -> list[tuple[int, str]]:
        """The events that came up to now, which are forgotten then."""
        await self.call(9, text("/"))
        events, self.events = self.events, []
        return events

    async def is_closed(self) -> bool:
        """Wait for the end; whether nothing came before it."""
        async with asyncio.timeout(WAIT_S):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True

    def drop(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def client(port: int, timeout_ms: int = 10_000) -> AsyncIterator[Raw]:
    """A connection with a session of its own."""
    raw = await Raw.open(port)
    try:
        await raw.connect(timeout_ms)
        yield raw
    finally:
        raw.drop()
