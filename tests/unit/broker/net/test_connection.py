"""The connection, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import IO

import pytest

from klamm import sockets
from klamm.broker.net.connection import Connection
from klamm.broker.net.listener import Listener
from klamm.broker.net.listeners import Listeners
from klamm.broker.net.peer import Answer, Peer, Route
from klamm.broker.net.promises import Receipt
from klamm.broker.net.replies import Reply, ReplyStream
from klamm.broker.quotas.connection_limits import ConnectionLimits
from klamm.broker.quotas.quotas import Quotas
from klamm.model.errors import ProtocolError, UsageError
from klamm.model.settings import BrokerSettings
from klamm.security.listeners.endpoints import Listener as Place
from klamm.security.listeners.endpoints import SecurityProtocol


@dataclass
class Range:
    """A part of a file."""

    file: IO[bytes]
    position: int
    size: int


@dataclass
class Wire:
    """One client of one listener."""

    listener: Listener
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    port: int

    def send(self, *bodies: bytes) -> None:
        self.writer.write(b"".join(struct.pack(">i", len(body)) + body for body in bodies))

    async def receive(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)


@contextlib.asynccontextmanager
async def serving(route: Route, **options: int) -> AsyncIterator[Wire]:
    listener = Listener(
        route,
        frame_size_max=options.get("frame_size_max", 100 * 1024 * 1024),
        idle_ms_max=options.get("idle_ms_max", 600_000),
    )
    port = await listener.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
    try:
        yield Wire(listener, reader, writer, port)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        await listener.stop()


async def turns_until(happened: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    for _ in range(100_000):
        if happened():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def echo(peer: Peer, frame: memoryview) -> Reply:
    return Reply((framed(bytes(frame)),))


@pytest.mark.parametrize(
    "size", [1, 4, 4 * 1024 - 4, 4 * 1024 - 3, 16 * 1024 - 4, 70_000, 3_000_000]
)
async def test_frames_of_any_size_come_back(size: int) -> None:
    async with serving(echo) as wire:
        body = os.urandom(size)
        wire.send(body, b"tail")
        assert await wire.receive() == body
        assert await wire.receive() == b"tail"


async def test_pipelined_frames_are_answered_in_order() -> None:
    async with serving(echo) as wire:
        bodies = [struct.pack(">i", n) * (n % 700 + 1) for n in range(2_000)]
        wire.send(*bodies)
        for body in bodies:
            assert await wire.receive() == body


async def test_every_accepted_socket_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned: list[int] = []
    monkeypatch.setattr(sockets, "tune", lambda sock: tuned.append(sock.getpeername()[1]))
    async with serving(echo) as wire:
        wire.send(b"hello")
        await wire.receive()
        assert tuned == [wire.writer.get_extra_info("sockname")[1]]


async def test_the_next_request_waits_for_the_answer_to_the_last() -> None:
    async def run() -> None:
        started: list[bytes] = []
        gate = asyncio.Event()

        async def answer(frame: memoryview) -> Reply:
            await gate.wait()
            return Reply((framed(bytes(frame)),))

        def route(peer: Peer, frame: memoryview) -> Awaitable[Reply]:
            started.append(bytes(frame))
            return answer(frame)

        async with serving(route) as wire:
            # More than the buffer holds, so that reading stops and goes on again.
            bodies = [bytes([n]) * 9_000 for n in range(20)]
            wire.send(*bodies)
            await turns_until(lambda: bool(started))
            for _ in range(50):
                await asyncio.sleep(0)
            assert started == bodies[:1]
            gate.set()
            for body in bodies:
                assert await wire.receive() == body

    await run()


async def test_a_size_that_cannot_be_closes_the_connection() -> None:
    async def run(prefix: bytes) -> None:
        async with serving(echo, frame_size_max=1_000) as wire:
            wire.writer.write(prefix)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await wire.receive()

    for size in (-1, 0, 1_001, 2**31 - 1):
        await run(struct.pack(">i", size) + b"x" * 10)


async def test_a_claimed_size_alone_costs_no_memory() -> None:
    async with serving(echo) as wire:
        wire.writer.write(struct.pack(">i", 90_000_000) + b"x" * 100_000)
        await wire.writer.drain()
        (connection,) = await connected(wire)
        await turns_until(lambda: connection.buffered >= 100_000)
        assert connection.capacity <= 2 * 131_072


async def connected(wire: Wire) -> list[Connection]:
    await turns_until(lambda: wire.listener.connection_count > 0)
    return list(wire.listener.connections)


async def test_garbage_closes_that_connection_and_no_other() -> None:
    def route(peer: Peer, frame: memoryview) -> Reply:
        if bytes(frame) == b"garbage":
            raise ProtocolError("no such api")
        return echo(peer, frame)

    async with serving(route) as wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", wire.port)
        writer.write(framed(b"garbage"))
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        wire.send(b"fine")
        assert await wire.receive() == b"fine"


@pytest.mark.parametrize("size", [10, 40_000, 30_000_000])
async def test_file_ranges_are_sent_whole(size: int) -> None:
    async def run() -> None:
        with tempfile.TemporaryFile() as file:
            content = os.urandom(size + 7)
            file.write(content)
            file.flush()
            part = Range(file, 7, size)

            def route(peer: Peer, frame: memoryview) -> Reply:
                return Reply((struct.pack(">i", size + 2), b"[", part, b"]"))

            async with serving(route) as wire:
                wire.send(b"?")
                # A slow reader: the socket fills and the rest has to wait for it.
                await asyncio.sleep(0.05)
                assert await wire.receive() == b"[" + content[7:] + b"]"
                wire.send(b"?")
                assert len(await wire.receive()) == size + 2

    await run()


@pytest.mark.skipif(not hasattr(socket, "TCP_CORK"), reason="this system knows no corks")
async def test_the_bytes_between_ranges_leave_in_full_packets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The socket is corked while ranges are sent, and not for a moment longer."""
    seen: list[int] = []
    real = os.sendfile

    def corked(fd: int) -> int:
        with socket.socket(fileno=os.dup(fd)) as sock:
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK)

    def sendfile(out: int, source: int, offset: int, count: int) -> int:
        seen.append(corked(out))
        return real(out, source, offset, count)

    monkeypatch.setattr(os, "sendfile", sendfile)
    size = 100_000
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(2 * size))
        file.flush()
        ranges = Range(file, 0, size), Range(file, size, size)

        def route(peer: Peer, frame: memoryview) -> Reply:
            return Reply((struct.pack(">i", 2 * size + 2), ranges[0], b"-", ranges[1], b"."))

        async with serving(route) as wire:
            wire.send(b"?")
            assert len(await wire.receive()) == 2 * size + 2
            (connection,) = wire.listener.connections
            assert corked(connection._sender._fd) == 0
    assert seen[:2] == [1, 1]


