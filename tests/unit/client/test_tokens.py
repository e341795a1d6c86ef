"""Where bearer tokens come from: a file, and an endpoint of OAuth 2 on a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from klamm.client.errors import Distrusted, Unreachable
from klamm.client.security.tokens import TokenEndpoint, TokenFile, source_of
from klamm.model.errors import KlammError, UsageError


def test_a_token_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    source = source_of(path.as_uri(), "", "", "")
    assert source == TokenFile(str(path))
    for token in ("a.b.c", "d.e.f"):
        path.write_text(f"{token}\n")
        assert source() == token


@pytest.mark.parametrize("content", [b"", b"a b", b"a\x01b", b"\xff", b"x" * 70_000])
def test_what_is_no_token_is_not_sent(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(UsageError, match="is no bearer token"):
        TokenFile(str(tmp_path / "t"))()


def test_a_token_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        TokenFile(str(tmp_path / "t"))()


@pytest.mark.parametrize("url", ["ftp://x/y", "https://", "token", "file://elsewhere/x"])
def test_a_url_that_names_no_source(url: str) -> None:
    with pytest.raises(UsageError, match="is neither file:///path nor https://"):
        source_of(url, "me", "secret", "")


def test_an_endpoint_needs_credentials() -> None:
    with pytest.raises(UsageError, match=r"needs sasl\.oauthbearer\.client\.id"):
        source_of("https://id.example/token", "", "", "")


class _Endpoint(BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str]]]
    answer: ClassVar[tuple[int, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append((self.headers["Authorization"], body))
        code, content = self.answer
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        if code == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def endpoint() -> Iterator[tuple[str, type[_Endpoint]]]:
    class Fresh(_Endpoint):
        asked: ClassVar[list[tuple[str, str]]] = []

    server = HTTPServer(("127.0.0.1", 0), Fresh)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token", Fresh
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_an_endpoint_gives_a_token_for_credentials(endpoint: tuple[str, type[_Endpoint]]) -> None:
    url, heard = endpoint
    heard.answer = (200, json.dumps({"access_token": "a.b.c", "expires_in": 60}).encode())
    assert TokenEndpoint(url, "me", "s:1", "all")() == "a.b.c"
    assert heard.asked == [("Basic bWU6cyUzQTE=", "grant_type=client_credentials&scope=all")]


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        ((401, b"no"), Distrusted, "gave no token: 401"),
        ((302, b""), Distrusted, "gave no token: 302"),  # its secret goes nowhere else
        ((200, b"{}"), Distrusted, "without an access_token"),
        ((200, b"[1]"), Distrusted, "without an access_token"),
        ((200, b'{"access_token": "a b"}'), UsageError, "is no bearer token"),
    ],
)
def test_an_endpoint_that_gives_none(
    endpoint: tuple[str, type[_Endpoint]],
    answer: tuple[int, bytes],
    kind: type[KlammError],
    says: str,
) -> None:
    url, heard = endpoint
    heard.answer = answer
    with pytest.raises(kind, match=says):
        TokenEndpoint(url, "me", "secret")()


def test_an_endpoint_that_is_away() -> None:
    with pytest.raises(Unreachable, match=r"no token can be had from .*: connection refused"):
        TokenEndpoint("http://127.0.0.1:1/token", "me", "secret")()
