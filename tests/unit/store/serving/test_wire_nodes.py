"""Nodes and their numbers, paths, codes of errors."""

from __future__ import annotations

import struct

import pytest

from unit.store.serving import raw
from unit.store.serving.raw import client, read, set_data, text, versioned
from unit.store.serving.served import served
from unit.store.serving.wire import (
    CHECK,
    CONTAINER,
    CREATE,
    CREATE2,
    DELETE,
    EXISTS,
    GET,
    LS,
    LS2,
    MULTI,
    RECONFIG,
    SET,
    TTL,
    one,
    two,
)


async def test_null_and_empty_data_are_different() -> None:
    async with one() as (a, _):
        await a.call(CREATE, raw.create("/a", None))
        for data, size in ((None, -1), (b"", 0)):
            await a.call(SET, set_data("/a", data))
            got = await a.call(GET, read("/a"))
            assert struct.unpack_from(">i", got.body) == (size,)
            assert got.stat.size == 0


async def test_the_numbers_of_a_node_and_of_its_parent() -> None:
    async with one() as (a, _):
        made = await a.call(CREATE2, raw.create("/p", b"xyz"))
        p = made.stat
        assert (p.version, p.cversion, p.aversion, p.size, p.children) == (0, 0, 0, 3, 0)
        assert p.pzxid == p.mzxid == p.czxid == made.zxid
        assert p.mtime == p.ctime
        for name in "ab":
            await a.call(CREATE, raw.create(f"/p/{name}"))
        two_made = (await a.call(EXISTS, read("/p"))).stat
        assert (two_made.cversion, two_made.children) == (2, 2)
        await a.call(DELETE, versioned("/p/a"))
        one_left = (await a.call(EXISTS, read("/p"))).stat
        assert (one_left.cversion, one_left.children) == (3, 1)
        assert one_left.pzxid > two_made.pzxid > p.pzxid
        assert one_left.mzxid == p.mzxid
        changed = (await a.call(SET, set_data("/p", b"1"))).stat
        assert (changed.cversion, changed.pzxid) == (3, one_left.pzxid)
        assert changed.version == 1
        assert changed.mzxid > one_left.pzxid
        root = (await a.call(EXISTS, read("/"))).stat
        assert (root.czxid, root.mzxid, root.ctime) == (0, 0, 0)
        assert (await a.call(EXISTS, read(""))).stat == root


async def test_a_sequence_counts_what_was_made_and_not_what_was_removed() -> None:
    async with one() as (a, _):
        await a.call(CREATE, raw.create("/p"))
        await a.call(CREATE, raw.create("/p/e", flags=1))
        await a.call(CREATE, raw.create("/p/z"))
        await a.call(DELETE, versioned("/p/z"))
        failed = raw.multi((CREATE, raw.create("/p/s-", flags=2)), (CHECK, versioned("/p", 9)))
        assert (await a.call(MULTI, failed)).err == 0
        assert (await a.call(CREATE, raw.create("/p/s-", flags=2))).body == text("/p/s-0000000002")
        assert (await a.call(CREATE, raw.create("/p/", flags=3))).body == text("/p/0000000003")


async def test_sequences_of_many_writers_are_dense() -> None:
    async with two() as (a, b):
        await a.call(CREATE, raw.create("/p"))
        for _ in range(50):
            for each in (a, b):
                each.send(CREATE, raw.create("/p/n", flags=2))
        made = [(await each.reply()).body for each in (a, b) for _ in range(50)]
        assert sorted(made) == [text(f"/p/n{i:010d}") for i in range(100)]


async def test_what_cannot_be_done_has_its_code() -> None:
    async with one() as (a, _):
        await a.call(CREATE, raw.create("/e", flags=1))
        await a.call(CREATE, raw.create("/p"))
        await a.call(CREATE, raw.create("/p/c"))
        assert await a.err(CREATE, raw.create("/e/x")) == -108
        assert await a.err(CREATE, raw.create("/e")) == -110
        assert await a.err(CREATE, raw.create("/no/x")) == -101
        assert await a.err(DELETE, versioned("/p")) == -111
        assert await a.err(DELETE, versioned("/p/c", 3)) == -103
        assert await a.err(SET, set_data("/p", b"", 3)) == -103
        assert await a.err(CHECK, versioned("/p", 3)) == -103
        assert await a.err(CHECK, versioned("/p", 0)) == 0
        assert await a.err(CREATE, raw.create("/f", flags=9)) == -8
        assert await a.err(CREATE2, raw.create("/f", flags=-1)) == -8
        assert await a.err(TTL, raw.create("/f", flags=5) + bytes(8)) == -6
        assert await a.err(RECONFIG) == -123
        assert await a.err(20, versioned("/p")) == -8
        assert await a.err(LS, read("/no")) == -101
        assert await a.err(LS2, read("/p")) == 0


@pytest.mark.parametrize(
    "bad", ["/p/", "/p/./x", "/p/..", "/p/a\x01", "/p/\uf8ff", "/p/\U0001f600", b"/p/\xff"]
)
async def test_what_is_no_path_is_refused_in_writes_and_missing_in_reads(bad: str | bytes) -> None:
    async with one() as (a, _):
        await a.call(CREATE, raw.create("/p"))
        missing_parent = bad == "/p/./x"
        assert await a.err(CREATE, raw.create(bad)) == (-101 if missing_parent else -8)
        assert await a.err(SET, text(bad) + raw.blob(b"") + struct.pack(">i", -1)) == -8
        assert await a.err(DELETE, versioned(bad)) == -101
        for op in (EXISTS, GET, LS, LS2):
            assert await a.err(op, read(bad)) == -101


async def test_paths_at_the_edge() -> None:
    async with one() as (a, _):
        await a.call(CREATE, raw.create("/p"))
        assert await a.err(CREATE, raw.create("/no/x/")) == -101
        assert await a.err(CREATE, raw.create("/p/ü")) == 0
        assert await a.err(CREATE, raw.create("/p/\uf900")) == 0
        assert await a.err(CREATE, raw.create("nothing")) == -8
        assert await a.err(CREATE, raw.create("/p/\0")) == -8
        assert await a.err(CREATE, raw.create("/p/" + "x" * 9000)) == -8
        assert (await a.call(CREATE, raw.create("/p/..", flags=2))).body == text("/p/..0000000002")


@pytest.mark.parametrize("path", ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"])
async def test_a_server_keeps_its_own_nodes(path: str) -> None:
    async with one() as (a, _):
        assert await a.err(EXISTS, read(path)) == 0
        assert await a.err(DELETE, versioned(path)) == -8


async def test_a_container_goes_when_its_last_child_has_gone() -> None:
    async with served() as (_, server), client(server.port) as a:
        assert (await a.call(CONTAINER, raw.create("/c", flags=4))).stat.owner == 0
        await a.call(CONTAINER, raw.create("/unused", flags=0))
        await a.call(CREATE, raw.create("/c/x"))
        server._sweep()
        assert await a.err(EXISTS, read("/c", True)) == 0
        await a.call(DELETE, versioned("/c/x"))
        server._sweep()
        assert (await a.recv()).event == (2, "/c")
        assert await a.err(EXISTS, read("/unused")) == 0
