"""kazoo's threads on one side, one event loop on the other.

Everything that may happen on a kazoo thread is here: answers, watch events and changes of the
connection's state all hop onto the loop before anybody sees them. kazoo's errors are translated
here and nowhere else: `AnswerLost` means that a request may or may not have been done, anything
else that this session cannot be used.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from klamm.installing import install_command
from klamm.model.errors import KlammError, StoreUnavailable, UsageError
from klamm.store.port import SessionState
from klamm.store.tree import Touched
from klamm.store.zookeeper_door import ZooKeeperDistrusted, ZooKeeperDoor

try:
    from kazoo.client import CLOSED_STATES, KazooClient
    from kazoo.exceptions import (
        ConnectionLoss,
        KazooException,
        NoAuthError,
        NoNodeError,
        OperationTimeoutError,
        SessionExpiredError,
    )
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.protocol.states import KazooState, KeeperState
    from kazoo.retry import KazooRetry
except ModuleNotFoundError as missing:
    raise UsageError(f"ZooKeeper needs kazoo: {install_command('zookeeper')}") from missing

# As many requests as this are with kazoo at once; the others wait here.
_IN_FLIGHT_MAX: Final = 100
_RECONNECT_DELAY_S: Final = 0.05
_RECONNECT_DELAY_S_MAX: Final = 1.0

_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.EXPIRED,
}


class AnswerLost(KlammError):
    """The connection broke between a request and its answer."""


class NodeMissing(KlammError):
    """The request needs a node that is not there."""


class NotAllowed(KlammError):
    """The server does not let us do this."""


class Request(Protocol):
    """The requests that kazoo's connection can send."""

    @property
    def type(self) -> int: ...
    def serialize(self) -> bytes: ...
    def deserialize(self, data: bytes, offset: int) -> object: ...


