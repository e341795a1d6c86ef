"""Who gets in when there are too many: brokers do, whatever the tables say."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from klamm.broker.net.descriptors import Descriptors
from klamm.broker.net.listener import Listener
from klamm.broker.net.peer import Answer, Peer
from klamm.broker.net.replies import Reply
from klamm.broker.quotas.connection_limits import ConnectionLimits
from klamm.broker.quotas.quotas import Quotas
from klamm.model.settings import BrokerSettings
from klamm.protocol.private import PrivateKey
from unit.broker.brokers import until

PROVE = struct.pack(">h", PrivateKey.PROVE)
HELLO = b"\0\3hello"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def route(peer: Peer, frame: memoryview) -> Answer:
    """Sends everything back, and takes everybody for a broker who says so."""

    async def believe(said: bytes) -> Reply:
        await asyncio.sleep(0)
        peer.proven()
        return Reply((framed(said),))

    if bytes(frame[:2]) == PROVE:
        return believe(bytes(frame))
    return Reply((framed(bytes(frame)),))


class House:
    """A listener and everybody who came."""

    def __init__(self, listener: Listener, port: int) -> None:
        self.listener = listener
        self.port = port
        self.guests: list[Streams] = []

    async def come(self, said: bytes = b"") -> Streams:
        before = len(self.listener.connections)
        streams = await asyncio.open_connection("127.0.0.1", self.port)
        self.guests.append(streams)
        if said:
            streams[1].write(framed(said))
        else:
            await until(lambda: len(self.listener.connections) > before, "it is accepted")
        return streams


async def hears(streams: Streams, said: bytes) -> bool:
    """Whether this is what comes back, and not the end."""
    try:
        async with asyncio.timeout(5):
            return await streams[0].readexactly(4 + len(said)) == framed(said)
    except (asyncio.IncompleteReadError, ConnectionError):
        return False


@contextlib.asynccontextmanager
async def house(
    descriptors: Descriptors | None = None, quotas: Quotas | None = None, **texts: str
) -> AsyncIterator[House]:
    settings = BrokerSettings.parse({name.replace("_", "."): t for name, t in texts.items()})
    limits = ConnectionLimits(quotas or Quotas(lambda: 0), lambda: settings)
    listener = Listener(
        route,
        frame_size_max=1 << 20,
        idle_ms_max=60_000,
        limits=limits,
        descriptors=descriptors or Descriptors(),
    )
    made = House(listener, await listener.start("127.0.0.1", 0))
    try:
        yield made
    finally:
        for _, writer in made.guests:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await listener.stop()


async def test_a_broker_gets_in_where_clients_have_filled_the_table() -> None:
    async with house(max_connections="1") as h:
        assert await hears(await h.come(HELLO), HELLO)
        waiting = await h.come(HELLO)
        broker = await h.come(PROVE)
        assert await hears(broker, PROVE)
        broker[1].write(framed(HELLO))
        assert await hears(broker, HELLO)
        assert h.listener.connection_count == 2, "the client that waits still does"
        assert waiting[0]._buffer == b""  # type: ignore[attr-defined]


async def test_brokers_take_no_room_from_clients() -> None:
    async with house(max_connections="1") as h:
        for _ in range(5):
            assert await hears(await h.come(PROVE), PROVE)
        client = await h.come(HELLO)
        assert await hears(client, HELLO)
        h.listener.sweep()
        await asyncio.sleep(0.01)
        assert h.listener.connection_count == 6, "nobody is one too many"


async def test_a_broker_gets_in_over_the_share_of_its_address() -> None:
    async with house(max_connections_per_ip_overrides="127.0.0.1:0") as h:
        assert await hears(await h.come(PROVE), PROVE)
        assert not await hears(await h.come(HELLO), HELLO)


async def test_a_broker_does_not_wait_for_the_rate_of_connections() -> None:
    async with house(max_connection_creation_rate="1", quota_window_num="2") as h:
        assert await hears(await h.come(HELLO), HELLO)
        slow = await h.come(HELLO)
        assert await hears(await h.come(PROVE), PROVE)
        assert slow[0]._buffer == b""  # type: ignore[attr-defined]


async def test_a_claim_of_any_size_does_not_get_a_stranger_heard() -> None:
    async with house(max_connections="1") as h:
        assert await hears(await h.come(HELLO), HELLO)
        stranger = await h.come(PROVE + bytes(100_000))
        await until(lambda: any(c.buffered > 4000 for c in h.listener.connections), "it spoke")
        (held,) = [c for c in h.listener.connections if c.buffered]
        assert held.capacity <= 8 * 1024
        assert stranger[0]._buffer == b""  # type: ignore[attr-defined]


async def test_beyond_what_the_process_affords_only_brokers_stay() -> None:
    share = Descriptors(lambda: 0)
    async with house(share) as h:
        for _ in range(share.clients_max):
            assert await hears(await h.come(HELLO), HELLO)
        assert not await hears(await h.come(HELLO), HELLO)
        broker = await h.come(PROVE)
        assert await hears(broker, PROVE)
        # A crowd that says nothing: the newest are heard, the others are gone at once.
        crowd = [await asyncio.open_connection("127.0.0.1", h.port) for _ in range(40)]
        h.guests += crowd
        late = await h.come(PROVE)
        assert await hears(late, PROVE)
        most = share.clients_max + share.guests_max + 2
        await until(lambda: len(h.listener.connections) <= most, "the crowd is sent away")
        for _, writer in h.guests[: share.clients_max]:
            writer.close()
        await until(lambda: share.clients == 0, "clients have left")
        assert await hears(await h.come(HELLO), HELLO)


class Exhausted:
    """A listening socket of a process without descriptors, for a while."""

    def __init__(self, real: socket.socket, times: int) -> None:
        self._real = real
        self.left = times

    def accept(self) -> Any:
        if self.left > 0:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._real.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def test_accepting_pauses_says_so_once_and_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klamm.broker.net.listener._ACCEPT_PAUSE_S", 0.01)
    async with house() as h:
        h.listener._stop_accepting()
        (real,) = h.listener._sockets
        poor = Exhausted(real, 7)
        h.listener._sockets = [poor]  # type: ignore[list-item]
        h.listener._accept_from_now()
        with caplog.at_level(logging.WARNING):
            assert await hears(await h.come(HELLO), HELLO), "it goes on by itself"
        assert poor.left == 0
        (line,) = [r.getMessage() for r in caplog.records if "not accepted" in r.getMessage()]
        assert "ulimit -n" in line


async def test_another_protocol_is_called_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async with house() as h:
        for hello, name in ((bytes.fromhex("160301020001"), "TLS"), (b"GET / HTTP/1.1", "HTTP")):
            reader, writer = await asyncio.open_connection("127.0.0.1", h.port)
            h.guests.append((reader, writer))
            writer.write(hello)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            assert f"it speaks {name}" in str(caplog.records[-1].__dict__["why"])
