"""A broker behind a door: TLS on the way to it, SASL before it lets anybody in.

klamm's own listeners are PLAINTEXT, so the door stands before one of them: it speaks TLS, asks for
the password, and then only carries bytes. `tests/interop_extra` does the same with Apache Kafka.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import struct
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.wire import Wire, close_idle, lease
from klamm.client.errors import Distrusted, Unreachable
from klamm.client.settings import ConnectionOptions, parse_connection
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.codec import decode_request, decode_response, encode_response
from klamm.protocol.messages import api_versions, metadata, sasl_authenticate, sasl_handshake

PASSWORD = b"a secret"
SALT, ROUNDS = b"salt", 4096
SIGNED_IN = {"security.protocol": "SASL_SSL", "sasl.username": "ada", "sasl.password": "a secret"}


class Door:
    """One caller at a time: TLS, then SASL where `mechanism` names one, then to the broker."""

    def __init__(self, broker: tuple[str, int], tls: ssl.SSLContext, mechanism: str = "") -> None:
        self._broker, self._tls, self._mechanism = broker, tls, mechanism
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._server.getsockname())
        self.callers = 0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(30)

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._server.accept()
            except OSError:
                return
            self.callers += 1
            with suppress(OSError, EOFError), plain:
                caller = self._tls.wrap_socket(plain, server_side=True)
                with caller, socket.create_connection(self._broker) as broker:
                    self._let_in(caller, broker)

    def _let_in(self, caller: socket.socket, broker: socket.socket) -> None:
        is_in = not self._mechanism
        judge = _plain() if self._mechanism == "PLAIN" else _scram()
        while True:
            frame = _frame(caller)
            key, version, correlation = struct.unpack_from(">hhi", frame, 4)
            if key == ApiKey.SASL_HANDSHAKE:
                wanted = decode_request(key, version, _body(key, version, frame)).mechanism
                code = 0 if wanted == self._mechanism else ErrorCode.UNSUPPORTED_SASL_MECHANISM
                answer = sasl_handshake.Response(error_code=code, mechanisms=[self._mechanism])
                _answer(caller, key, version, correlation, answer)
            elif key == ApiKey.SASL_AUTHENTICATE:
                token = decode_request(key, version, _body(key, version, frame)).auth_bytes
                told = judge(bytes(token))
                is_in = is_in or told is not None
                failed = ErrorCode.SASL_AUTHENTICATION_FAILED
                shown = sasl_authenticate.Response(
                    error_code=0 if told is not None else failed, auth_bytes=told or b""
                )
                _answer(caller, key, version, correlation, shown)
            elif key == ApiKey.API_VERSIONS and self._mechanism:
                broker.sendall(frame)
                known = decode_response(key, version, _frame(broker)[8:])
                known.api_keys += [
                    api_versions.ApiVersion(api_key=mine, min_version=0, max_version=1)
                    for mine in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
                ]
                _answer(caller, key, version, correlation, known)
            elif is_in:
                broker.sendall(frame)
                caller.sendall(_frame(broker))
            else:
                return


def _frame(sock: socket.socket) -> bytes:
    found = _exactly(sock, 4)
    return found + _exactly(sock, struct.unpack(">i", found)[0])


def _exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (more := sock.recv(size - len(found))):
            raise EOFError
        found += more
    return found


def _body(key: int, version: int, frame: bytes) -> bytes:
    """A request without its size and header."""
    (size,) = struct.unpack_from(">h", frame, 12)
    assert not APIS[key].is_flexible(version)
    return frame[14 + size :]


def _answer(
    caller: socket.socket, key: int, version: int, correlation: int, answer: object
) -> None:
    body = encode_response(key, version, answer)
    caller.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)


def _plain() -> Callable[[bytes], bytes | None]:
    return lambda token: b"" if token == b"\0ada\0" + PASSWORD else None


def _scram() -> Callable[[bytes], bytes | None]:
    """The broker's half of SCRAM-SHA-512, which asks for a proof and gives one."""
    before: list[str] = []

    def judge(token: bytes) -> bytes | None:
        text = token.decode()
        if not before:
            answer = f"r={text.split('r=')[1]}server,s={b64encode(SALT).decode()},i={ROUNDS}"
            before.extend((text.removeprefix("n,,"), answer))
            return answer.encode()
        last, _, proof = text.partition(",p=")
        salted = hashlib.pbkdf2_hmac("sha512", PASSWORD, SALT, ROUNDS)
        signed = ",".join((*before, last)).encode()
        stored = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
        mask = hmac.digest(stored, signed, "sha512")
        key = bytes(a ^ b for a, b in zip(b64decode(proof), mask, strict=True))
        if hashlib.sha512(key).digest() != stored:
            return None
        shown = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), signed, "sha512")
        return b"v=" + b64encode(shown)

    return judge


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def door(bootstrap: str, ca: trustme.CA) -> Iterator[Callable[..., Door]]:
    """Puts a door before the cluster's first broker."""
    doors = []

    def build(mechanism: str = "", *, name: str = "127.0.0.1", asks: bool = False) -> Door:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert(name).configure_cert(tls)
        if asks:
            ca.configure_trust(tls)
            tls.verify_mode = ssl.CERT_REQUIRED
        doors.append(Door(parse_bootstrap(bootstrap)[0], tls, mechanism))
        return doors[-1]

    yield build
    close_idle()
    for one in doors:
        one.close()


