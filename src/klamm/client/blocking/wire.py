"""Blocking connections to brokers, and the idle ones that are kept.

Each connection is opened as `opening` says and then uses the newest versions that both sides know,
which makes it fit klamm and any other Kafka cluster. Idle connections are kept, one a broker, for
the next task of the same worker process.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from klamm import sockets
from klamm.client.addresses import Address, text
from klamm.client.conversation import Conversation
from klamm.client.errors import DeadlineExceeded, NobodyThere, why_not
from klamm.client.opening import Steps, advance, lost, negotiate, sign_in
from klamm.client.security import Security, tls
from klamm.client.settings import ConnectionOptions
from klamm.protocol.codec import decode_response, encode_request

T = TypeVar("T")

_CONNECT_S_MAX: Final = 10.0
_IDLE_SECONDS: Final = 60.0
_LARGE_BYTES: Final = 1 << 16


class Wire:
    """One connection."""

    def __init__(self, sock: socket.socket, address: Address, options: ConnectionOptions) -> None:
        self.address = address
        self._timeout = options.request_timeout_ms / 1000
        self._security = options.security
        self._sock = sock
        self._talk: Conversation[None] = Conversation(address, options.client_id)
        self._head = memoryview(bytearray(4))
        self._early: deque[memoryview] = deque()  # answers that came before somebody took them
        self._sign_in_at = math.inf  # when to prove again who we are

    @classmethod
    def open(cls, address: Address, options: ConnectionOptions) -> Wire:
        """Connects, learns the broker's versions and signs in."""
        seconds = min(options.request_timeout_ms / 1000, _CONNECT_S_MAX)
        try:
            sock = socket.create_connection(address, timeout=seconds)
        except OSError as fault:
            raise NobodyThere(address, why_not(fault)) from None
        try:
            sockets.tune(sock)
            sock = _secured(sock, address, options.security)
            wire = cls(sock, address, options)
            wire._perform(negotiate(wire._talk))
            if options.security.signs_in:
                wire._sign_in()
        except BaseException:
            sock.close()
            raise
        return wire

    def close(self) -> None:
        """Hangs up."""
        self._sock.close()

    @property
    def in_flight(self) -> int:
        """The number of answers still to come."""
        return self._talk.in_flight + len(self._early)

    def version(self, key: int, at_most: int | None = None) -> int:
        """The newest version of an API that both sides know."""
        return self._talk.version_of(key, at_most)

    def serves(self, key: int) -> bool:
        """Whether the broker has an API at all; klamm's own tell it of each other's."""
        return key in self._talk.versions

    def is_gone(self) -> bool:
        """Whether the broker has hung up on an idle connection."""
        # Nothing was asked: what there is to read is a farewell.
        waiting = select.poll()
        waiting.register(self._sock, select.POLLIN)
        return bool(waiting.poll(0))

    def call(self, key: int, request: Any, *, at_most: int | None = None) -> Any:
        """Asks and waits for the answer."""
        version = self.version(key, at_most)
        self.post(key, version, encode_request(key, version, request))
        return decode_response(key, version, self.take())

    def post(self, key: int, version: int, *body: bytes | memoryview) -> None:
        """Sends a request without waiting; `take` gives the answers in the same order."""
        if time.monotonic() >= self._sign_in_at:
            self._sign_in_again()
        self._send(key, version, *body)

    def take(self, timeout_ms: int | None = None) -> memoryview:
        """The body of the next answer, in a buffer of its own."""
        if self._early:
            return self._early.popleft()
        self._sock.settimeout(self._timeout if timeout_ms is None else timeout_ms / 1000)
        self._receive_into(self._head)
        body = _room(self._talk.size(self._head))
        self._receive_into(body)
        return self._talk.hear(body)[1]

    def _send(self, key: int, version: int, *body: bytes | memoryview) -> None:
        try:
            for piece in self._talk.ask(key, version, body, None):
                self._sock.sendall(piece)
        except OSError as fault:
            raise self._lost(fault) from None

    def _receive_into(self, view: memoryview) -> None:
        at, size = 0, len(view)
        while at < size:
            try:
                got = self._sock.recv_into(view[at:])
            except OSError as fault:
                raise self._lost(fault) from None
            if got == 0:
                raise lost(self._talk, self._security, None)
            at += got

    def _lost(self, fault: OSError) -> Exception:
        if isinstance(fault, TimeoutError):
            waited_s = self._sock.gettimeout() or 0
            return DeadlineExceeded(
                f"the broker at {text(self.address)} did not answer in {waited_s:g} s"
            )
        return lost(self._talk, self._security, fault)

    def _sign_in(self) -> None:
        again_s = self._perform(sign_in(self._talk, self._security))
        self._sign_in_at = math.inf if again_s is None else time.monotonic() + again_s

    def _sign_in_again(self) -> None:
        """Renews the session, between requests: what is due by then is received first."""
        waiting = [self.take() for _ in range(self.in_flight)]
        self._sign_in()
        self._early.extend(waiting)

    def _perform(self, steps: Steps[T]) -> T | None:
        step, found = advance(steps, None)
        while step is not None:
            self._send(*step)
            step, found = advance(steps, self.take())
        return found


def _room(size: int) -> memoryview:
    """Bytes to receive into; large ones are not filled with zeros first."""
    if size < _LARGE_BYTES:
        return memoryview(bytearray(size))
    # Planning receives no large answers, and does without the time that this import takes.
    import numpy as np

    return np.empty(size, np.uint8).data


def _secured(sock: socket.socket, address: Address, security: Security) -> socket.socket:
    if not security.is_encrypted:
        return sock
    try:
        return tls.context_of(security).wrap_socket(sock, server_hostname=address[0])
    except OSError as fault:
        raise tls.failure(address, fault, opening=True) from None


_idle: dict[tuple[Address, ConnectionOptions], tuple[float, Wire]] = {}
_idle_lock = threading.Lock()


@contextlib.contextmanager
def lease(address: Address, options: ConnectionOptions) -> Iterator[Wire]:
    """A connection for a while: an idle one of this process, or a new one."""
    wire = _idle_wire(address, options) or Wire.open(address, options)
    try:
        yield wire
    except BaseException:
        wire.close()
        raise
    if wire.in_flight:
        wire.close()
        return
    with _idle_lock:
        _, old = _idle.pop((address, options), (0.0, None))
        _idle[address, options] = (time.monotonic(), wire)
    if old is not None:
        old.close()


def _idle_wire(address: Address, options: ConnectionOptions) -> Wire | None:
    now = time.monotonic()
    with _idle_lock:
        for stale in [k for k, (since, _) in _idle.items() if now - since > _IDLE_SECONDS]:
            _idle.pop(stale)[1].close()
        _, wire = _idle.pop((address, options), (0.0, None))
    if wire is not None and wire.is_gone():
        wire.close()
        return None
    return wire


def close_idle() -> None:
    """Hangs up every idle connection of this process."""
    with _idle_lock:
        for _, wire in _idle.values():
            wire.close()
        _idle.clear()