async def test_a_muted_connection_is_served_later() -> None:
    async def run() -> None:
        def route(peer: Peer, frame: memoryview) -> Reply:
            return Reply((framed(bytes(frame)),), mute_ms=80 if bytes(frame) == b"a" else 0)

        async with serving(route) as wire:
            wire.send(b"a", b"b")
            assert await wire.receive() == b"a"
            before = asyncio.get_running_loop().time()
            assert await wire.receive() == b"b"
            assert asyncio.get_running_loop().time() - before > 0.05

    await run()


async def test_a_connection_too_many_is_left_alone_and_closed() -> None:
    settings = BrokerSettings.parse({"max.connections.per.ip.overrides": "127.0.0.1:1"})
    limits = ConnectionLimits(Quotas(lambda: 0), lambda: settings)
    listener = Listener(echo, frame_size_max=99, idle_ms_max=60_000, limits=limits)
    port = await listener.start("127.0.0.1", 0)
    first = await asyncio.open_connection("127.0.0.1", port)
    second = await asyncio.open_connection("127.0.0.1", port)
    for _, writer in (first, second):
        writer.write(framed(b"hello?"))
    assert await first[0].readexactly(10) == framed(b"hello?")
    with contextlib.suppress(ConnectionResetError):  # it was closed with our question unread
        assert await second[0].read() == b""
    await turns_until(lambda: listener.connection_count == 1)
    third = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionResetError):
        assert await third[0].read() == b""
    for _, writer in (first, second, third):
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    await turns_until(lambda: listener.connection_count == 0)
    fourth = await asyncio.open_connection("127.0.0.1", port)
    fourth[1].write(framed(b"again?"))
    assert await fourth[0].readexactly(10) == framed(b"again?")
    fourth[1].close()
    await fourth[1].wait_closed()
    await listener.stop()


