"""TLS on an accepted socket, for a protocol that has a buffer of its own.

Clients make small records: librdkafka makes two of every message. What a record costs is therefore
what TLS costs. Bytes are read from the socket in large pieces, into one space that all connections
of a listener share, and every record of them is deciphered into the protocol's own buffer before
the protocol hears of any. asyncio's TLS does the same with a buffer for every connection and more
calls in between.

A handshake is made of steps, each taken by a thread, so that keys are multiplied beside the loop.
Where it fails the other side is told why before the socket is closed: asyncio would close it, and
the client come again for ever instead of saying that its certificate has expired.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

# Read at once, and handed to OpenSSL at once. It keeps a place of that size for a connection that
# was busy once.
PIECE: Final = 64 * 1024
_PIECES_AT_ONCE: Final = 4  # then other connections have their turn
_HIGH: Final = 64 * 1024  # bytes that wait for the socket before a protocol is told to pause
_LOW: Final = _HIGH // 4
_LAST_WORDS_S: Final = 1.0  # for what was written before a connection was closed

_shakers: Final = ThreadPoolExecutor(2, thread_name_prefix="klamm-handshake")


@dataclass(frozen=True, slots=True)
class Shaken:
    """A socket after its handshake."""

    sock: socket.socket
    tls: ssl.SSLObject
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO


async def shake_hands(
    accepted: socket.socket, context: ssl.SSLContext, patience_s: float
) -> Shaken:
    """Begins TLS on a socket. A failure is told to the other side; the socket stays open."""
    loop = asyncio.get_running_loop()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=True)
    try:
        async with asyncio.timeout(patience_s):
            while not await loop.run_in_executor(_shakers, _has_shaken, tls):
                if outgoing.pending:
                    await loop.sock_sendall(accepted, outgoing.read())
                piece = await loop.sock_recv(accepted, PIECE)
                if not piece:
                    raise ConnectionResetError("it has left in the middle of the handshake")
                incoming.write(piece)
            if outgoing.pending:
                await loop.sock_sendall(accepted, outgoing.read())
    except TimeoutError:
        raise ConnectionAbortedError(f"no handshake within {patience_s:g} s") from None
    except ssl.SSLError:
        # The reason, if the socket takes it at once.
        with contextlib.suppress(OSError):
            accepted.send(outgoing.read())
        raise
    return Shaken(accepted, tls, incoming, outgoing)


def _has_shaken(tls: ssl.SSLObject) -> bool:
    """Goes on with a handshake; False when it waits for the other side."""
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


class TlsTransport(asyncio.Transport):
    """The connection of a protocol to the other side."""

    __slots__ = (
        "_backlog",
        "_backlog_size",
        "_ending",
        "_has_paused_writing",
        "_incoming",
        "_is_closing",
        "_is_lost",
        "_is_reading",
        "_loop",
        "_outgoing",
        "_peer",
        "_protocol",
        "_sock",
        "_space",
        "_tls",
    )

    def __init__(
        self, shaken: Shaken, protocol: asyncio.BufferedProtocol, space: memoryview
    ) -> None:
        """`space` is where bytes arrive; connections of one loop may share it."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._sock, self._tls = shaken.sock, shaken.tls
        self._incoming, self._outgoing = shaken.incoming, shaken.outgoing
        self._protocol = protocol
        self._space = space
        self._peer = _peer_of(shaken.sock)
        self._backlog: deque[memoryview] = deque()  # enciphered, and waiting for the socket
        self._backlog_size = 0
        self._is_reading = False
        self._is_closing = False
        self._is_lost = False
        self._has_paused_writing = False
        self._ending: asyncio.TimerHandle | None = None
        protocol.connection_made(self)
        self.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        match name:
            case "peername":
                return self._peer
            case "socket":
                return self._sock
            case "ssl_object":
                return self._tls
        return default

    # Reading

    def pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._sock.fileno())

    def resume_reading(self) -> None:
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self._loop.add_reader(self._sock.fileno(), self._read)
            # What was read before the pause: no socket tells of it.
            self._loop.call_soon(self._decipher)

    def _read(self) -> None:
        for _ in range(_PIECES_AT_ONCE):
            try:
                count = self._sock.recv_into(self._space)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as fault:
                self._lose(fault)
                return
            if not count:
                self._end()
                return
            self._incoming.write(self._space[:count])
            self._decipher()
            if count < len(self._space) or not self._is_reading:
                return

    def _decipher(self) -> None:
        """Give the protocol what has come, until that is all or it wants no more."""
        read = self._tls.read
        while self._is_reading:
            space = memoryview(self._protocol.get_buffer(-1))
            at, size, has_ended = 0, len(space), False
            try:
                while at < size:
                    count = read(size - at, space[at:])
                    if not count:
                        has_ended = True
                        break
                    at += count  # type: ignore[operator]  # with a space it is a number
            except ssl.SSLWantReadError:
                pass
            except OSError as fault:
                self._send_on()  # an alert, that it makes no sense
                self._lose(fault)
                return
            if at:
                self._protocol.buffer_updated(at)
            if has_ended:
                self._end()
            if at < size:
                break
        if self._outgoing.pending and not self._is_lost:
            self._send_on()

    def _end(self) -> None:
        """The other side has said that no more comes."""
        if not self._is_closing:
            self._protocol.eof_received()
            self.close()

    # Writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_lost or not data:
            return
        whole = memoryview(data)
        try:
            for start in range(0, len(whole), PIECE):
                self._tls.write(whole[start : start + PIECE])
                self._send_on()
        except ssl.SSLError as fault:
            self._lose(fault)

    def _send_on(self) -> None:
        """Send what is enciphered, or have it wait."""
        piece = memoryview(self._outgoing.read())
        if not self._backlog:
            piece = piece[self._sent(piece) :]
            if not piece or self._is_lost:
                return
            self._loop.add_writer(self._sock.fileno(), self._write_on)
        self._backlog.append(piece)
        self._backlog_size += len(piece)
        if self._backlog_size > _HIGH and not self._has_paused_writing:
            self._has_paused_writing = True
            self._protocol.pause_writing()

    def _sent(self, piece: memoryview) -> int:
        """The number of bytes that the socket takes."""
        try:
            return self._sock.send(piece)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as fault:
            self._lose(fault)
            return 0

    def _write_on(self) -> None:
        while self._backlog:
            piece = self._backlog[0]
            sent = self._sent(piece)
            if self._is_lost:
                return
            self._backlog_size -= sent
            if sent < len(piece):
                self._backlog[0] = piece[sent:]
                break
            self._backlog.popleft()
        else:
            self._loop.remove_writer(self._sock.fileno())
        if self._has_paused_writing and self._backlog_size <= _LOW:
            self._has_paused_writing = False
            self._protocol.resume_writing()
        if self._is_closing and not self._backlog:
            self._lose(None)

    def get_write_buffer_size(self) -> int:
        return self._backlog_size

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return _LOW, _HIGH

    # The end

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Let what was written go out, and say that no more comes."""
        if self._is_closing:
            return
        self.pause_reading()
        self._is_closing = True
        if self._backlog:
            self._ending = self._loop.call_later(_LAST_WORDS_S, self.abort)
        else:
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self.pause_reading()
        self._is_closing = True
        self._loop.call_soon(self._lose, ConnectionAbortedError())

    def _lose(self, fault: OSError | None) -> None:
        """The connection has ended: at our wish, or with a fault."""
        if self._is_lost:
            return
        self.pause_reading()
        self._is_lost = self._is_closing = True
        self._loop.remove_writer(self._sock.fileno())
        if self._ending is not None:
            self._ending.cancel()
        if fault is None:
            # It says so, and does not wait to hear the same.
            with contextlib.suppress(OSError):
                self._tls.unwrap()
            with contextlib.suppress(OSError):
                self._sock.send(self._outgoing.read())
        # Whoever met the fault may be in the middle of something.
        self._loop.call_soon(self._forget, fault)

    def _forget(self, fault: OSError | None) -> None:
        self._backlog.clear()
        self._backlog_size = 0
        self._protocol.connection_lost(fault)
        self._sock.close()


def _peer_of(sock: socket.socket) -> Any:
    try:
        return sock.getpeername()
    except OSError:
        return None
