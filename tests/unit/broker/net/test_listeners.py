"""Several listeners of one broker."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from klamm.broker.net.listener import Listener
from klamm.broker.net.listeners import Listeners
from klamm.broker.net.peer import Answer, Peer
from klamm.broker.net.replies import Reply
from klamm.broker.quotas.connection_limits import ConnectionLimits
from klamm.broker.quotas.quotas import Quotas
from klamm.model.errors import UsageError
from klamm.model.settings import BrokerSettings
from klamm.security.listeners.endpoints import Listener as Place
from klamm.security.listeners.endpoints import SecurityProtocol
from unit.broker.brokers import until


def place(name: str, port: int = 0) -> Place:
    return Place(name, "127.0.0.1", port, SecurityProtocol.PLAINTEXT)


def named(peer: Peer, frame: memoryview) -> Answer:
    said = peer.listener.encode()
    return Reply((len(said).to_bytes(4, "big") + said,))


def listeners(**texts: str) -> Listeners:
    settings = BrokerSettings.parse({name.replace("_", "."): text for name, text in texts.items()})
    limits = ConnectionLimits(Quotas(lambda: 0), lambda: settings)

    def make(at: Place, on_room: Callable[[], None]) -> Listener:
        return Listener(
            named,
            frame_size_max=99,
            idle_ms_max=60_000,
            name=at.name,
            limits=limits,
            on_room=on_room,
        )

    return Listeners(make, limits)


async def test_a_request_knows_the_listener_it_came_through() -> None:
    all_of_them = listeners()
    await all_of_them.open([place("ONE"), place("TWO")])
    for name, port in all_of_them.ports.items():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\0\0\0\2\0\3")
        assert await reader.readexactly(7) == b"\0\0\0\3" + name.encode()
        writer.close()
    await all_of_them.stop()


async def test_who_leaves_one_listener_makes_room_on_another() -> None:
    all_of_them = listeners(max_connections="1")
    await all_of_them.open([place("ONE"), place("TWO")])
    ports = all_of_them.ports
    first = await asyncio.open_connection("127.0.0.1", ports["ONE"])
    await until(lambda: all_of_them.connection_count == 1, "it is in")
    second = await asyncio.open_connection("127.0.0.1", ports["TWO"])
    second[1].write(b"\0\0\0\2\0\3")
    await until(lambda: len(all_of_them.connections) == 2, "it waits")
    assert all_of_them.connection_count == 1
    first[1].close()
    assert await second[0].readexactly(7) == b"\0\0\0\3TWO"
    second[1].close()
    await all_of_them.stop()


async def test_where_one_port_is_taken_nothing_is_opened() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        all_of_them = listeners()
        with pytest.raises(UsageError, match="is taken by another program"):
            await all_of_them.open([place("ONE"), place("TWO", taken.getsockname()[1])])
        assert all_of_them.ports == {}
    await all_of_them.stop()


async def test_one_listener_closes_and_the_others_stay() -> None:
    all_of_them = listeners()
    await all_of_them.open([place("ONE"), place("TWO")])
    ports = all_of_them.ports
    reader, writer = await asyncio.open_connection("127.0.0.1", ports["ONE"])
    await until(lambda: all_of_them.connection_count == 1, "it is in")
    await all_of_them.close(["ONE"])
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", ports["ONE"])
    assert list(all_of_them.ports) == ["TWO"]
    await all_of_them.stop()
