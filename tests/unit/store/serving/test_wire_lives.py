"""Sessions: their ends, and what outlives a restart."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create, Delete, SetData
from unit.store.serving import raw
from unit.store.serving.raw import Raw, client, read, text, texts
from unit.store.serving.served import served
from unit.store.serving.wire import (
    CLOSE,
    CREATE,
    EXISTS,
    GET,
    LS,
    PING,
    SET_W,
    SYNC,
    one,
    two,
)


async def test_what_a_session_owned_goes_in_one_transaction() -> None:
    async with two() as (a, b):
        for parent in ("/p", "/q"):
            await b.call(CREATE, raw.create(parent))
            await a.call(CREATE, raw.create(f"{parent}/e", flags=1))
            await b.call(LS, read(parent, True))
        await a.call(EXISTS, read("/p/e", True))
        a.send(CLOSE)
        assert (await a.recv()).event == (2, "/p/e")
        assert (await a.recv()).err == 0
        p, q = [(await b.call(EXISTS, read(path))).stat for path in ("/p", "/q")]
        assert b.events == [(4, "/p"), (4, "/q")]
        assert p.pzxid == q.pzxid > p.mzxid


async def test_a_silent_session_ends_and_a_pinging_one_does_not() -> None:
    async with (
        served(tick_ms=100) as (_, server),
        client(server.port, 200) as silent,
        client(server.port, 200) as pinging,
    ):
        await silent.call(CREATE, raw.create("/e", flags=1))
        await pinging.call(EXISTS, read("/e", True))
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not pinging.events:
            await pinging.call(PING, xid=-2)
        assert pinging.events == [(2, "/e")]
        assert 0.19 <= loop.time() - began < 2
        assert await silent.is_closed()
        assert await pinging.err(EXISTS, read("/e")) == -101


async def test_sessions_and_what_they_own_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with served(path) as (store, server):
        inside = await store.connect()
        await inside.multi([Create("/p"), Create("/p/inside", ephemeral=True)])
        async with client(server.port) as a:
            await a.call(CREATE, raw.create("/p/mine", flags=1))
            seen = (await a.call(SYNC, text("/"))).zxid
            hello = a.hello
    async with served(path) as (_, server):
        b = await Raw.open(server.port)
        assert (await b.connect(10_000, hello.session, hello.password, seen)).session
        assert (await b.call(LS, read("/p"))).body == texts("mine")
        # Whoever watched the children before hears that those of the old process have gone.
        await b.call(SET_W, struct.pack(">q", seen) + texts() + texts() + texts("/p"))
        assert b.events == [(4, "/p")]
        await b.call(CLOSE)
    store = EmbeddedStore.open(path)
    assert store.tree.children("/p") == ()
    assert store.tree.sessions == {}
    await store.close()


async def test_a_store_that_is_not_served_any_more_has_no_sessions(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with one(path=path) as (a, _):
        await a.call(CREATE, raw.create("/e", flags=1))
    store = EmbeddedStore.open(path)
    assert store.tree.children("/") == ("zookeeper",)
    await store.close()
    async with served(path) as (_, server):
        b = await Raw.open(server.port)
        assert (await b.connect(10_000, a.hello.session, a.hello.password)).timeout_ms == 0


async def test_brokers_inside_and_clients_outside_share_one_tree() -> None:
    async with served() as (store, server), client(server.port) as a:
        inside = await store.connect()
        heard: list[str] = []
        inside.watch_tree("/", heard.extend)
        await a.call(CREATE, raw.create("/a", b"1", flags=1))
        assert heard == ["/a"]
        node = await inside.get("/a")
        assert node is not None
        assert (node.data, node.stat.ephemeral_owner) == (b"1", a.hello.session)
        await a.call(GET, read("/a", True))
        await inside.multi([SetData("/a", b"2")])
        assert (await a.recv()).event == (3, "/a")
        await inside.multi([Delete("/a"), Create("/b", ephemeral=True)])
        assert (await a.call(EXISTS, read("/b"))).stat.owner == inside.id
