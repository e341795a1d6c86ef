"""Doors before the brokers of a klamm cluster: TLS, client certificates and SASL.

klamm's own listeners are PLAINTEXT. A door stands before one of them, ends TLS, has the caller sign
in, verifies every proof with keys of its own, and then carries frames. It names itself in place of
its broker wherever an answer gives addresses, so that a client never comes in by another way.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import ssl
import struct
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import trustme

from klamm.model.errors import ErrorCode
from klamm.protocol import frames
from klamm.protocol.apis import ApiKey
from klamm.protocol.codec import decode_request, decode_response, encode_response
from klamm.protocol.messages import api_versions, sasl_authenticate, sasl_handshake

USER, PASSWORD, TOKEN = "ada", "a,=b secret", "header.payload.signature"
ROUNDS = 4096
_ADDRESSES = (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.FIND_COORDINATOR)

Judge = Callable[[bytes], tuple[bytes, bool] | None]  # what to show and whether that is all


class Door:
    """One door: a thread for each caller."""

    def __init__(
        self,
        broker: tuple[str, int],
        tls: ssl.SSLContext | None = None,
        mechanisms: Sequence[str] = (),
        *,
        lifetime_ms: int = 0,
        others: dict[int, Door] | None = None,
    ) -> None:
        self._broker, self._tls, self._mechanisms = broker, tls, list(mechanisms)
        self._lifetime_ms = lifetime_ms
        self._others = others if others is not None else {}
        self._others[broker[1]] = self
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.callers = 0
        self.logins = 0
        self.carried: set[int] = set()  # the APIs of the requests that came through
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for sock in list(self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._server.accept()
            except OSError:
                return
            self.callers += 1
            self._threads.append(threading.Thread(target=self._serve, args=(plain,)))
            self._threads[-1].start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError, EOFError), ExitStack() as stack:
            stack.enter_context(plain)
            self._open.add(plain)
            stack.callback(self._open.discard, plain)
            caller: socket.socket = plain
            if self._tls is not None:
                caller = stack.enter_context(self._tls.wrap_socket(plain, server_side=True))
                self._open.add(caller)
                stack.callback(self._open.discard, caller)
            broker = stack.enter_context(socket.create_connection(self._broker))
            _Visit(self, caller, broker).go_on()


class _Visit:
    """One caller, from the first frame to the last."""

    def __init__(self, door: Door, caller: socket.socket, broker: socket.socket) -> None:
        self._door, self._caller, self._broker = door, caller, broker
        self._judge: Judge | None = None
        self._ends: float | None = None if door._mechanisms else float("inf")

    def go_on(self) -> None:
        while True:
            frame = _frame(self._caller)
            header = frames.parse_request_header(frame)
            body = memoryview(frame)[header.body_offset :]
            if header.api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
                if not self._door._mechanisms:
                    return
                request = decode_request(header.api_key, header.api_version, body)
                shake = header.api_key == ApiKey.SASL_HANDSHAKE
                self._answer(header, self._shake(request) if shake else self._hear(request))
            elif header.api_key == ApiKey.API_VERSIONS:
                self._answer(header, self._versions(self._carry(header, frame)))
            elif self._ends is None or time.monotonic() > self._ends:
                return  # as Kafka does: no answer, no connection
            else:
                self._door.carried.add(header.api_key)
                answer = self._carry(header, frame)
                if header.api_key in _ADDRESSES:
                    self._answer(header, self._renamed(header, answer))
                else:
                    self._caller.sendall(struct.pack(">i", len(answer)) + answer)

    def _carry(self, header: frames.RequestHeader, frame: bytes) -> bytes:
        self._broker.sendall(struct.pack(">i", len(frame)) + frame)
        return _frame(self._broker)

    def _answer(self, header: frames.RequestHeader, answer: Any) -> None:
        version = header.api_version
        body = encode_response(header.api_key, version, answer)
        self._caller.sendall(frames.encode_response_frame(header, body))

    def _versions(self, answer: bytes) -> api_versions.Response:
        known: api_versions.Response = decode_response(ApiKey.API_VERSIONS, 3, answer[4:])
        if self._door._mechanisms:
            known.api_keys += [
                api_versions.ApiVersion(ApiKey.SASL_HANDSHAKE, 0, 1),
                api_versions.ApiVersion(ApiKey.SASL_AUTHENTICATE, 0, 2),
            ]
        return known

    def _renamed(self, header: frames.RequestHeader, answer: bytes) -> Any:
        _, at = frames.parse_response_header(header.api_key, header.api_version, answer)
        found = decode_response(header.api_key, header.api_version, answer[at:])
        named = [*getattr(found, "brokers", ()), *getattr(found, "coordinators", ())]
        for place in (*named, found):
            door = self._door._others.get(getattr(place, "port", -1))
            if door is not None:
                place.host, place.port = "127.0.0.1", door.port
        return found

    def _shake(self, request: sasl_handshake.Request) -> sasl_handshake.Response:
        code = ErrorCode.NONE
        if request.mechanism not in self._door._mechanisms:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        else:
            self._judge = judge_of(request.mechanism)
        return sasl_handshake.Response(code, self._door._mechanisms)

    def _hear(self, request: sasl_authenticate.Request) -> sasl_authenticate.Response:
        told = self._judge(bytes(request.auth_bytes)) if self._judge else None
        if told is None:
            return sasl_authenticate.Response(ErrorCode.SASL_AUTHENTICATION_FAILED)
        shown, is_all = told
        if is_all:
            self._door.logins += 1
            life_s = self._door._lifetime_ms / 1000
            # With some grace: a busy machine must not look like a client that forgot.
            self._ends = time.monotonic() + 4 * life_s if life_s else float("inf")
        lifetime = self._door._lifetime_ms if is_all else 0
        return sasl_authenticate.Response(0, None, shown, lifetime)


def judge_of(mechanism: str) -> Judge:
    """The broker's half of a mechanism; it knows the password only as far as a broker does."""
    if mechanism == "PLAIN":
        expected = f"\0{USER}\0{PASSWORD}".encode()
        return lambda token: (b"", True) if token == expected else None
    if mechanism == "OAUTHBEARER":
        return _bearer()
    return scram_judge(mechanism.removeprefix("SCRAM-").replace("-", "").lower())


