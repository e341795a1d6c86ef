"""Replies, and how they get into a socket.

A client that sends many requests at once is answered in one go: what one turn of the loop has to
say is gathered and written with one system call. Replies may name ranges of files. Small ones are
copied into that write; larger ones go from the page cache to the socket by `sendfile`, first at
once as far as the socket takes it, the rest as a task. The socket is corked meanwhile: the few
bytes between two ranges would each wake the client otherwise. What is made while it is sent, a
`ReplyStream`, is made as fast as the client takes it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from klamm.model.errors import ProtocolError

# Below this a copy is cheaper than a second system call.
_COPIED_SIZE_MAX: Final = 32 * 1024
# More would keep the loop away from other connections for too long.
_SENT_AT_ONCE_MAX: Final = 4 * 1024 * 1024
# More is not held back: the transport has to see it to say that the client does not read.
_GATHERED_SIZE_MAX: Final = 64 * 1024
_CORK: Final[int | None] = getattr(socket, "TCP_CORK", None)  # not every system has it
# Of a file, where its bytes have to be encrypted on their way: larger pieces cost more a byte.
_PIECE_SIZE: Final = 64 * 1024


class OpenFile(Protocol):
    """A file that stays open for as long as it is referred to."""

    def fileno(self) -> int: ...


class FileRange(Protocol):
    """Bytes of an open file that are part of a reply."""

    @property
    def file(self) -> OpenFile: ...

    @property
    def position(self) -> int: ...

    @property
    def size(self) -> int: ...


class ReplyStream(ABC):
    """Bytes of a reply that are made while it is sent: exactly as many as `size` says.

    A class, for every range of a file is asked whether it is one of these.
    """

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    @abstractmethod
    def pieces(self) -> AsyncIterator[bytes]:
        """The bytes, one piece after the other."""


Parts = Sequence[bytes | FileRange | ReplyStream]


@dataclass(slots=True)
class Reply:
    """The reply to one request: nothing at all for a Produce with acks=0."""

    parts: Parts = ()
    mute_ms: int = 0  # how long to leave the connection alone afterwards (KIP-219)
    then_close: bool = False


class Sender:
    """Gathers replies and sends them in order; what was added is on its way after `flush`."""

    __slots__ = (
        "_fd",
        "_gathered",
        "_is_corked",
        "_loop",
        "_on_sent",
        "_room",
        "_sending",
        "_size",
        "_socket",
        "_transport",
    )

    def __init__(self, transport: asyncio.Transport, on_sent: Callable[[], None]) -> None:
        self._socket: socket.socket = transport.get_extra_info("socket")
        self._fd = self._socket.fileno()
        self._is_corked = False
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._on_sent = on_sent
        self._gathered: list[bytes] = []
        self._size = 0
        self._sending: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None  # waits for the client to read

    @property
    def is_busy(self) -> bool:
        """Whether a file is being sent: nothing may be added until `on_sent` is called."""
        return self._sending is not None

    def add(self, parts: Parts) -> None:
        """Say this after all that was added before."""
        for at, part in enumerate(parts):
            if isinstance(part, bytes):
                self.add_piece(part)
            elif isinstance(part, ReplyStream):
                self.flush()
                self._send_later(parts[at:], 0)
                return
            elif part.size <= _COPIED_SIZE_MAX:
                self.add_piece(os.pread(part.file.fileno(), part.size, part.position))
            else:
                self._cork()
                self.flush()
                sent = self._send_now(part)
                if sent < part.size:
                    self._send_later(parts[at:], sent)
                    return
        if self._is_corked:
            self.flush()
            self._uncork()

    def _cork(self) -> None:
        """Let the system send full packets only, until `_uncork`."""
        if _CORK is not None and not self._is_corked and not self._transport.is_closing():
            self._is_corked = True
            self._socket.setsockopt(socket.IPPROTO_TCP, _CORK, 1)

    def _uncork(self) -> None:
        if _CORK is not None and self._is_corked:
            self._is_corked = False
            if not self._transport.is_closing():
                self._socket.setsockopt(socket.IPPROTO_TCP, _CORK, 0)

    def add_piece(self, piece: bytes) -> None:
        self._gathered.append(piece)
        self._size += len(piece)
        if self._size > _GATHERED_SIZE_MAX:
            self.flush()

    def flush(self) -> None:
        gathered = self._gathered
        if gathered:
            self._transport.write(gathered[0] if len(gathered) == 1 else b"".join(gathered))
            gathered.clear()
            self._size = 0

    def resume(self) -> None:
        """The client has read most of what was written."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def cancel(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    def _send_now(self, part: FileRange) -> int:
        """Send as much of a range as the socket takes without waiting."""
        sent, source = 0, part.file.fileno()
        if self._transport.get_write_buffer_size() or self._transport.is_closing():
            return sent
        try:
            while sent < min(part.size, _SENT_AT_ONCE_MAX):
                count = os.sendfile(self._fd, source, part.position + sent, part.size - sent)
                if count == 0:
                    break
                sent += count
        except BlockingIOError:
            pass
        except OSError:
            self._transport.abort()
        return sent

    def pause(self) -> None:
        """The transport takes no more for now."""

    def _send_later(self, parts: Parts, sent: int) -> None:
        self._uncork()  # the client may take its time, and the last packet is seldom a full one
        self._sending = self._loop.create_task(self._send_rest(parts, sent))
        self._sending.add_done_callback(self._sent)

    async def _send_rest(self, parts: Parts, sent: int) -> None:
        for part in parts:
            if isinstance(part, bytes):
                self._transport.write(part)
                continue
            if isinstance(part, ReplyStream):
                async for piece in part.pieces():
                    await self._has_room()
                    self._transport.write(piece)
                continue
            with os.fdopen(part.file.fileno(), "rb", buffering=0, closefd=False) as file:
                count = await self._loop.sendfile(
                    self._transport, file, part.position + sent, part.size - sent
                )
            if sent + count < part.size:
                raise ProtocolError("a file ended before the reply it is part of")
            sent = 0

    async def _has_room(self) -> None:
        """Wait until the client has read most of what was written, where that is a lot."""
        if self._transport.get_write_buffer_size() > self._transport.get_write_buffer_limits()[1]:
            self._room = self._loop.create_future()
            await self._room

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._sending = None
        if sending.cancelled():
            return
        if sending.exception() is not None:
            # Half a reply is out; nothing that could follow would make sense to the client.
            self._transport.abort()
        else:
            self._on_sent()