@pytest.fixture
def trusted(ca: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(path)
    return str(path)


def _asks_for_metadata(reach: ConnectionOptions) -> bool:
    with lease(reach.bootstrap[0], reach) as wire:
        return bool(wire.call(ApiKey.METADATA, metadata.Request(topics=[])).brokers)


def test_connections_are_encrypted_and_used_again(door: Callable[..., Door], trusted: str) -> None:
    place = door()
    settings = {"security.protocol": "SSL", "ssl.ca.location": trusted}
    reach = parse_connection(place.address, settings)
    assert _asks_for_metadata(reach)
    assert _asks_for_metadata(reach)
    assert place.callers == 1


def test_brokers_must_show_whom_we_trust(door: Callable[..., Door], trusted: str) -> None:
    place = door(name="elsewhere.example")
    settings = {"security.protocol": "SSL", "ssl.ca.location": trusted}
    for given, says in (
        ({"security.protocol": "SSL"}, "is not trusted: .*certificate"),
        (settings, "is not trusted: IP address mismatch"),
    ):
        reach = parse_connection(place.address, given)
        with pytest.raises(Distrusted, match=says):
            Wire.open(reach.bootstrap[0], reach)
    unnamed = settings | {"ssl.endpoint.identification.algorithm": ""}
    assert _asks_for_metadata(parse_connection(place.address, unnamed))


def test_brokers_may_ask_for_our_certificate(
    door: Callable[..., Door], ca: trustme.CA, trusted: str, tmp_path: Path
) -> None:
    place = door(asks=True)
    settings = {"security.protocol": "SSL", "ssl.ca.location": trusted}
    with pytest.raises(Unreachable):
        _asks_for_metadata(parse_connection(place.address, settings))
    ca.issue_cert("client.example").private_key_and_cert_chain_pem.write_to_path(tmp_path / "me")
    settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "me")}
    assert _asks_for_metadata(parse_connection(place.address, settings))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_signing_in(door: Callable[..., Door], trusted: str, mechanism: str) -> None:
    place = door(mechanism)
    settings = SIGNED_IN | {"sasl.mechanism": mechanism, "ssl.ca.location": trusted}
    assert _asks_for_metadata(parse_connection(place.address, settings))
    wrong = parse_connection(place.address, settings | {"sasl.password": "guessed"})
    close_idle()
    with pytest.raises(Distrusted, match=f"^{place.address} refused to let us in: the user or the"):
        _asks_for_metadata(wrong)
    other = parse_connection(place.address, settings | {"sasl.mechanism": "SCRAM-SHA-256"})
    close_idle()
    with pytest.raises(Distrusted, match=f"does not know SASL SCRAM-SHA-256, but {mechanism}$"):
        _asks_for_metadata(other)


def test_a_broker_that_asks_nobody_to_sign_in(bootstrap: str) -> None:
    settings = SIGNED_IN | {"security.protocol": "SASL_PLAINTEXT"}
    with pytest.raises(Distrusted, match=r"nobody can sign in at .* to PLAINTEXT"):
        _asks_for_metadata(parse_connection(bootstrap.split(",")[0], settings))