async def test_who_finds_the_broker_full_is_served_when_somebody_leaves() -> None:
    async def run() -> None:
        texts = {"max.connections": "1"}
        limits = ConnectionLimits(Quotas(lambda: 0), lambda: BrokerSettings.parse(texts))
        listener = Listeners(
            lambda _, on_room: Listener(
                echo, frame_size_max=99, idle_ms_max=60_000, limits=limits, on_room=on_room
            ),
            limits,
        )
        await listener.open([Place("PLAINTEXT", "127.0.0.1", 0, SecurityProtocol.PLAINTEXT)])
        port = listener.ports["PLAINTEXT"]
        peers = []

        async def come() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            peers.append(await asyncio.open_connection("127.0.0.1", port))
            peers[-1][1].write(framed(b"hello?"))
            await turns_until(lambda: len(listener.connections) == len(peers))
            return peers[-1]

        async def is_served(reader: asyncio.StreamReader) -> bool:
            return await reader.readexactly(10) == framed(b"hello?")

        first, second, third, fourth = [await come() for _ in range(4)]
        assert await is_served(first[0])
        assert listener.connection_count == 1
        second[1].close()  # it does not want to wait any longer
        await turns_until(lambda: len(listener.connections) == 3)
        first[1].close()
        assert await is_served(third[0])
        assert listener.connection_count == 1
        texts["max.connections"] = "2"
        listener.let_in()
        assert await is_served(fourth[0])
        texts["max.connections"] = "1"  # who was quiet for longest goes
        listener.sweep()
        assert await third[0].read() == b""
        fourth[1].write(framed(b"hello?"))
        assert await is_served(fourth[0])
        for _, writer in peers:
            writer.close()
            await writer.wait_closed()
        await listener.stop()

    await run()


async def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    async def run() -> None:
        gate = asyncio.Event()

        async def late(frame: memoryview) -> Reply:
            await gate.wait()
            return Reply((framed(bytes(frame)),))

        async with serving(lambda peer, frame: late(frame), idle_ms_max=-1_000) as wire:
            wire.send(b"busy")
            (connection,) = await connected(wire)
            await turns_until(lambda: not connection.is_idle)
            wire.listener.sweep()
            gate.set()
            assert await wire.receive() == b"busy"
            wire.listener.sweep()
            assert await wire.reader.read() == b""

    await run()


async def test_a_client_that_leaves_cancels_what_it_asked_for() -> None:
    waiting: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    async with serving(lambda peer, frame: waiting) as wire:
        wire.send(b"x")
        (connection,) = await connected(wire)
        await turns_until(lambda: not connection.is_idle)
        wire.writer.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_taken_port_is_said_in_one_sentence() -> None:
    async with serving(echo) as wire:
        other = Listener(echo, frame_size_max=10, idle_ms_max=10)
        with pytest.raises(UsageError, match=f"port {wire.port} on 127.0.0.1 is taken"):
            await other.start("127.0.0.1", wire.port)


PRODUCE = b"\0\0"
OTHER = b"\0\3"


class Owing:
    """Answers what begins as a Produce with a receipt, and all else at once."""

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.receipts: dict[bytes, Receipt] = {}
        self.dropped: list[bytes] = []

    def route(self, peer: Peer, frame: memoryview) -> Answer:
        body = bytes(frame)
        self.served.append(body)
        if body.endswith(b"in bytes"):
            return framed(body)
        if not body.startswith(PRODUCE) or body.endswith(b"at once"):
            return echo(peer, frame)
        if body.endswith(b"in a task"):
            return self._later(body)
        self.receipts[body] = Receipt(lambda: self.dropped.append(body))
        return self.receipts[body]

    async def _later(self, body: bytes) -> Reply:
        await asyncio.sleep(0)
        return Reply((framed(body),))

    def keep(self, body: bytes) -> None:
        self.receipts[body].keep(Reply((framed(body),)))


async def test_produces_that_wait_for_confirmation_let_others_in_but_keep_the_order() -> None:
    owing = Owing()
    async with serving(owing.route) as wire:
        texts = (b"0 in bytes", b"one", b"two at once", b"two in bytes", b"three")
        bodies = [PRODUCE + text for text in texts]
        wire.send(*bodies)
        await turns_until(lambda: len(owing.served) == len(bodies))
        owing.keep(PRODUCE + b"three")
        for _ in range(50):
            await asyncio.sleep(0)
        owing.keep(PRODUCE + b"one")
        assert [await wire.receive() for _ in bodies] == bodies


async def test_a_task_behind_a_receipt_is_answered_after_it() -> None:
    owing = Owing()
    async with serving(owing.route) as wire:
        one, two, three = (PRODUCE + text for text in (b"one", b"two in a task", b"three"))
        wire.send(one, two, three)
        await turns_until(lambda: len(owing.served) == 3)
        owing.keep(three)
        owing.keep(one)
        assert [await wire.receive() for _ in range(3)] == [one, two, three]


