"""Words, limits and faults."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from klamm.model.errors import StoreUnavailable
from klamm.store.embedded import EmbeddedStore
from unit.store.serving import raw
from unit.store.serving.raw import Raw, client, read, set_data, texts, versioned
from unit.store.serving.served import DIGEST, served
from unit.store.serving.wire import (
    AUTH,
    CLOSE,
    CREATE,
    DELETE,
    EXISTS,
    GET,
    MULTI_READ,
    SET,
    auth,
    one,
    two,
)


async def ask(port: int, word: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(word)
    async with asyncio.timeout(raw.WAIT_S):
        answer = await reader.read()
    writer.close()
    return answer.decode()


async def test_words_are_answered() -> None:
    async with one() as (a, port):
        await a.call(CREATE, raw.create("/e", flags=1))
        await a.call(GET, read("/e", True))
        assert await ask(port, b"ruok") == "imok"
        assert await ask(port, b"isro\n") == "rw"
        for word in (b"srvr", b"stat"):
            answer = await ask(port, word)
            assert answer.startswith("Zookeeper version: 3.8.4-")
            assert "Mode: standalone\nNode count: 5\n" in answer
        assert "zk_ephemerals_count\t1\n" in await ask(port, b"mntr")
        assert f"sid=0x{a.hello.session:x}" in await ask(port, b"cons")
        assert f"0x{a.hello.session:x}:\n\t/e\n" in await ask(port, b"dump")
        assert "zookeeper.version=3.8.4-" in (await ask(port, b"envi")).splitlines()[1]
        assert f"clientPort={port}\n" in await ask(port, b"conf")
        assert "Total watches:1\n" in await ask(port, b"wchs")
        assert await ask(port, b"nope") == ""
        assert await a.err(EXISTS, read("/e")) == 0


async def test_strangers_make_room_and_the_cluster_stays() -> None:
    async with (
        served(anyone_may_write=False, connections_max=3) as (_, server),
        client(server.port) as broker,
    ):
        await broker.call(AUTH, auth("digest", DIGEST), xid=-4)
        strangers = [await Raw.open(server.port) for _ in range(10)]
        for stranger in strangers[:8]:
            assert await stranger.is_closed()
        assert await broker.err(EXISTS, read("/")) == 0
        assert (await strangers[-1].connect()).session


async def test_a_client_that_does_not_read_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.store.serving.listener._OUT_BYTES_HIGH", 1 << 16)
    monkeypatch.setattr("klamm.store.serving.listener._OUT_BYTES_MAX", 1 << 20)
    async with served() as (_, server), client(server.port) as b:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        deaf = Raw(reader, writer)
        await deaf.connect()
        await b.call(CREATE, raw.create("/big", b"x" * 500_000))
        for _ in range(200):
            deaf.send(GET, read("/big"))
        assert await b.err(EXISTS, read("/")) == 0
        (connection,) = [
            c for c in server._connections.values() if c.pipeline.session.id == deaf.hello.session
        ]
        while not connection.pipeline.is_blocked:
            assert await b.err(EXISTS, read("/")) == 0
        # Nothing more is read for it: what piles up is bounded.
        assert connection.transport.get_write_buffer_size() < 3 << 20
        long = "/" + "y" * 8000
        server.watches.add(connection.pipeline, 2, long)
        await b.call(CREATE, raw.create(long))
        for i in range(1000):
            if connection.transport.is_closing():
                break
            await b.call(SET, set_data(long, b"%d" % i))
        assert connection.transport.is_closing()
        assert await b.err(EXISTS, read("/")) == 0
        deaf.drop()


async def test_many_reads_in_one_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.store.serving.reads._MANY_BYTES_MAX", 1 << 20)
    async with two() as (a, b):
        await a.call(CREATE, raw.create("/big", b"x" * 500_000))
        a.send(MULTI_READ, raw.multi(*[(GET, read("/big"))] * 100))
        assert await a.is_closed()
        assert await b.err(EXISTS, read("/big")) == 0


async def test_a_disk_that_refuses_is_a_lost_connection_and_no_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from klamm.store.database import Database

    async with (
        served(tmp_path / "store.db") as (store, server),
        client(server.port) as reader,
        client(server.port) as a,
    ):
        await a.call(CREATE, raw.create("/n", b"0"))
        await a.call(CREATE, raw.create("/p"))
        await a.call(CREATE, raw.create("/p/e", flags=1))
        await reader.call(GET, read("/n", True))

        def full(*_: object) -> None:
            raise StoreUnavailable("no space left")

        with monkeypatch.context() as broken:
            broken.setattr(Database, "commit", full)
            a.send(SET, set_data("/n", b"1"))
            assert await a.is_closed()
            assert (await reader.call(GET, read("/n"))).body.startswith(raw.blob(b"0"))
            assert reader.events == []
            b = await Raw.open(server.port)
            await b.connect(10_000, a.hello.session, a.hello.password)
            b.send(CLOSE)
            assert await b.is_closed()
            assert await reader.err(EXISTS, read("/p/e")) == -101
        assert await reader.err(SET, set_data("/n", b"2")) == 0
        # What ended meanwhile is gone from the file too, or its parent could not go.
        assert await reader.err(DELETE, versioned("/p")) == 0
    store = EmbeddedStore.open(tmp_path / "store.db")
    assert store.tree.children("/") == ("n", "zookeeper")
    await store.close()


async def test_garbage_disturbs_nobody() -> None:
    dice = random.Random(14)
    async with served() as (_, server), client(server.port) as good:
        await good.call(CREATE, raw.create("/n", b"0"))
        bodies = [
            raw.create("/n/x", flags=3),
            read("/n", True),
            raw.multi((SET, set_data("/n", b""))),
            texts("/n") * 5,
        ]
        for _ in range(150):
            bad = await Raw.open(server.port)
            if dice.random() < 0.8:
                await bad.connect()
            for _ in range(dice.randrange(1, 6)):
                body = bytearray(dice.choice(bodies))
                for _ in range(dice.randrange(4)):
                    body[dice.randrange(len(body))] = dice.randrange(256)
                op = dice.choice((*range(-12, 24), *range(99, 110)))
                bad.send(op, bytes(body[: dice.randrange(len(body) + 1)]), dice.randrange(-9, 99))
            if dice.random() < 0.3:
                bad.writer.write(dice.randbytes(dice.randrange(1, 300)))
            if dice.random() < 0.5:
                bad.writer.write_eof()
                await bad.reader.read()
            bad.drop()
            assert await good.err(EXISTS, read("/")) == 0
        assert server._outstanding == 0
        assert server.watches.connections_count == 0
        assert len(server._connections) == 1
