"""TLS on a socket: what is written arrives, whoever is slow is waited for, a failure is told."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from klamm.broker.net.tls_transport import PIECE, TlsTransport, shake_hands
from klamm.secured.authority import Authority, Pair

NOW = datetime.now(UTC)


def written(directory: Path, pair: Pair) -> Path:
    path = directory / "pair.pem"
    path.write_text(pair.both)
    return path


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext, Authority]:
    """A server's and a client's."""
    authority = Authority.make("a test", NOW)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(written(tmp_path, authority.issue("b", NOW, hosts=["localhost"])))
    client = ssl.create_default_context(cadata=authority.certificate)
    return server, client, authority


class Kept(asyncio.BufferedProtocol):
    """Keeps what comes, in a small buffer that it moves out of."""

    def __init__(self, size: int = 1000) -> None:
        self.space = bytearray(size)
        self.came = bytearray()
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.is_paused = False
        self.on_bytes: Callable[[], None] = lambda: None

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.space

    def buffer_updated(self, nbytes: int) -> None:
        self.came += self.space[:nbytes]
        self.on_bytes()

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class Client:
    """The other end, in a thread."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._sock, self._context = sock, context

    async def do(self, work: Callable[[ssl.SSLSocket], str]) -> str:
        return await asyncio.to_thread(self._do, work)

    def _do(self, work: Callable[[ssl.SSLSocket], str]) -> str:
        self._sock.settimeout(20)
        try:
            with self._context.wrap_socket(self._sock, server_hostname="localhost") as tls:
                return work(tls)
        except ssl.SSLError as fault:
            return str(fault)


def space() -> memoryview:
    """Where bytes arrive."""
    return memoryview(bytearray(PIECE))


def all_of(tls: ssl.SSLSocket) -> str:
    """Everything until the other side says that no more comes."""
    pieces = []
    while piece := tls.recv(65536):
        pieces.append(piece)
    return b"".join(pieces).decode()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("life", "says"), [(timedelta(days=1), ""), (timedelta(days=-1), "certificate expired")]
)
async def test_a_client_hears_why(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext, Authority],
    version: ssl.TLSVersion,
    life: timedelta,
    says: str,
    tmp_path: Path,
) -> None:
    server, client, authority = contexts
    server.load_verify_locations(cadata=authority.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    client.load_cert_chain(written(tmp_path, authority.issue("a", NOW, life=life)))
    client.maximum_version = version
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    heard = asyncio.create_task(Client(theirs, client).do(all_of))
    try:
        transport = TlsTransport(await shake_hands(ours, server, 20), Kept(), space())
        assert not says
        transport.write(b"!")
        transport.close()
    except ssl.SSLError:
        assert says
        ours.close()
    told = await heard
    assert (says in told) if says else told == "!"


async def test_bytes_come_and_go_as_they_are(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext, Authority],
) -> None:
    server, client, _ = contexts
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    sent = os.urandom(300_000).hex()

    may_read = threading.Event()

    def talk(tls: ssl.SSLSocket) -> str:
        tls.sendall(sent.encode())
        may_read.wait(20)
        return all_of(tls)

    heard = asyncio.create_task(Client(theirs, client).do(talk))
    protocol = Kept()
    transport = TlsTransport(await shake_hands(ours, server, 20), protocol, space())
    whole = asyncio.Event()
    protocol.on_bytes = lambda: whole.set() if len(protocol.came) == len(sent) else None
    await asyncio.wait_for(whole.wait(), 20)
    assert protocol.came.decode() == sent
    for start in range(0, len(sent), 100_000):
        transport.write(sent[start : start + 100_000].encode())
    assert protocol.is_paused, "nobody reads, and the socket does not take so much"
    may_read.set()
    transport.close()
    assert await heard == sent
    assert await protocol.lost is None


async def test_a_reader_that_pauses_gets_the_rest_of_a_record_when_it_goes_on(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext, Authority],
) -> None:
    server, client, _ = contexts
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ending = threading.Event()

    def talk(tls: ssl.SSLSocket) -> str:
        tls.sendall(b"x" * 16_000)  # one record, and nothing after it
        ending.wait(20)
        return ""

    heard = asyncio.create_task(Client(theirs, client).do(talk))
    protocol = Kept()
    transport = TlsTransport(await shake_hands(ours, server, 20), protocol, space())
    paused = asyncio.Event()

    def pause() -> None:
        if not paused.is_set():
            transport.pause_reading()
            paused.set()

    protocol.on_bytes = pause
    await asyncio.wait_for(paused.wait(), 20)
    before = len(protocol.came)
    assert before == 1000
    whole = asyncio.Event()
    protocol.on_bytes = lambda: whole.set() if len(protocol.came) == 16_000 else None
    transport.resume_reading()
    await asyncio.wait_for(whole.wait(), 20)
    ending.set()
    await heard
    await protocol.lost


async def test_a_handshake_that_takes_too_long_is_given_up() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with theirs, pytest.raises(ConnectionAbortedError, match="no handshake"):
        await shake_hands(ours, server, 0.05)
    ours.close()


async def test_a_connection_that_is_dropped_says_nothing_more(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext, Authority],
) -> None:
    server, client, _ = contexts
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    heard = asyncio.create_task(Client(theirs, client).do(all_of))
    protocol = Kept()
    transport = TlsTransport(await shake_hands(ours, server, 20), protocol, space())
    transport.abort()
    assert isinstance(await protocol.lost, ConnectionAbortedError)
    transport.write(b"too late")
    assert await heard == ""
