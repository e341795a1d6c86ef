"""Keys of a token service: fetched, refreshed, and early for a key that is new."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from klamm.broker.clock import SystemClock
from klamm.broker.identity.token_keys import (
    KeySource,
    TokenKeys,
    _received,
    _Redirected,
    key_source,
)
from klamm.model.errors import Refused
from klamm.security.listeners.endpoints import SecurityProtocol
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.sasl.oauthbearer import TokenAccepted
from klamm.security.sasl.tokens import SignedTokens, TokenRules
from unit.broker.brokers import until


class Service:
    """A token service with keys that can change."""

    def __init__(self) -> None:
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.is_broken = False
        self.asked = 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.asked += 1
                self.send_response(500 if service.is_broken else 200)
                self.end_headers()
                self.wfile.write(service.jwks().encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/keys"

    def add(self, kid: str) -> None:
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1())

    def jwks(self) -> str:
        algorithm = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
        listed = [
            json.loads(algorithm.to_jwk(key.public_key())) | {"kid": kid, "use": "sig"}
            for kid, key in self.keys.items()
        ]
        return json.dumps({"keys": listed})

    def token(self, kid: str, **claims: object) -> str:
        now_s = SystemClock().now_ms() / 1000
        fields = {"sub": "erin", "iat": now_s, "exp": now_s + 60, **claims}
        return jwt.encode(fields, self.keys[kid], algorithm="ES256", headers={"kid": kid})


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    made.add("one")
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def source(url: str) -> KeySource:
    return KeySource(url=url, refresh_s=3600, pause_s=0.01, pause_s_max=0.02, timeout_s=5)


def takes(keys: TokenKeys, token: str) -> bool:
    assert keys.keys is not None
    told = SignedTokens(keys.keys, TokenRules())(token, SystemClock().now_ms())
    return isinstance(told, TokenAccepted)


async def test_a_new_key_is_fetched_when_a_token_names_it(service: Service) -> None:
    keys = TokenKeys(source(service.url), SystemClock())
    await keys.first()
    assert takes(keys, service.token("one"))
    running = asyncio.create_task(keys.run())
    await until(lambda: service.asked == 2, "it has begun")
    service.add("two")
    fresh = service.token("two")
    assert not takes(keys, fresh)
    keys.missed(fresh)
    keys.missed(fresh)
    await until(lambda: takes(keys, fresh), "the keys are fetched early")
    assert service.asked == 3, "once"
    running.cancel()


async def test_a_service_that_is_away_keeps_the_keys_there_are(service: Service) -> None:
    service.is_broken = True
    keys = TokenKeys(source(service.url), SystemClock())
    await keys.first()
    assert keys.keys is None
    running = asyncio.create_task(keys.run())
    await until(lambda: service.asked > 3, "it is tried again")
    service.is_broken = False
    await until(lambda: keys.keys is not None, "until it is there")
    assert takes(keys, service.token("one"))
    running.cancel()


async def test_keys_lie_in_a_file_as_well(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "a set.json"
    path.write_text(service.jwks())
    keys = TokenKeys(source(path.as_uri()), SystemClock())
    await keys.first()
    assert takes(keys, service.token("one"))


@pytest.mark.parametrize("url", ["", "ftp://x/y", "keys.json", "data:text/plain,x"])
def test_only_addresses_are_taken(url: str) -> None:
    texts = {"sasl.oauthbearer.jwks.endpoint.url": url}
    told = key_source(ListenerSettings("X", SecurityProtocol.SASL_SSL, texts))
    assert isinstance(told, Refused)
    assert "sasl.oauthbearer.jwks.endpoint.url" in told.why


def answering(text: bytes) -> tuple[str, socket.socket]:
    """A server that says this to everybody, whatever they ask."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer = server.accept()[0]
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                peer.recv(4096)
                peer.sendall(text)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}/keys", server


@pytest.mark.parametrize(
    "text",
    [
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000 + b": y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /keys\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 2_000_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 900_000,
        b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe",
    ],
    ids=["garbage", "cut", "long", "chunks", "file", "circle", "huge", "deep", "no text"],
)
async def test_a_service_that_answers_nonsense_gives_no_keys(text: bytes) -> None:
    url, server = answering(text)
    with server:
        keys = TokenKeys(source(url), SystemClock())
        await keys.first()
        assert keys.keys is None


def test_keys_that_were_to_come_safely_are_not_fetched_in_the_clear(service: Service) -> None:
    def sent_on(asked: str, to: str) -> object:
        request = urllib.request.Request(asked)
        return _Redirected().redirect_request(request, io.BytesIO(), 302, "Found", Message(), to)

    assert sent_on("https://a/keys", "https://b/keys") is not None
    assert sent_on("http://a/keys", "https://b/keys") is not None
    for to in (service.url, "ftp://b/keys"):
        with pytest.raises(OSError, match="https was asked for"):
            sent_on("https://a/keys", to)


def test_a_service_that_trickles_is_left() -> None:
    class Trickle:
        """An answer that never ends, a byte at a time."""

        def read1(self, _: int) -> bytes:
            return b"x"

    with pytest.raises(TimeoutError, match="too slowly"):
        _received(Trickle(), until=0.0)
