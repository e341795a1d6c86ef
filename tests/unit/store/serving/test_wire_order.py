"""Frames, and the order of requests and replies."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pytest

from unit.store.serving import raw
from unit.store.serving.raw import Raw, client, read, set_data, versioned
from unit.store.serving.served import served
from unit.store.serving.wire import (
    ADD_W,
    AUTH,
    CREATE,
    EXISTS,
    GET,
    PING,
    SET,
    SET_W,
    auth,
    one,
)


async def test_a_ping_is_answered_while_a_commit_hangs(tmp_path: Path) -> None:
    async with served(tmp_path / "store.db") as (store, server), client(server.port) as a:
        release = threading.Event()
        held = store._worker.submit(release.wait)
        try:
            a.send(CREATE, raw.create("/a"))
            a.send(PING, xid=-2)
            pong = await a.recv()
            assert (pong.xid, pong.err, pong.body) == (-2, 0, b"")
        finally:
            release.set()
            held.result()
        assert (await a.reply()).xid == 1


@pytest.mark.parametrize("op", [0, 10, 99, -1, 4711])
async def test_an_unknown_operation_ends_the_connection_but_not_the_session(op: int) -> None:
    async with one() as (a, port):
        await a.call(CREATE, raw.create("/e", flags=1))
        got = await a.call(op)
        assert (got.err, got.zxid) == (-6, -1)
        assert await a.is_closed()
        b = await Raw.open(port)
        assert (await b.connect(10_000, a.hello.session, a.hello.password)).session
        assert await b.err(EXISTS, read("/e")) == 0
        b.drop()


async def test_a_cut_body_is_refused_and_a_long_one_is_not() -> None:
    async with one() as (a, _):
        whole = raw.create("/a")
        for cut in range(len(whole)):
            assert await a.err(CREATE, whole[:cut]) == -5
        for op, body in ((GET, raw.blob(None) + b"\0"), (EXISTS, b""), (SET_W, b"\0" * 8)):
            assert await a.err(op, body) == -5
        assert await a.err(CREATE, whole + b"more") == 0
        assert await a.err(SET_W, b"\0" * 8 + b"\x7f\xff\xff\xff" * 3) == -5


async def test_a_frame_has_a_limit() -> None:
    async with one() as (a, port):
        room = 0xFFFFF - 8 - len(raw.create("/a", b""))
        assert await a.err(CREATE, raw.create("/a", b"x" * room)) == 0
        assert (await a.call(GET, read("/a"))).stat.size == room
        for size in (0x100000, -1, 0x7FFFFFFF):
            b = await Raw.open(port)
            await b.connect()
            b.writer.write(struct.pack(">i", size))
            assert await b.is_closed()
        c = await Raw.open(port)
        await c.connect()
        c.frame(b"\0\0\0\1")  # no whole header
        assert await c.is_closed()


async def test_each_read_sees_the_writes_before_it_and_none_behind(tmp_path: Path) -> None:
    async with one(path=tmp_path / "store.db") as (a, _):
        await a.call(CREATE, raw.create("/n", b"0"))
        for i in range(1, 60):
            a.send(SET, set_data("/n", b"%d" % i))
            a.send(GET, read("/n"))
        for i in range(1, 60):
            wrote, saw = await a.reply(), await a.reply()
            assert (wrote.xid, saw.xid) == (2 * i, 2 * i + 1)
            assert saw.body.startswith(raw.blob(b"%d" % i))
            assert saw.zxid >= wrote.zxid == wrote.stat.mzxid


async def test_what_was_sent_before_the_connection_broke_is_done(tmp_path: Path) -> None:
    async with served(tmp_path / "store.db") as (store, server), client(server.port) as b:
        async with client(server.port) as a:
            await a.call(CREATE, raw.create("/n"))
            release = threading.Event()
            held = store._worker.submit(release.wait)
            a.send(SET, set_data("/n", b"1"))
            a.send(GET, read("/n"))
            a.send(SET, set_data("/n", b"2"))
            a.send(AUTH, auth("digest", "me:secret"), xid=-4)
            a.send(CREATE, raw.create("/mine", grants=raw.acl((31, "auth", ""))))
            a.send(PING, xid=-2)
            await a.recv()  # all of it has arrived
        try:
            await b.call(ADD_W, versioned("/n", 0))
        finally:
            release.set()
            held.result()
        assert [(await b.recv()).event for _ in range(2)] == [(3, "/n")] * 2
        assert (await b.call(GET, read("/n"))).body.startswith(raw.blob(b"2"))
        assert await b.err(GET, read("/mine")) == -102