async def test_what_is_no_produce_waits_until_nothing_is_owed() -> None:
    owing = Owing()
    async with serving(owing.route) as wire:
        wire.send(PRODUCE, OTHER, PRODUCE + b"again")
        await turns_until(lambda: bool(owing.served))
        for _ in range(50):
            await asyncio.sleep(0)
        assert owing.served == [PRODUCE]
        owing.keep(PRODUCE)
        assert await wire.receive() == PRODUCE
        assert await wire.receive() == OTHER
        await turns_until(lambda: len(owing.served) == 3)


async def test_a_client_is_owed_so_many_replies_and_no_more() -> None:
    owing = Owing()
    async with serving(owing.route) as wire:
        bodies = [PRODUCE + bytes([n]) * 9_000 for n in range(130)]
        wire.send(*bodies)
        await turns_until(lambda: len(owing.served) == 100)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(owing.served) == 100
        (connection,) = wire.listener.connections
        assert not connection.is_idle
        for body in bodies:
            await turns_until(lambda body=body: body in owing.receipts)  # type: ignore[misc]
            owing.keep(body)
            assert await wire.receive() == body
        assert connection.is_idle


async def test_a_client_that_leaves_drops_what_it_is_owed() -> None:
    owing = Owing()
    async with serving(owing.route) as wire:
        wire.send(PRODUCE, PRODUCE + b"two")
        await turns_until(lambda: len(owing.served) == 2)
        wire.writer.close()
        await turns_until(lambda: len(owing.dropped) == 2)
        assert owing.dropped == owing.served


class Written(asyncio.Transport):
    """A socket that takes everything, and keeps in which pieces it came."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__({"socket": sock})
        self.pieces: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))


class Nobody:
    def joined(self, connection: Connection) -> None:
        pass

    def left(self, connection: Connection) -> None:
        pass


async def test_what_one_read_brings_is_answered_in_one_write() -> None:
    with socket.socket() as sock:
        connection = Connection(echo, Nobody(), frame_size_max=1_000, listener="")
        transport = Written(sock)
        connection.connection_made(transport)
        stream = framed(b"one") + framed(b"two") + framed(b"three")
        whole = stream + framed(b"four")[:5]
        connection.get_buffer(-1)[: len(whole)] = whole
        connection.buffer_updated(len(whole))
        assert transport.pieces == [stream]


async def test_a_client_with_much_to_ask_lets_others_have_their_turns() -> None:
    with socket.socket() as sock:
        connection = Connection(echo, Nobody(), frame_size_max=1_000, listener="")
        transport = Written(sock)
        connection.connection_made(transport)
        stream = framed(b"x") * 200
        connection.get_buffer(-1)[: len(stream)] = stream
        connection.buffer_updated(len(stream))
        for served in (64, 128, 192, 200):
            assert b"".join(transport.pieces) == framed(b"x") * served
            await asyncio.sleep(0)


class _Counted(ReplyStream):
    """A stream that knows how much of it was made."""

    def __init__(self, pieces: int, piece: bytes) -> None:
        super().__init__(pieces * len(piece))
        self._count, self._piece = pieces, piece
        self.made = 0

    async def pieces(self) -> AsyncIterator[bytes]:
        for _ in range(self._count):
            await asyncio.sleep(0)
            self.made += 1
            yield self._piece


async def test_a_stream_is_made_as_fast_as_the_client_reads() -> None:
    async def run() -> None:
        stream = _Counted(200, bytes(100_000))

        def route(peer: Peer, frame: memoryview) -> Reply:
            if bytes(frame) != b"large":
                return Reply((framed(bytes(frame)),))
            head = struct.pack(">i", stream.size + 4) + b"head"
            return Reply((head, stream, b""))

        async with serving(route) as wire:
            wire.reader._limit = 1000  # type: ignore[attr-defined]
            wire.send(b"large", b"next")
            for _ in range(20_000):
                await asyncio.sleep(0)
            # The sockets' buffers are full, and one piece waits: the other hundreds are not made.
            assert 0 < stream.made < 150
            assert await wire.receive() == b"head" + bytes(stream.size)
            assert await wire.receive() == b"next"
            assert stream.made == 200

    await run()


async def test_a_stream_ends_with_its_connection() -> None:
    async def run() -> None:
        stream = _Counted(1_000_000, bytes(100_000))

        def route(peer: Peer, frame: memoryview) -> Reply:
            return Reply((stream,))

        async with serving(route) as wire:
            wire.send(b"large")
            await turns_until(lambda: stream.made > 10)
            wire.writer.transport.abort()
            await turns_until(lambda: not wire.listener.connections)
            made = stream.made
            for _ in range(100):
                await asyncio.sleep(0)
            assert stream.made <= made + 1

    await run()
