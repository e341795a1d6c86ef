"""One listener of a broker: its sockets, and the connections they accepted.

Whoever comes is somebody's client until it has proven to be a broker. Clients are subject to all
limits; brokers to none, or a full table would cut the cluster's own wires. So a connection that
finds no room is not refused unheard: it is held, and may still prove what it is. Beyond what the
process can afford (`descriptors.py`) only a few guests are heard at a time, the newest, and not for
long.

Accepting is in our own hands. Where the system has no descriptor left, it pauses, says so once,
and goes on by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from klamm.broker.net.connection import Connection
from klamm.broker.net.descriptors import OF_PROCESS, Descriptors
from klamm.broker.net.framing import FrameMemory
from klamm.broker.net.guard import Guard
from klamm.broker.net.half_open import HalfOpen
from klamm.broker.net.peer import Route
from klamm.broker.net.tls_transport import PIECE, TlsTransport, shake_hands
from klamm.broker.net.welcome import SERVED, Limits
from klamm.model.brokers import PLAINTEXT
from klamm.model.errors import UsageError
from klamm.protocol.bounds import Bounds
from klamm.repeats import limited

log = limited(logging.getLogger(__name__), first=1)

_BACKLOG: Final = 1024  # how many wait to be accepted, and as many again to be served
_ACCEPTED_AT_ONCE: Final = 64  # in one turn of the loop; then those who are here have theirs
_LOGIN_S: Final = 30.0
_HALF_OPEN: Final = 1000
_GUEST_S: Final = 2.0  # for the handshake of somebody beyond what the process can afford
_LAST_WORDS_S: Final = 1.0  # for answers that are already written
_ACCEPT_PAUSE_S: Final = 0.2
# Nothing is wrong with the socket: there is no descriptor, or no memory, for one more.
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def nobody(_listener: str, _host: str) -> bool:
    """Take nobody for a broker who has not proven to be one."""
    return False


class _Handshake:
    """A connection that has not begun yet, as a stranger."""

    def __init__(self, task: asyncio.Task[None] | None) -> None:
        self._task = task

    def abort(self) -> None:
        if self._task is not None:
            self._task.cancel()


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
        limits: Limits | None = None,
        descriptors: Descriptors = OF_PROCESS,
        is_admitted: Callable[[str, str], bool] = nobody,
        on_room: Callable[[], None] | None = None,
        guard: Guard | None = None,
        half_open: HalfOpen | None = None,
        login_s_max: Callable[[], float] = lambda: _LOGIN_S,
    ) -> None:
        """`on_room` is called when there may be room for one more; by default it lets one in."""
        self._route = route
        self._frame_size_max = frame_size_max
        self._memory = memory
        self._idle_s_max = idle_ms_max / 1000
        self._name = name
        self._limits = limits
        self._descriptors = descriptors
        self._is_admitted = is_admitted
        self._on_room = on_room or self.let_in
        self._guard = guard
        self._half_open = half_open or HalfOpen(lambda: _HALF_OPEN, lambda: _HALF_OPEN)
        self._login_s_max = login_s_max
        # Where bytes arrive that are to be deciphered; of no use to a listener without TLS.
        self._space = memoryview(bytearray(PIECE if guard is not None else 0))
        self._handshakes: set[_Handshake] = set()
        self._strangers: dict[Connection, asyncio.TimerHandle] = {}  # and when they have to go
        self._connections: set[Connection] = set()
        self._clients: set[Connection] = set()  # those that the process's share counts
        self._counted: set[Connection] = set()  # those that this broker's limits count
        self._waiting: dict[Connection, None] = {}  # for somebody to leave; the first is the next
        self._guests: dict[Connection, None] = {}  # of whom only brokers may stay
        self._vacant = asyncio.Event()
        self._vacant.set()
        self._sockets: list[socket.socket] = []
        self._arriving: set[asyncio.Task[None]] = set()
        self._pausing: asyncio.TimerHandle | None = None
        self._has_ended = False

    async def start(self, host: str, port: int) -> int:
        """Listen; port 0 takes a free one. Returns the port."""
        try:
            self._sockets = await _bound(host, port)
        except OSError as fault:
            if fault.errno == errno.EADDRINUSE:
                where = host or "every address"
                raise UsageError(f"port {port} on {where} is taken by another program") from fault
            raise UsageError(f"cannot listen on {host}:{port}: {fault.strerror}") from fault
        self._accept_from_now()
        port_bound: int = self._sockets[0].getsockname()[1]
        return port_bound

    @property
    def name(self) -> str:
        return self._name

    @property
    def connections(self) -> frozenset[Connection]:
        return frozenset(self._connections)

    @property
    def connection_count(self) -> int:
        """The number of connections that are served, or about to be turned away."""
        return len(self._connections) - len(self._waiting) - len(self._guests)

    @property
    def counted(self) -> frozenset[Connection]:
        """The connections that the broker's limits count."""
        return frozenset(self._counted)

    def sweep(self) -> None:
        """Close what has been idle for too long; take memory back from what is quiet."""
        now = asyncio.get_running_loop().time()
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
        if not self._sockets:
            return
        self._has_ended = True
        self._stop_accepting()
        for listening in self._sockets:
            listening.close()
        for handshake in list(self._handshakes):
            handshake.abort()
        await asyncio.gather(*self._arriving, return_exceptions=True)
        if not abruptly:
            for connection in list(self._connections):
                connection.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self._vacant.wait()
        for connection in list(self._connections):
            connection.abort()
        await self._vacant.wait()
        self._sockets = []

    # Accepting

    def _accept_from_now(self) -> None:
        if self._pausing is not None:
            self._pausing = None
            log.info("connections are accepted again")
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.add_reader(listening.fileno(), self._accept, listening)

    def _stop_accepting(self) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening.fileno())
        if self._pausing is not None:
            self._pausing.cancel()
            self._pausing = None

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            is_client = self._descriptors.take()
            if not is_client and len(self._arriving) >= self._descriptors.guests_max:
                return  # these first: a descriptor is closed a turn after its connection
            accepted = self._accepted(listening)
            if accepted is None:
                if is_client:
                    self._descriptors.give()
                return
            begun = self._begin(accepted, is_client)
            task = asyncio.get_running_loop().create_task(begun, name="arriving")
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    def _accepted(self, listening: socket.socket) -> socket.socket | None:
        """The next who waits, if there is one and a descriptor for it."""
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None  # nobody, or it has left before its turn
        except OSError as fault:
            self._pause(fault)
            return None
        accepted.setblocking(False)
        return accepted

    def _pause(self, fault: OSError) -> None:
        """Accept nobody for a while; who comes waits in the system's own queue."""
        self._stop_accepting()
        self._pausing = asyncio.get_running_loop().call_later(
            _ACCEPT_PAUSE_S, self._accept_from_now
        )
        hint = " (raise `ulimit -n`)" if fault.errno in _EXHAUSTED else ""
        log.warning(
            "connections are not accepted for now%s",
            hint,
            extra={"listener": self._name, "why": fault.strerror},
        )

    async def _begin(self, accepted: socket.socket, is_client: bool) -> None:
        connection = Connection(
            self._route,
            self,
            frame_size_max=self._frame_size_max,
            listener=self._name,
            memory=self._memory,
            guard=self._guard,
        )
        if is_client:
            self._clients.add(connection)
        tls = self._guard.tls if self._guard is not None else None
        try:
            if self._guard is not None and tls is not None:
                patience_s = self._login_s_max() if is_client else _GUEST_S
                await self._shake_hands(connection, accepted, tls, self._guard, patience_s)
            else:
                loop = asyncio.get_running_loop()
                await loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError as fault:
            accepted.close()
            self._uncount(connection)
            log.info("a connection broke before it began", extra={"why": fault.strerror})
        except BaseException:
            accepted.close()
            self._uncount(connection)
            raise

    async def _shake_hands(
        self,
        connection: Connection,
        accepted: socket.socket,
        tls: ssl.SSLContext,
        guard: Guard,
        patience_s: float,
    ) -> None:
        """Begin a connection with TLS; who takes too long, or comes with too many, is dropped."""
        try:
            address = str(accepted.getpeername()[0])
        except OSError:
            raise ConnectionResetError("it has left before its turn") from None
        handshake = _Handshake(asyncio.current_task())
        self._handshakes.add(handshake)
        self._half_open.joined(handshake, address)
        try:
            shaken = await shake_hands(accepted, tls, patience_s)
        except OSError as fault:
            guard.handshake_failed(address, fault)
            raise
        finally:
            self._handshakes.discard(handshake)
            self._half_open.left(handshake, address)
        TlsTransport(shaken, connection, self._space)

    # Who may stay

    def joined(self, connection: Connection) -> None:
        self._connections.add(connection)
        self._vacant.clear()
        if self._has_ended:
            # It was accepted before the socket closed, and its protocol made only now.
            connection.abort()
            return
        if connection.is_stranger:
            self._look_at(connection)
        if self._is_admitted(self._name, connection.client_host):
            connection.is_broker = True
            self._uncount(connection)
        elif connection in self._clients:
            self._let_in_or_hold(connection)
        else:
            self._receive_guest(connection)

    def _look_at(self, connection: Connection) -> None:
        """Give somebody who has yet to log in so much time, and no more."""
        loop = asyncio.get_running_loop()
        self._strangers[connection] = loop.call_later(self._login_s_max(), connection.abort)
        self._half_open.joined(connection, connection.client_host)

    def identified(self, connection: Connection) -> None:
        """It has said who it is."""
        timer = self._strangers.pop(connection, None)
        if timer is not None:
            timer.cancel()
            self._half_open.left(connection, connection.client_host)

    def _let_in_or_hold(self, connection: Connection) -> None:
        if self._limits is None:
            return
        if not self._waiting and self._limits.room > 0:
            self._is_welcome(connection, self._limits)
        elif len(self._waiting) < _BACKLOG:
            self._waiting[connection] = None
            connection.hold()
        else:
            self._receive_guest(connection)

    def _receive_guest(self, connection: Connection) -> None:
        """Hear a connection too many; of these the newest stay, for a moment."""
        self._guests[connection] = None
        connection.turn_away(0)
        if len(self._guests) > self._descriptors.guests_max:
            # Who has begun to prove something goes last.
            silent = (guest for guest in self._guests if guest.challenge is None)
            oldest = next(silent, next(iter(self._guests)))
            del self._guests[oldest]
            oldest.abort()
        log.warning(
            "too many connections: those beyond are closed, but for brokers' (raise `ulimit -n`)",
            extra={
                "listener": self._name,
                "connections": self._descriptors.clients,
                "most": self._descriptors.clients_max,
            },
        )

    def proven(self, connection: Connection) -> None:
        """It is a broker's: no limit holds for it, and none counts it."""
        self._uncount(connection)
        connection.release()
        self._on_room()

    def let_in(self) -> None:
        """Serve those that waited for room, as far as there is some now."""
        while self._waiting and self._limits is not None and self._limits.room > 0:
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            if self._is_welcome(connection, self._limits):
                connection.release()

    def _is_welcome(self, connection: Connection, limits: Limits) -> bool:
        """Let a connection in; False where it is served later, or closed."""
        welcome = limits.joined(connection.client_host)
        self._counted.add(connection)
        if not welcome.is_served:
            connection.turn_away(welcome.after_ms)
        elif welcome.after_ms:
            connection.hold(welcome.after_ms)
        return welcome == SERVED

    def left(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._vacant.set()
        self._uncount(connection)
        self.identified(connection)
        if not self._has_ended:
            self._on_room()

    def _uncount(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)
        self._guests.pop(connection, None)
        if connection in self._clients:
            self._clients.discard(connection)
            self._descriptors.give()
        if connection in self._counted:
            self._counted.discard(connection)
            assert self._limits is not None, "who is counted is counted by something"
            self._limits.left(connection.client_host)


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at every address of this host, all on one port."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            taken = sockets[0].getsockname()[1] if len(sockets) > 1 else port
            listening.bind((address[0], taken, *address[2:]))
            listening.setblocking(False)
            listening.listen(_BACKLOG)
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    return sockets
