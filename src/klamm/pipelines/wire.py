"""Blocking conversations with one broker: a plain socket, one caller, answers in the order asked.

Spark's workers are ordinary synchronous processes, so they get ordinary synchronous sockets. Each
connection learns the broker's versions first and then uses the newest that both sides know, which
makes it fit klamm and any other Kafka cluster. Idle connections are kept, one a broker, for the
next task of the same worker process.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import klamm
from klamm.model.errors import ErrorCode, KlammError
from klamm.pipelines.options import ConnectionOptions
from klamm.pipelines.security import (
    Distrusted,
    Security,
    context_of,
    plain_token,
    sign_in_by_scram,
)
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.codec import decode_response, encode_request
from klamm.protocol.messages import api_versions, sasl_authenticate, sasl_handshake

Address = tuple[str, int]
_IDLE_SECONDS: Final = 60.0
_ANSWER_BYTES_MAX: Final = 512 << 20
_LARGE_BYTES: Final = 1 << 16


class Unreachable(KlammError):
    """A broker does not answer: one sentence with its address."""


class Answered(KlammError):
    """A broker answered with an error that the user must act on."""

    def __init__(self, code: int, what: str, message: str | None = None) -> None:
        self.code = ErrorCode(code) if code in ErrorCode._value2member_map_ else code
        name = self.code.name if isinstance(self.code, ErrorCode) else f"error {code}"
        super().__init__(f"{what}: {name}" + (f" ({message})" if message else ""))

    @property
    def is_retriable(self) -> bool:
        """Whether the same request may be answered otherwise in a moment."""
        return isinstance(self.code, ErrorCode) and self.code.is_retriable


def check(code: int, what: str, message: str | None = None) -> None:
    """Raises when a broker's answer carries an error."""
    if code:
        raise Answered(code, what, message)