def _bearer() -> Judge:
    heard: list[bytes] = []

    def judge(token: bytes) -> tuple[bytes, bool] | None:
        heard.append(token)
        if token == b"n,,\x01auth=Bearer " + TOKEN.encode() + b"\x01\x01":
            return b"", True
        return (b'{"status":"invalid_token"}', False) if len(heard) == 1 else None

    return judge


def scram_judge(digest: str, salt: bytes = b"pepper", nonce: str | None = None) -> Judge:
    """RFC 5802 from the server's side: stored key and server key, and the proof checked by them."""
    salted = hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), salt, ROUNDS)
    stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    server_key = hmac.digest(salted, b"Server Key", digest)
    said: list[str] = []

    def judge(token: bytes) -> tuple[bytes, bool] | None:
        text = token.decode()
        if not said:
            bare = text.removeprefix("n,,")
            fields = dict(part.split("=", 1) for part in bare.split(","))
            if fields["n"] != USER.replace("=", "=3D").replace(",", "=2C"):
                return None
            mine = nonce or os.urandom(9).hex()
            first = f"r={fields['r']}{mine},s={b64encode(salt).decode()},i={ROUNDS}"
            said.extend((bare, first))
            return first.encode(), False
        last, _, proof = text.partition(",p=")
        both = said[1].split(",")[0]
        if last != f"c=biws,{both}":
            return None
        signed = ",".join((*said, last)).encode()
        mask = hmac.digest(stored, signed, digest)
        key = bytes(a ^ b for a, b in zip(b64decode(proof), mask, strict=True))
        if hashlib.new(digest, key).digest() != stored:
            return None
        return b"v=" + b64encode(hmac.digest(server_key, signed, digest)), True

    return judge


def _frame(sock: socket.socket) -> bytes:
    return _exactly(sock, struct.unpack(">i", _exactly(sock, 4))[0])


def _exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (more := sock.recv(size - len(found))):
            raise EOFError
        found += more
    return found


def server_tls(
    ca: trustme.CA, name: str = "127.0.0.1", *, clients: trustme.CA | None = None
) -> ssl.SSLContext:
    """What a door shows; with `clients` it asks callers for a certificate of that CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextmanager
def doors(brokers: Sequence[tuple[str, int]], *args: Any, **more: Any) -> Iterator[list[Door]]:
    """One door before each broker; each names the others in place of theirs."""
    others: dict[int, Door] = {}
    built: list[Door] = []
    try:
        built.extend(Door(broker, *args, others=others, **more) for broker in brokers)
        yield built
    finally:
        for door in built:
            door.close()
