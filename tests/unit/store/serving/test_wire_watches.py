"""Watches: what is told, to whom, and in which order."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from unit.store.serving import raw
from unit.store.serving.raw import Raw, client, read, set_data, text, texts, versioned
from unit.store.serving.served import served
from unit.store.serving.wire import (
    ADD_W,
    CHECK_W,
    CREATE,
    DELETE,
    EXISTS,
    GET,
    LS,
    LS2,
    MULTI,
    REMOVE_W,
    SET,
    SET_ACL,
    SET_W,
    SET_W2,
    SYNC,
    one,
    two,
)


async def test_a_missing_node_is_watched_by_exists_alone() -> None:
    async with two() as (a, b):
        assert await a.err(EXISTS, read("/e", True)) == -101
        for op in (GET, LS, LS2):
            assert await a.err(op, read("/d", True)) == -101
        for path in ("/e", "/d"):
            await b.call(CREATE, raw.create(path))
        assert await a.settle() == [(1, "/e")]


async def test_all_watches_on_a_node_tell_once_of_its_end() -> None:
    async with two() as (a, b):
        await b.call(CREATE, raw.create("/n"))
        for op in (EXISTS, GET, LS):
            await a.call(op, read("/n", True))
        await b.call(DELETE, versioned("/n"))
        assert await a.settle() == [(2, "/n")]
        await b.call(CREATE, raw.create("/n"))
        assert await a.settle() == []


async def test_a_watch_on_children_hears_of_children_alone() -> None:
    async with two() as (a, b):
        await b.call(CREATE, raw.create("/p"))
        await b.call(CREATE, raw.create("/p/c"))
        await a.call(LS, read("/p", True))
        await b.call(SET, set_data("/p", b"1"))
        await b.call(CREATE, raw.create("/p/c/d"))
        await b.call(SET_ACL, text("/p") + raw.OPEN_ACL + struct.pack(">i", -1))
        assert await b.err(CREATE, raw.create("/p/c")) == -110
        assert await a.settle() == []
        for path in ("/p/c/d", "/p/c"):
            await b.call(DELETE, versioned(path))
        assert await a.settle() == [(4, "/p")]
        await a.call(LS, read("/p", True))
        await b.call(DELETE, versioned("/p"))
        assert await a.settle() == [(2, "/p")]


async def test_ones_own_event_comes_before_the_reply() -> None:
    async with one() as (a, _):
        await a.call(CREATE, raw.create("/n"))
        await a.call(GET, read("/n", True))
        a.send(SET, set_data("/n", b"1"))
        assert (await a.recv()).event == (3, "/n")
        assert (await a.recv()).err == 0


async def test_no_value_is_read_before_its_event(tmp_path: Path) -> None:
    async with served(tmp_path / "store.db") as (_, server), client(server.port) as a:
        await a.call(CREATE, raw.create("/n", b"0"))
        writers = [await Raw.open(server.port) for _ in range(8)]
        for writer in writers:
            await writer.connect()
            for i in range(40):
                writer.send(SET, set_data("/n", b"%d" % i))
        known = (await a.call(GET, read("/n", True))).stat.version
        for _ in range(300):
            a.events.clear()
            version = (await a.call(GET, read("/n", True))).stat.version
            assert version == known or a.events, "a new value that nobody hinted at"
            known = version
        for writer in writers:
            for _ in range(40):
                assert (await writer.reply()).err == 0
            writer.drop()


async def test_what_was_made_and_removed_at_once_is_told(tmp_path: Path) -> None:
    async with (
        served(tmp_path / "store.db") as (store, server),
        client(server.port) as a,
        client(server.port) as b,
    ):
        await a.call(EXISTS, read("/n", True))
        await b.call(MULTI, raw.multi((CREATE, raw.create("/n")), (DELETE, versioned("/n"))))
        assert await a.settle() == [(1, "/n")]
        await a.call(EXISTS, read("/n", True))
        commits = store.commits_count
        b.send(CREATE, raw.create("/n"))
        b.send(DELETE, versioned("/n"))
        await b.reply()
        await b.reply()
        assert store.commits_count == commits + 1
        assert await a.settle() == [(1, "/n")]


async def test_a_persistent_watch_tells_of_everything_in_order() -> None:
    async with two() as (a, b):
        got = await a.call(ADD_W, versioned("/p", 0))
        assert (got.err, got.body) == (0, struct.pack(">i", 0))
        await b.call(CREATE, raw.create("/p"))
        await b.call(MULTI, raw.multi(*((CREATE, raw.create(f"/p/{i}")) for i in range(3))))
        assert await a.settle() == [(1, "/p"), (4, "/p"), (4, "/p"), (4, "/p")]
        await b.call(MULTI, raw.multi(*((DELETE, versioned(f"/p/{i}")) for i in range(3))))
        await b.call(DELETE, versioned("/p"))
        await b.call(CREATE, raw.create("/p"))
        assert await a.settle() == [(4, "/p")] * 3 + [(2, "/p"), (1, "/p")]
        assert await a.err(ADD_W, versioned("/p", 2)) == -5


async def test_a_recursive_watch_tells_of_nodes_and_not_of_lists() -> None:
    async with two() as (a, b):
        await b.call(CREATE, raw.create("/p"))
        await a.call(ADD_W, versioned("/p", 1))
        await a.call(EXISTS, read("/p", True))
        await b.call(CREATE, raw.create("/p/a"))
        await b.call(CREATE, raw.create("/p/a/b"))
        await b.call(CREATE, raw.create("/pp"))
        await b.call(SET, set_data("/p/a/b", b"1"))
        await b.call(SET, set_data("/p", b"1"))
        await b.call(SET, set_data("/p", b"2"))
        await b.call(DELETE, versioned("/p/a/b"))
        assert await a.settle() == [
            (1, "/p/a"),
            (1, "/p/a/b"),
            (3, "/p/a/b"),
            (3, "/p"),
            (3, "/p"),
            (2, "/p/a/b"),
        ]


async def test_watches_are_taken_off() -> None:
    async with two() as (a, b):
        await b.call(CREATE, raw.create("/n"))
        await a.call(GET, read("/n", True))
        await a.call(LS, read("/n", True))
        assert await a.err(CHECK_W, versioned("/n", 1)) == 0
        assert await b.err(CHECK_W, versioned("/n", 1)) == -121
        assert await a.err(REMOVE_W, versioned("/n", 1)) == 0
        assert await a.err(REMOVE_W, versioned("/n", 1)) == -121
        assert await a.err(REMOVE_W, versioned("/n", 9)) == -5
        await b.call(SET, set_data("/n", b"1"))
        assert await a.settle() == [(3, "/n")]
        await a.call(ADD_W, versioned("/n", 1))
        assert await a.err(REMOVE_W, versioned("/n", 3)) == 0
        await b.call(SET, set_data("/n", b"2"))
        assert await a.settle() == []


@pytest.mark.parametrize("xid", [55, -8])
async def test_watches_are_set_again_after_a_reconnect(xid: int) -> None:
    async with two() as (a, b):
        for path in ("/same", "/changed", "/gone", "/kids", "/quiet"):
            await b.call(CREATE, raw.create(path))
        seen = (await b.call(SYNC, text("/"))).zxid
        await b.call(SET, set_data("/changed", b"1"))
        await b.call(DELETE, versioned("/gone"))
        await b.call(CREATE, raw.create("/kids/x"))
        await b.call(CREATE, raw.create("/came"))
        body = (
            struct.pack(">q", seen)
            + texts("/same", "/changed", "/gone")
            + texts("/came", "/not-yet")
            + texts("/kids", "/quiet")
        )
        got = await a.call(SET_W, body, xid)
        assert (got.xid, got.err, got.body) == (xid, 0, b"")
        assert a.events == [(3, "/changed"), (2, "/gone"), (1, "/came"), (4, "/kids")]
        a.events.clear()
        for path in ("/same", "/not-yet", "/quiet/x", "/changed"):
            await b.err(SET, set_data(path, b"2"))
            await b.err(CREATE, raw.create(path))
        assert await a.settle() == [(3, "/same"), (1, "/not-yet"), (4, "/quiet")]
        lasting = struct.pack(">q", 0) + texts() * 3 + texts("/same") + texts("/kids")
        await a.call(SET_W2, lasting)
        assert a.events == []
        await b.call(SET, set_data("/same", b"3"))
        await b.call(DELETE, versioned("/kids/x"))
        assert await a.settle() == [(3, "/same"), (2, "/kids/x")]


async def test_a_connection_has_only_so_many_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.store.serving.watchtable.WATCHES_MAX", 10)
    async with two() as (a, b):
        for i in range(10):
            assert await a.err(EXISTS, read(f"/{i}", True)) == -101
        a.send(EXISTS, read("/10", True))
        assert await a.is_closed()
        assert await b.err(EXISTS, read("/", True)) == 0
