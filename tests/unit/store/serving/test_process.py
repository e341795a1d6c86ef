"""A served store in a process of its own: killed, paused, and over connections that break.

What a client of ZooKeeper's has to stand is told once, in `test_zookeeper`, and asked here too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections.abc import Iterator

import pytest

from unit.store.serving import raw
from unit.store.serving.process import ServedProcess
from unit.store.serving.raw import Raw, client, read, text

pytest.importorskip("kazoo")
pytest.importorskip("klamm.store.zookeeper")

from unit.store.test_zookeeper import (  # noqa: F401
    test_a_write_given_up_while_its_answer_was_lost_cannot_come_late,
    test_a_write_too_big_for_the_server_is_refused,
    test_a_write_whose_answer_was_lost_is_done_once,
    test_calls_fail_while_a_server_stays_away_and_work_when_it_is_back,
    test_calls_wait_for_a_server_that_comes_back,
    test_many_writes_over_a_connection_that_keeps_breaking,
    test_watches_outlive_a_broken_connection,
)

CREATE, EXISTS, LS, PING, MULTI = 1, 3, 8, 11, 14


@pytest.fixture(scope="module")
def server() -> Iterator[ServedProcess]:
    yield from _started()


@pytest.fixture
def own_server() -> Iterator[ServedProcess]:
    yield from _started()


@pytest.fixture
def quick_server() -> Iterator[ServedProcess]:
    yield from _started(tick_ms=100)


def _started(tick_ms: int = 500) -> Iterator[ServedProcess]:
    server = ServedProcess(tick_ms)
    try:
        server.start()
        yield server
    finally:
        server.remove()


async def _write_until_cut(port: int, name: str) -> list[tuple[str, int]]:
    """Pipeline multis until the connection breaks: those that were acknowledged."""
    acknowledged = []
    async with client(port) as a:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            for start in itertools.count(step=20):
                names = [f"{name}.{i}" for i in range(start, start + 20)]
                for each in names:
                    nodes = [(CREATE, raw.create(f"/{p}/{each}", each.encode())) for p in "ab"]
                    a.send(MULTI, raw.multi(*nodes))
                for each in names:
                    reply = await a.reply()
                    acknowledged.append((each, reply.zxid))
    return acknowledged


async def test_what_was_acknowledged_survives_a_killed_server(own_server: ServedProcess) -> None:
    async with client(own_server.port) as a:
        for path in ("/a", "/b"):
            await a.call(CREATE, raw.create(path))
        await a.call(CREATE, raw.create("/mine", flags=1))
        hello = a.hello
    seen, known = 0, set[str]()
    for round_number in range(3):
        writing = [_write_until_cut(own_server.port, f"{round_number}-{n}") for n in range(8)]
        tasks = [asyncio.ensure_future(each) for each in writing]
        async with client(own_server.port) as a:
            for _ in range(20):
                await a.call(MULTI, raw.multi((CREATE, raw.create("/a/s", flags=2))))
        own_server.kill()
        acknowledged = [pair for pairs in await asyncio.gather(*tasks) for pair in pairs]
        known |= {name for name, _ in acknowledged}
        first = min(zxid for _, zxid in acknowledged)
        assert first > seen, "a transaction came twice"
        seen = max(zxid for _, zxid in acknowledged)
        await asyncio.to_thread(own_server.start)
        b = await Raw.open(own_server.port)
        await b.connect(10_000, hello.session, hello.password, seen)
        lists = [(await b.call(LS, read(path))).body for path in ("/a", "/b")]
        in_a, in_b = map(_names, lists)
        assert in_a - {name for name in in_a if name.startswith("s0")} == in_b, "half a multi"
        assert known <= in_b, "an acknowledged write is lost"
        assert (await b.call(EXISTS, read("/mine"))).stat.owner == hello.session
        b.drop()


def _names(body: bytes) -> set[str]:
    (count,) = struct.unpack_from(">i", body)
    at, found = 4, set()
    for _ in range(count):
        (size,) = struct.unpack_from(">i", body, at)
        found.add(body[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return found


async def test_nobody_loses_a_session_because_the_server_slept(
    quick_server: ServedProcess,
) -> None:
    async with client(quick_server.port, 200) as a:
        await a.call(CREATE, raw.create("/e", flags=1))
        quick_server.pause()
        for _ in range(6):
            a.send(PING, xid=-2)
            await asyncio.sleep(0.1)
        quick_server.resume()
        for _ in range(6):
            assert (await a.recv()).xid == -2
        assert await a.err(EXISTS, read("/e")) == 0


async def test_a_stopped_server_answers_what_it_was_asked(own_server: ServedProcess) -> None:
    async with client(own_server.port) as a:
        for i in range(50):
            a.send(CREATE, raw.create(f"/{i}"))
        a.send(PING, xid=-2)
        while (await a.recv()).xid != -2:
            pass
        await asyncio.to_thread(own_server.stop)
        await asyncio.to_thread(own_server.start)
        b = await Raw.open(own_server.port)
        await b.connect(10_000, a.hello.session, a.hello.password)
        names = _names((await b.call(LS, read("/"))).body)
        assert names == {"zookeeper", *map(str, range(50))}
        assert (await b.call(9, text("/x"))).body == text("/x")
        b.drop()
