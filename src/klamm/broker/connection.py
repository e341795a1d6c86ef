"""One client's connection: frames in, replies out, strictly one request at a time.

The next frame is served only when the answer to the last one has been written, which gives order,
back-pressure and throttling for free; what a client pipelines meanwhile waits in the buffer, and
when that is full, in the client's own socket. A request that was routed may keep a view of its
frame until it is answered: nothing is moved before that.

All whole frames that a read has brought are served in one turn of the loop, and what can be said to
them at once is sent at once.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from klamm.broker.framing import FrameBuffer
from klamm.broker.promises import Alarm, Promise
from klamm.broker.replies import Reply, Sender
from klamm.model.errors import ProtocolError

log = logging.getLogger(__name__)


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
        self._unmute: asyncio.TimerHandle | None = None
        self._choked = False  # the client does not read its answers
        self._paused = False
        self._transport: asyncio.Transport
        self._sender: Sender

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer_name = transport.get_extra_info("peername")
        if peer_name:
            self.client_host = peer_name[0]
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sender = Sender(self._transport, on_sent=self._serve)
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
        if self._serving is not None:
            self._serving.cancel()
        self._sender.cancel()

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
            or self._sender.is_busy
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
            elif isinstance(answer, Promise):
                self._serving = answer
                answer.then(self._answered)
            else:
                self._serving = asyncio.ensure_future(answer)
                self._serving.add_done_callback(self._done)
        self._sender.flush()
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
        self._sender.flush()
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

    def _write(self, reply: Reply) -> None:
        """Say this; `_serve`, which comes next, sends it with what else there is to say."""
        self._sender.add(reply.parts)
        if reply.then_close:
            self._sender.flush()
            self._transport.close()
        elif reply.mute_ms > 0:
            self.mute(reply.mute_ms)

    def _unmuted(self) -> None:
        self._unmute = None
        self._serve()
