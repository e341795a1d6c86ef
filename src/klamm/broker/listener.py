"""The socket a broker listens on, and the connections it accepted."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from typing import Final

from klamm.broker.connection import Connection, Route
from klamm.broker.connection_limits import SERVED, ConnectionLimits
from klamm.broker.framing import FrameMemory
from klamm.model.brokers import PLAINTEXT, Endpoint
from klamm.model.errors import UsageError
from klamm.protocol.bounds import Bounds

_BACKLOG: Final = 1024  # how many wait to be accepted, and as many again to be served
_LAST_WORDS_S: Final = 1.0  # for answers that are already written


class Listener:
    """Accepts connections and closes those that have gone idle."""

    def __init__(
        self,
        route: Route,
        *,
        frame_size_max: Bounds | int,
        idle_ms_max: int,
        memory: FrameMemory | None = None,
        name: str = PLAINTEXT,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._route = route
        self._frame_size_max = frame_size_max
        self._memory = memory
        self._idle_s_max = idle_ms_max / 1000
        self._name = name
        self._limits = limits
        self._connections: set[Connection] = set()
        self._waiting: dict[Connection, None] = {}  # for somebody to leave; the first is the next
        self._vacant = asyncio.Event()
        self._vacant.set()
        self._server: asyncio.Server | None = None
        self._has_ended = False

    async def start(self, host: str, port: int) -> Endpoint:
        """Listen; port 0 takes a free one. Returns where clients reach us."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._accept, host, port, backlog=_BACKLOG, reuse_address=True
            )
        except OSError as fault:
            if fault.errno == errno.EADDRINUSE:
                raise UsageError(f"port {port} on {host} is taken by another program") from fault
            raise UsageError(f"cannot listen on {host}:{port}: {fault.strerror}") from fault
        return Endpoint(host, self._server.sockets[0].getsockname()[1], listener=self._name)

    def _accept(self) -> Connection:
        return Connection(
            self._route,
            self,
            frame_size_max=self._frame_size_max,
            listener=self._name,
            memory=self._memory,
        )

    @property
    def connections(self) -> frozenset[Connection]:
        return frozenset(self._connections)

    @property
    def connection_count(self) -> int:
        """How many are served, or about to be turned away."""
        return len(self._connections) - len(self._waiting)

    def sweep(self) -> None:
        """Close what has been idle for too long; take memory back from what is quiet."""
        now = asyncio.get_running_loop().time()
        self._drop_excess()
        for connection in list(self._connections):
            if not connection.is_idle:
                continue
            quiet_s = now - connection.active_at
            if quiet_s > self._idle_s_max:
                connection.close()
            elif quiet_s > 1:
                connection.shrink()

    async def stop(self) -> None:
        """Accept no more; let what was written go out and close every connection."""
        await self._end(abruptly=False)

    async def kill(self) -> None:
        """Drop everything as a crash would."""
        await self._end(abruptly=True)

    async def _end(self, *, abruptly: bool) -> None:
        if self._server is None:
            return
        self._has_ended = True
        await self._stop_accepting(self._server)
        if not abruptly:
            for connection in list(self._connections):
                connection.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self._vacant.wait()
        for connection in list(self._connections):
            connection.abort()
        await self._vacant.wait()
        await self._server.wait_closed()
        self._server = None

    async def _stop_accepting(self, server: asyncio.Server) -> None:
        """Close the socket, but not under a connection that asyncio is just accepting.

        Before Python 3.12 a transport made after the server closed fails half-way and leaks its
        socket; so accepting ends first, and what had been accepted gets its turn of the loop.
        """
        loop = asyncio.get_running_loop()
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        for _ in range(2):
            await asyncio.sleep(0)
        server.close()

    def joined(self, connection: Connection) -> None:
        self._connections.add(connection)
        self._vacant.clear()
        if self._has_ended:
            # It was accepted before the socket closed, and its protocol made only now.
            connection.abort()
            return
        if self._limits is None:
            return
        if not self._waiting and self._limits.room > 0:
            self._is_welcome(connection, self._limits)
        elif len(self._waiting) < _BACKLOG:
            self._waiting[connection] = None
            connection.hold()
        else:
            self._waiting[connection] = None
            connection.abort()

    def let_in(self) -> None:
        """Serve those that waited for room, as far as there is some now."""
        while self._waiting and self._limits is not None and self._limits.room > 0:
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            if self._is_welcome(connection, self._limits):
                connection.release()

    def _is_welcome(self, connection: Connection, limits: ConnectionLimits) -> bool:
        """Let a connection in; False where it is served later, or closed."""
        welcome = limits.joined(connection.client_host)
        if not welcome.is_served:
            connection.turn_away(welcome.after_ms)
        elif welcome.after_ms:
            connection.mute(welcome.after_ms)
        return welcome == SERVED

    def _drop_excess(self) -> None:
        """Close those that have been quiet for longest, where fewer may be there than are."""
        excess = -self._limits.room if self._limits is not None else 0
        if excess > 0:
            served = self._connections - self._waiting.keys()
            for connection in sorted(served, key=lambda c: (not c.is_idle, c.active_at))[:excess]:
                connection.close()

    def left(self, connection: Connection) -> None:
        was_let_in = connection not in self._waiting
        self._waiting.pop(connection, None)
        self._connections.discard(connection)
        if not self._connections:
            self._vacant.set()
        if self._limits is not None and not self._has_ended:
            if was_let_in:
                self._limits.left(connection.client_host)
            self.let_in()