class Bridge:
    """One ZooKeeper session, used from the loop that made it."""

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_ms: int,
        door: ZooKeeperDoor,
        on_state: Callable[[SessionState], None],
        on_touched: Callable[[Touched], None],
    ) -> None:
        self._hosts = hosts
        self._session_timeout_ms = session_timeout_ms
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Request, asyncio.Future[Any]]] = deque()
        self._in_flight: set[asyncio.Future[Any]] = set()
        self._refusing: str | None = None  # why no calls are taken
        self._events = _Events(lambda take: self._hop(lambda: on_touched(take())))
        self._door = door
        self._client = _Client(
            self._events,
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            **door.options(),
            connection_retry=KazooRetry(
                max_tries=-1, delay=_RECONNECT_DELAY_S, max_delay=_RECONNECT_DELAY_S_MAX
            ),
        )
        self._client.add_listener(lambda state: self._hop(on_state, _STATES[state]))

    def start(self, timeout_ms: int) -> int:
        """Connect, blocking; the session's id."""
        try:
            self._client.start(timeout_ms / 1000)
            if self._door.logs_in:
                self._client.exists("/")  # kazoo calls itself connected before the login
        except (KazooTimeoutError, KazooException) as error:
            raise self._unreached(timeout_ms) from error
        identity = self._client.client_id
        if identity is None:
            raise StoreUnavailable(f"the connection to {self._hosts} broke as soon as it was made")
        session_id, _ = identity
        return int(session_id)

    def _unreached(self, timeout_ms: int) -> KlammError:
        if self._client.was_refused:
            return UsageError(
                f"the ZooKeeper at {self._hosts} refused the login: correct user and password in "
                "klamm.zookeeper.sasl.jaas.config, and see that the server is configured for SASL"
            )
        if why := self._door.distrust():
            return ZooKeeperDistrusted(f"no ZooKeeper at {self._hosts} could be trusted: {why}")
        return StoreUnavailable(f"no ZooKeeper answered at {self._hosts} within {timeout_ms} ms")

    def call(self, request: Request) -> asyncio.Future[Any]:
        """Send a request behind all that were sent before."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._refusing is None:
            self._waiting.append((request, future))
            self._send()
        else:
            future.set_exception(StoreUnavailable(self._refusing))
        return future

    def refuse(self, why: str) -> None:
        """Let nobody wait any longer, and nobody begin to."""
        self._refusing = why
        waiting = [future for _, future in self._waiting]
        self._waiting.clear()
        for future in (*self._in_flight, *waiting):
            if not future.done():
                future.set_exception(StoreUnavailable(why))

    def resume(self) -> None:
        """Take calls again."""
        self._refusing = None

    def close(self) -> None:
        """End the session, blocking; its ephemeral nodes are gone when this returns."""
        self._client.stop()
        self._client.close()

    def drop(self) -> None:
        """Leave without a word, blocking: the server finds out when the session times out."""
        self._client._stopped.set()
        connected = self._client._connection._socket
        if connected is not None:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        self._client._safe_close()
        self._client.close()

    def expire(self) -> None:
        """Have the server end the session, blocking: a second client takes it and closes it."""
        twin = KazooClient(
            hosts=self._hosts,
            timeout=self._session_timeout_ms / 1000,
            client_id=self._client.client_id,
            **self._door.options(),
        )
        twin.start()
        twin.stop()
        twin.close()

    def _send(self) -> None:
        while self._waiting and len(self._in_flight) < _IN_FLIGHT_MAX:
            request, future = self._waiting.popleft()
            if not future.done():
                self._in_flight.add(future)
                self._client.enqueue(request, _Answer(self, future))

    def _answered(self, future: asyncio.Future[Any], value: object, error: object) -> None:
        self._in_flight.discard(future)
        if not future.done():
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(_translated(error))
        self._send()

    def _hop(self, call: Callable[..., None], *arguments: object) -> None:
        # A closed loop has nobody left who waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)


class _Answer:
    """The place where kazoo puts an answer, on its own thread."""

    __slots__ = ("_bridge", "_future")

    def __init__(self, bridge: Bridge, future: asyncio.Future[Any]) -> None:
        self._bridge = bridge
        self._future = future

    def set(self, value: object = None) -> None:
        self._bridge._hop(self._bridge._answered, self._future, value, None)

    def set_exception(self, error: BaseException) -> None:
        self._bridge._hop(self._bridge._answered, self._future, None, error)


class _Client(KazooClient):  # type: ignore[misc]
    """kazoo with persistent watches: every event goes to one place, and none uses up a watcher."""

    def __init__(self, events: _Events, **settings: object) -> None:
        self._events = events
        self.was_refused = False  # a login
        super().__init__(**settings)

    def start_async(self) -> Any:
        self._answered = super().start_async()
        return self._answered

    def _session_callback(self, state: str) -> None:
        super()._session_callback(state)
        if state == KeeperState.AUTH_FAILED:
            self.was_refused = True
            self._answered.set()  # nobody need wait any longer

    def enqueue(self, request: Request, answer: _Answer) -> None:
        """Does what kazoo's `_call` does for its own requests, but never waits.

        kazoo wakes its thread with one byte a request, through a pipe that is not emptied while
        there is no connection. When the pipe is full there are more bytes in it than requests may
        be with kazoo, so this one is sure to be found.
        """
        if self._state in CLOSED_STATES:
            answer.set_exception(SessionExpiredError())
            return
        self._queue.append((request, answer))
        try:
            self._connection._write_sock.send(b"\0", socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        except (OSError, AttributeError):  # closed just now
            answer.set_exception(SessionExpiredError())

    def _reset_watchers(self) -> None:
        self._data_watchers = _Watchers(self._events.node_touched)
        self._child_watchers = _Watchers(self._events.children_touched)


class _Watchers:
    """Looks to kazoo like a register of one-shot watchers, of which it takes those to call."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._hear = hear

    def pop(self, path: str, default: object) -> tuple[()]:
        self._hear(path)
        return ()


class _Events:
    """The paths that changed since the loop last looked.

    A multi that creates a thousand nodes sends a thousand events for their parent. They gather
    here, on kazoo's thread, and the loop is woken once for as many as came before it looks.
    """

    def __init__(self, wake: Callable[[Callable[[], Touched]], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._touched: Touched | None = None

    def node_touched(self, path: str) -> None:
        # It may have been created just now, which those who watch for children want to know.
        with self._gathering() as touched:
            touched.nodes[path] = touched.parents[path] = None

    def children_touched(self, path: str) -> None:
        with self._gathering() as touched:
            touched.parents[path] = None

    @contextmanager
    def _gathering(self) -> Iterator[Touched]:
        with self._lock:
            is_first = self._touched is None
            self._touched = self._touched or Touched()
            yield self._touched
        if is_first:
            self._wake(self._take)

    def _take(self) -> Touched:
        with self._lock:
            touched, self._touched = self._touched, None
        return touched or Touched()


def _translated(error: object) -> KlammError:
    match error:
        case KlammError():
            return error
        case ConnectionLoss() | OperationTimeoutError():
            return AnswerLost("the connection to ZooKeeper broke")
        case NoNodeError():
            return NodeMissing("there is no such node")
        case NoAuthError():
            return NotAllowed("ZooKeeper does not allow it")
        case SessionExpiredError():
            return StoreUnavailable("the ZooKeeper session has expired")
        case _:
            return StoreUnavailable(f"ZooKeeper refused: {error!r}")