class EncryptingSender(Sender):
    """The same over TLS: files are read in pieces, and no faster than the client takes them."""

    __slots__ = ("_writable",)

    def __init__(self, transport: asyncio.Transport, on_sent: Callable[[], None]) -> None:
        super().__init__(transport, on_sent)
        self._writable = asyncio.Event()
        self._writable.set()

    def pause(self) -> None:
        self._writable.clear()

    def resume(self) -> None:
        super().resume()
        self._writable.set()

    def cancel(self) -> None:
        super().cancel()
        self._writable.set()

    def _cork(self) -> None:
        """Leave it: encrypted bytes leave in records anyway."""

    def _send_now(self, part: FileRange) -> int:
        return self._copy(part, 0)

    def _copy(self, part: FileRange, sent: int) -> int:
        """Send on as far as the transport takes it at once; returns how much is sent then."""
        source, until = part.file.fileno(), min(part.size, sent + _SENT_AT_ONCE_MAX)
        while sent < until and self._writable.is_set() and not self._transport.is_closing():
            piece = os.pread(source, min(_PIECE_SIZE, part.size - sent), part.position + sent)
            if not piece:
                raise ProtocolError("a file ended before the reply it is part of")
            self._transport.write(piece)
            sent += len(piece)
        return sent

    async def _send_rest(self, parts: Parts, sent: int) -> None:
        for part in parts:
            if isinstance(part, bytes):
                self._transport.write(part)
                continue
            if isinstance(part, ReplyStream):
                async for piece in part.pieces():
                    await self._writable.wait()
                    self._transport.write(piece)
                continue
            while sent < part.size:
                await self._writable.wait()
                if self._transport.is_closing():
                    return
                sent = self._copy(part, sent)
                await asyncio.sleep(0)  # others have their turn
            sent = 0