class Wire:
    """One connection."""

    def __init__(
        self, sock: socket.socket, address: Address, client_id: str, timeout: float
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._sock = sock
        self._client_id = client_id.encode()
        self._ranges: dict[int, tuple[int, int]] = {}
        self._asked: deque[tuple[int, int, int]] = deque()  # correlation, key, version
        self._correlation = 0

    @classmethod
    def open(cls, address: Address, options: ConnectionOptions) -> Wire:
        """Connects, authenticates and learns the broker's versions."""
        seconds = options.request_timeout_ms / 1000
        try:
            sock = socket.create_connection(address, timeout=min(seconds, 10.0))
        except OSError as fault:
            raise Unreachable(f"no broker answers at {_text(address)}: {_why(fault)}") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock = _secured(sock, address, options.security)
            sock.settimeout(seconds)
            wire = cls(sock, address, options.client_id, seconds)
            wire._learn()
            if options.security.signs_in:
                wire._sign_in(options.security)
        except BaseException:
            sock.close()
            raise
        return wire

    def close(self) -> None:
        """Hangs up."""
        self._sock.close()

    @property
    def in_flight(self) -> int:
        """How many answers are still to come."""
        return len(self._asked)

    def version(self, key: int, at_most: int = 99) -> int:
        """The newest version of an API that both sides know."""
        if key not in self._ranges:
            raise Unreachable(
                f"the broker at {_text(self.address)} does not serve {ApiKey(key).name}"
            )
        least, most = self._ranges[key]
        found = min(most, APIS[key].served.high, at_most)
        if found < max(least, APIS[key].served.low):
            raise Unreachable(
                f"the broker at {_text(self.address)} serves {ApiKey(key).name} {least} to {most}, "
                f"of which klamm knows none"
            )
        return found

    def is_gone(self) -> bool:
        """Whether the broker has hung up on an idle connection."""
        # Nothing was asked: what there is to read is a farewell.
        waiting = select.poll()
        waiting.register(self._sock, select.POLLIN)
        return bool(waiting.poll(0))

    def call(self, key: int, request: Any, *, at_most: int = 99) -> Any:
        """Asks and waits for the answer."""
        version = self.version(key, at_most)
        self.post(key, version, encode_request(key, version, request))
        return decode_response(key, version, self.take())

    def post(self, key: int, version: int, *body: bytes | memoryview) -> None:
        """Sends a request without waiting; `take` gives the answers in the same order."""
        self._correlation += 1
        api = APIS[key]
        header = struct.pack(">hhih", key, version, self._correlation, len(self._client_id))
        header += self._client_id + (b"\0" if api.is_flexible(version) else b"")
        size = len(header) + sum(len(piece) for piece in body)
        try:
            self._sock.sendall(struct.pack(">i", size) + header)
            for piece in body:
                self._sock.sendall(piece)
        except OSError as fault:
            raise self._lost(fault) from None
        self._asked.append((self._correlation, key, version))

    def take(self, timeout_ms: int | None = None) -> memoryview:
        """The body of the next answer, in a buffer of its own."""
        correlation, key, version = self._asked.popleft()
        self._sock.settimeout(self._timeout if timeout_ms is None else timeout_ms / 1000)
        (size,) = struct.unpack(">i", self._receive(4))
        if not 4 <= size <= _ANSWER_BYTES_MAX:
            raise Unreachable(f"{_text(self.address)} does not speak Kafka's protocol")
        body = self._receive(size)
        if struct.unpack_from(">i", body)[0] != correlation:
            raise Unreachable(f"{_text(self.address)} answered out of order")
        tagged = APIS[key].is_flexible(version) and key != ApiKey.API_VERSIONS
        return body[5:] if tagged else body[4:]

    def _receive(self, size: int) -> memoryview:
        view = _room(size)
        at = 0
        while at < size:
            try:
                got = self._sock.recv_into(view[at:])
            except OSError as fault:
                raise self._lost(fault) from None
            if got == 0:
                raise Unreachable(f"the broker at {_text(self.address)} hung up")
            at += got
        return view

    def _lost(self, fault: OSError) -> Unreachable:
        return Unreachable(f"the broker at {_text(self.address)} was lost: {_why(fault)}")

    def _learn(self) -> None:
        key = ApiKey.API_VERSIONS
        request = api_versions.Request(
            client_software_name="klamm", client_software_version=klamm.__version__
        )
        for version in (3, 0):
            self.post(key, version, encode_request(key, version, request))
            body = self.take()
            # A broker that does not know this version answers in the oldest form.
            if struct.unpack_from(">h", body)[0] == ErrorCode.UNSUPPORTED_VERSION:
                continue
            answer = decode_response(key, version, body)
            check(answer.error_code, f"asking {_text(self.address)} for its versions")
            self._ranges = {a.api_key: (a.min_version, a.max_version) for a in answer.api_keys}
            return
        raise Unreachable(f"{_text(self.address)} does not say which versions it speaks")

    def _sign_in(self, security: Security) -> None:
        without = security.protocol.removeprefix("SASL_")
        no_door = Distrusted(
            f"nobody can sign in at {_text(self.address)}: set security.protocol to {without}"
        )
        if ApiKey.SASL_HANDSHAKE not in self._ranges:
            raise no_door
        shake = sasl_handshake.Request(mechanism=security.mechanism)
        answer = self.call(ApiKey.SASL_HANDSHAKE, shake)
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise no_door
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            known = ", ".join(answer.mechanisms)
            raise Distrusted(
                f"{_text(self.address)} does not know SASL {security.mechanism}, but {known}"
            )
        check(answer.error_code, f"signing in at {_text(self.address)}")
        if security.mechanism == "PLAIN":
            self._show(plain_token(security))
        else:
            sign_in_by_scram(security, self._show)

    def _show(self, token: bytes) -> bytes:
        """One step of SASL: what is shown, and what the broker shows in return."""
        request = sasl_authenticate.Request(auth_bytes=token)
        answer = self.call(ApiKey.SASL_AUTHENTICATE, request, at_most=1)
        if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            why = answer.error_message or "the user or the password is wrong"
            raise Distrusted(f"{_text(self.address)} refused to let us in: {why}")
        check(answer.error_code, f"signing in at {_text(self.address)}", answer.error_message)
        return bytes(answer.auth_bytes)


def _room(size: int) -> memoryview:
    """Bytes to receive into; large ones are not filled with zeros first."""
    if size < _LARGE_BYTES:
        return memoryview(bytearray(size))
    # Planning receives no large answers, and does without the time that this import takes.
    import numpy as np

    return np.empty(size, np.uint8).data


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def _why(fault: OSError) -> str:
    if isinstance(fault, TimeoutError):
        return "it did not answer in time"
    return (fault.strerror or str(fault)).lower()


def _secured(sock: socket.socket, address: Address, security: Security) -> socket.socket:
    if not security.is_encrypted:
        return sock
    try:
        return context_of(security).wrap_socket(sock, server_hostname=address[0])
    except ssl.SSLCertVerificationError as fault:
        raise Distrusted(
            f"the certificate of {_text(address)} is not trusted: {fault.verify_message}"
        ) from None
    except OSError as fault:
        raise Unreachable(f"TLS with {_text(address)} failed: {_why(fault)}") from None


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
