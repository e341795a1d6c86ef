"""One client's connection: frames in, replies out, strictly one request at a time.

The next frame is served only when the answer to the last one has been written, which gives order,
back-pressure and throttling for free; what a client pipelines meanwhile waits in the buffer, and
when that is full, in the client's own socket. A request that was routed may keep a view of its
frame until it is answered: nothing is moved before that.

Replies may name ranges of files. Small ones are copied into one write; larger ones go from the page
cache to the socket by `sendfile`, first at once as far as the socket takes it, the rest as a task.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from klamm.broker.framing import FrameBuffer
from klamm.broker.promises import Alarm, Promise
from klamm.model.errors import ProtocolError

log = logging.getLogger(__name__)

# Below this a copy is cheaper than a second system call.
_COPIED_SIZE_MAX: Final = 32 * 1024
# More would keep the loop away from other connections for too long.
_SENT_AT_ONCE_MAX: Final = 4 * 1024 * 1024


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


@dataclass(slots=True)
class Reply:
    """What goes back for one request: nothing at all for a Produce with acks=0."""

    parts: Sequence[bytes | FileRange] = ()
    mute_ms: int = 0  # how long to leave the connection alone afterwards (KIP-219)
    then_close: bool = False


class Peer(Protocol):
    """What a router may know of the connection a request came in on."""

    client_host: str
    listener: str
    software: str  # what the client called itself in ApiVersions
    alarm: Alarm  # for the request that is served: until when it waits
    # Called when another request arrives while one is served: some that only wait end early then.
    on_more: Callable[[], None] | None


Answer = Reply | Promise | Awaitable[Reply]
Route = Callable[[Peer, memoryview], Answer]


class Owner(Protocol):
    """Who keeps the list of connections."""

    def joined(self, connection: Connection) -> None: ...

    def left(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """One accepted socket."""

    def __init__(
        self,
        route: Route,
        owner: Owner,
        *,
        frame_size_max: int,
        listener: str,
    ) -> None:
        self.client_host = "?"
        self.listener = listener
        self.software = ""
        self.active_at = 0.0
        self.on_more: Callable[[], None] | None = None
        self._route = route
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._frames = FrameBuffer(frame_size_max)
        self.alarm = Alarm(self._loop)
        self._serving: asyncio.Future[Reply] | Promise | None = None
        self._sending: asyncio.Task[None] | None = None
        self._unmute: asyncio.TimerHandle | None = None
        self._choked = False  # the client does not read its answers
        self._paused = False
        self._transport: asyncio.Transport

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer_name = transport.get_extra_info("peername")
        if peer_name:
            self.client_host = peer_name[0]
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._fd = sock.fileno()
        self.active_at = self._loop.time()
        self._owner.joined(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        self.active_at = self._loop.time()
        if self._serving is None:
            self._serve()
            return
        if self.on_more is not None and self._frames.has_frame:
            self.on_more()
        self._make_room()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.left(self)
        self.alarm.close()
        if self._unmute is not None:
            self._unmute.cancel()
        for work in (self._serving, self._sending):
            if work is not None:
                work.cancel()

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        self._serve()

    # Ours

    def mute(self, wait_ms: int) -> None:
        """Serve nothing for a while."""
        self._unmute = self._loop.call_later(wait_ms / 1000, self._unmuted)

    def turn_away(self, delay_ms: int) -> None:
        """Serve nothing, and close after a while."""
        self._transport.pause_reading()
        self._unmute = self._loop.call_later(delay_ms / 1000, self._transport.close)

    def close(self) -> None:
        """Let what was written go out, then close."""
        self._transport.close()

    def abort(self) -> None:
        """Drop the connection as a crash would."""
        self._transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether the client owes us a request, not we an answer."""
        return not self._is_busy

    @property
    def buffered(self) -> int:
        """How many bytes wait to be served."""
        return self._frames.waiting

    @property
    def capacity(self) -> int:
        """How much memory the buffer takes."""
        return self._frames.capacity

    def shrink(self) -> None:
        """Give back the memory of a connection that has gone quiet."""
        if not self._is_busy:
            self._frames.shrink()

    @property
    def _is_busy(self) -> bool:
        return (
            self._serving is not None
            or self._sending is not None
            or self._unmute is not None
            or self._choked
        )

    def _serve(self) -> None:
        """Serve what has arrived, until a request has to wait for something."""
        frames = self._frames
        while not self._is_busy and not self._transport.is_closing():
            try:
                frame = frames.next_frame()
                if frame is None:
                    break
                answer = self._route(self, frame)
            except ProtocolError as fault:
                self._refuse(str(fault))
                return
            if isinstance(answer, Reply):
                self._write(answer)
                if frames.is_drained:
                    break
            elif isinstance(answer, Promise):
                self._serving = answer
                answer.then(self._answered)
            else:
                self._serving = asyncio.ensure_future(answer)
                self._serving.add_done_callback(self._done)
        self._make_room()

    def _done(self, serving: asyncio.Future[Reply]) -> None:
        if serving.cancelled():
            self._serving = None
            return
        fault = serving.exception()
        assert fault is None or isinstance(fault, Exception), "the loop has raised all others"
        self._answered(fault or serving.result())

    def _answered(self, outcome: Reply | Exception) -> None:
        self._serving = None
        if self._transport.is_closing():
            return
        if isinstance(outcome, Reply):
            self._write(outcome)
            self._serve()
        elif isinstance(outcome, ProtocolError):
            self._refuse(str(outcome))
        else:
            log.error("a request was left unanswered", exc_info=outcome)
            self._transport.abort()

    def _refuse(self, why: str) -> None:
        log.warning("closing a connection", extra={"client": self.client_host, "why": why})
        self._transport.abort()

    def _make_room(self) -> None:
        """Before the next read: space for it, or no read at all while a request is served."""
        if self._transport.is_closing():
            return
        if not self._is_busy:
            self._frames.make_room()
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
        elif self._frames.is_full and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    # Replies

    def _write(self, reply: Reply) -> None:
        parts = reply.parts
        if len(parts) == 1 and isinstance(parts[0], bytes):
            self._transport.write(parts[0])
        elif parts:
            self._write_parts(parts)
        if reply.then_close:
            self._transport.close()
        elif reply.mute_ms > 0:
            self.mute(reply.mute_ms)

    def _unmuted(self) -> None:
        self._unmute = None
        self._serve()

    def _write_parts(self, parts: Sequence[bytes | FileRange]) -> None:
        pieces: list[bytes] = []
        for at, part in enumerate(parts):
            if isinstance(part, bytes):
                pieces.append(part)
            elif part.size <= _COPIED_SIZE_MAX:
                pieces.append(_copied(part))
            else:
                self._transport.write(b"".join(pieces))
                pieces.clear()
                sent = self._send_now(part)
                if sent < part.size:
                    self._sending = self._loop.create_task(self._send_rest(parts[at:], sent))
                    self._sending.add_done_callback(self._sent)
                    return
        if pieces:
            self._transport.write(b"".join(pieces))

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

    async def _send_rest(self, parts: Sequence[bytes | FileRange], sent: int) -> None:
        for part in parts:
            if isinstance(part, bytes):
                self._transport.write(part)
                continue
            with os.fdopen(part.file.fileno(), "rb", buffering=0, closefd=False) as file:
                count = await self._loop.sendfile(
                    self._transport, file, part.position + sent, part.size - sent
                )
            if sent + count < part.size:
                raise ProtocolError("a file ended before the reply it is part of")
            sent = 0

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._sending = None
        if sending.cancelled():
            return
        if sending.exception() is not None:
            # Half a reply is out; nothing that could follow would make sense to the client.
            self._transport.abort()
        else:
            self._serve()


def _copied(part: FileRange) -> bytes:
    return os.pread(part.file.fileno(), part.size, part.position)
