"""Schemas from files and from a registry: a server of our own, over a real socket."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from klamm.client.registry import schemas
from klamm.client.registry.framing import Undecodable
from klamm.client.registry.schemas import (
    Registry,
    RegistryUnavailable,
    SchemaFiles,
    SchemaPlace,
)
from klamm.model.errors import UsageError

Answer = Callable[[str, Any], tuple[int, dict[str, str], bytes]]


class Served:
    """A registry whose answers a test chooses, and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, str | None]] = []
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.asked.append((self.path, self.headers.get("Authorization")))
                code, headers, body = served.answers.get(self.path, (404, {}, b"{}"))
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def put(self, path: str, body: Any, code: int = 200, **headers: str) -> None:
        self.answers[path] = (code, headers, json.dumps(body).encode())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(schemas, "_PAUSE_S", 0)
    server = Served()
    yield server
    server.close()


def test_schema_of_a_number(served: Served) -> None:
    served.put("/schemas/ids/7", {"schema": '"string"'})
    assert Registry(served.url).described(7).schema == "string"


def test_references_come_first_and_circles_end(served: Served) -> None:
    named = {"name": "b", "subject": "b/c", "version": 2}
    served.put("/schemas/ids/7", {"schema": '"a"', "references": [named]})
    served.put(
        "/subjects/b%2Fc/versions/2",
        {"schema": '"b"', "references": [{"subject": "d", "version": 1}]},
    )
    served.put("/subjects/d/versions/1", {"schema": '"d"', "references": [named]})
    assert Registry(served.url).described(7).references == ("d", "b")


def test_number_that_does_not_exist_is_asked_for_once(served: Served) -> None:
    registry = Registry(served.url)
    for _ in range(2):
        with pytest.raises(Undecodable, match="no schema of number 9"):
            registry.described(9)
    assert len(served.asked) == 1


def test_numbers_that_do_not_exist_are_not_asked_for_without_end(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "_MISSING_MAX", 3)
    registry = Registry(served.url)
    for number in range(10):
        with pytest.raises(Undecodable):
            registry.described(number)
    assert len(served.asked) == 3


@pytest.mark.parametrize("code", [500, 503])
def test_registry_in_trouble_is_no_bad_value(served: Served, code: int) -> None:
    served.put("/schemas/ids/1", {}, code)
    with pytest.raises(RegistryUnavailable, match=f"it answers {code}"):
        Registry(served.url).described(1)
    assert len(served.asked) == 3


def test_registry_that_is_not_there() -> None:
    with pytest.raises(RegistryUnavailable, match="cannot be asked"):
        Registry("http://127.0.0.1:1").described(1)


def test_wrong_password_is_said(served: Served) -> None:
    served.put("/schemas/ids/1", {}, 401)
    with pytest.raises(RegistryUnavailable, match="KLAMM_REGISTRY_USER"):
        Registry(served.url).described(1)


def test_too_much_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "SCHEMA_BYTES_MAX", 10)
    served.put("/schemas/ids/1", {"schema": '"string"'})
    with pytest.raises(RegistryUnavailable, match="more than a schema"):
        Registry(served.url).described(1)


@pytest.fixture
def raw() -> Iterator[Callable[[bytes, float], str]]:
    """A server that says these bytes to whoever comes: all, then one by one with a pause."""
    doors: list[socket.socket] = []

    def serve(said: bytes, pause: float) -> str:
        door = socket.create_server(("127.0.0.1", 0))
        doors.append(door)

        def speak(caller: socket.socket) -> None:
            with caller, contextlib.suppress(OSError):
                caller.recv(4096)
                caller.sendall(said)
                while pause:
                    time.sleep(pause)
                    caller.sendall(b" ")

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    caller = door.accept()[0]
                    threading.Thread(target=speak, args=(caller,), daemon=True).start()

        threading.Thread(target=answer, daemon=True).start()
        return f"http://127.0.0.1:{door.getsockname()[1]}"

    yield serve
    for door in doors:
        door.close()


@pytest.mark.parametrize(
    "said", [b"\x00\xff garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a" * 70_000]
)
def test_garbage_is_no_answer(
    raw: Callable[[bytes, float], str], monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(schemas, "_PAUSE_S", 0)
    with pytest.raises(RegistryUnavailable, match="cannot be asked: it does not speak HTTP"):
        Registry(raw(said, 0)).described(1)


def test_an_answer_byte_by_byte_ends(
    raw: Callable[[bytes, float], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "_PAUSE_S", 0)
    url = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", 0.01)
    with pytest.raises(RegistryUnavailable, match="its answer takes more than"):
        Registry(url, timeout_s=0.2).described(1)


def test_redirect_is_not_followed_with_the_secret(served: Served) -> None:
    other = Served()
    try:
        served.put("/schemas/ids/1", {}, 302, Location=f"{other.url}/schemas/ids/1")
        with pytest.raises(RegistryUnavailable):
            Registry(served.url, "Basic c2VjcmV0").described(1)
        assert other.asked == []
    finally:
        other.close()


def test_secret_comes_from_the_environment(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_REGISTRY_USER", "anna")
    monkeypatch.setenv("KLAMM_REGISTRY_PASSWORD", "geheim")
    served.put("/schemas/ids/1", {"schema": '"int"'})
    place = SchemaPlace(url=served.url)
    place.opened().described(1)
    assert served.asked == [("/schemas/ids/1", "Basic YW5uYTpnZWhlaW0=")]
    assert "YW5u" not in repr(place.opened())


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://host", "https://host:port"),
        ("http://anna:geheim@host", "belong into"),
        ("host:8081", "https://host:port"),
    ],
)
def test_addresses_that_are_refused(url: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as told:
        Registry(url)
    assert "geheim" not in str(told.value)


def test_secret_is_not_sent_in_clear_text() -> None:
    with pytest.raises(UsageError, match="clear text"):
        Registry("http://registry.example:8081", "Basic c2VjcmV0")


def test_files_by_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "orders-17.avsc").write_text('"long"')
    (tmp_path / "3.avsc").write_text('"int"')
    files = SchemaFiles(tmp_path)
    assert (files.described(17).schema, files.described(3).schema) == ("long", "int")
    with pytest.raises(Undecodable, match="no schema of number 4"):
        files.described(4)


def test_files_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no schemas"):
        SchemaFiles(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        SchemaFiles(tmp_path / "none")
    (tmp_path / "orders.avsc").write_text('"int"')
    with pytest.raises(UsageError, match="names no schema number"):
        SchemaFiles(tmp_path)
