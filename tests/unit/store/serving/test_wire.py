"""What a served store says on the wire, byte by byte, as ZooKeeper 3.8 does."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from klamm.model.errors import StoreUnavailable
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create, Delete, SetData
from unit.store.serving import raw
from unit.store.serving.raw import Raw, Stat, client, read, set_data, text, texts, versioned
from unit.store.serving.served import DIGEST, served

CREATE, DELETE, EXISTS, GET, SET, GET_ACL, SET_ACL, LS, SYNC = 1, 2, 3, 4, 5, 6, 7, 8, 9
PING, LS2, CHECK, MULTI, CREATE2, RECONFIG, CHECK_W, REMOVE_W = 11, 12, 13, 14, 15, 16, 17, 18
CONTAINER, TTL, MULTI_READ, AUTH, SET_W, SASL = 19, 21, 22, 100, 101, 102
EPHEMERALS, COUNT = 103, 104
SET_W2, ADD_W, WHO, CLOSE = 105, 106, 107, -11


@asynccontextmanager
async def one(**door: object) -> AsyncIterator[tuple[Raw, int]]:
    async with served(**door) as (_, server), client(server.port) as a:  # type: ignore[arg-type]
        yield a, server.port


@asynccontextmanager
async def two(**door: object) -> AsyncIterator[tuple[Raw, Raw]]:
    async with one(**door) as (a, port), client(port) as b:
        yield a, b


# Connecting.


@pytest.mark.parametrize(("read_only", "size"), [(True, 37), (False, 36)])
async def test_the_answer_has_the_byte_that_the_request_had(read_only: bool, size: int) -> None:
    async with served() as (_, server):
        a = await Raw.open(server.port)
        assert (await a.connect(read_only=read_only)).size == size
        a.drop()


@pytest.mark.parametrize(
    ("wanted", "granted"), [(1, 4000), (3999, 4000), (4000, 4000), (40001, 40000), (-5, 4000)]
)
async def test_a_timeout_is_granted_within_limits(wanted: int, granted: int) -> None:
    async with served(tick_ms=2000) as (_, server):
        a = await Raw.open(server.port)
        assert (await a.connect(wanted)).timeout_ms == granted
        a.drop()


async def test_a_session_is_taken_up_again_with_its_password() -> None:
    async with one() as (a, port):
        await a.call(CREATE, raw.create("/e", flags=1))
        b = await Raw.open(port)
        again = await b.connect(2_000, a.hello.session, a.hello.password)
        assert (again.session, again.password) == (a.hello.session, a.hello.password)
        assert again.timeout_ms == 2_000 != a.hello.timeout_ms
        assert await a.is_closed()
        assert (await b.call(EXISTS, read("/e"))).stat.owner == again.session
        b.drop()


async def test_a_wrong_password_disturbs_nobody() -> None:
    async with one() as (a, port):
        b = await Raw.open(port)
        refused = await b.connect(session=a.hello.session, password=b"x" * 16)
        assert refused == raw.Connected(37, 0, 0, bytes(16))
        assert await b.is_closed()
        assert await a.err(EXISTS, read("/")) == 0


async def test_a_session_that_is_no_more_is_answered_with_zeros() -> None:
    async with one() as (a, port):
        assert (await a.call(CLOSE)).body == b""
        assert await a.is_closed()
        for session, password in ((a.hello.session, a.hello.password), (4711, bytes(16))):
            b = await Raw.open(port)
            b.writer.write(b"")
            assert await b.connect(session=session, password=password) == raw.Connected(
                37, 0, 0, bytes(16)
            )
            assert await b.is_closed()


async def test_a_client_from_the_future_hears_nothing() -> None:
    async with served() as (_, server):
        a = await Raw.open(server.port)
        a.frame(struct.pack(">iqiq", 0, 1 << 62, 10_000, 0) + raw.blob(bytes(16)) + b"\0")
        assert await a.is_closed()


@pytest.mark.parametrize("on_disk", [True, False])
async def test_every_earlier_client_gets_in_after_a_restart(tmp_path: Path, on_disk: bool) -> None:
    path = tmp_path / "store.db" if on_disk else None
    seen, now_ms = 0, 1_800_000_000_000
    for _ in range(3):
        now_ms += 0 if on_disk else 1000  # an epoch of a store without a file is a second
        async with (
            served(path, now_ms=lambda now_ms=now_ms: now_ms) as (_, server),
            client(server.port) as a,
        ):
            for i in range(5):
                got = await a.call(CREATE, raw.create(f"/{i}-", flags=2))
                assert got.zxid > seen
                seen = got.zxid
            again = await Raw.open(server.port)
            assert (await again.connect(seen=seen)).timeout_ms
            again.drop()
    if on_disk:  # as if the disk had lost the last run: its transactions are not used again
        store = EmbeddedStore.open(path)
        assert store.tree.zxid >= seen
        await store.close()


async def test_requests_right_behind_the_first_frame_are_answered() -> None:
    async with served() as (_, server):
        a = await Raw.open(server.port)
        body = struct.pack(">iqiq", 0, 0, 10_000, 0) + raw.blob(bytes(16)) + b"\0"
        a.frame(body)
        a.send(CREATE, raw.create("/a"))
        a.send(GET, read("/a"))
        a.send(PING, xid=-2)
        await a.connected()
        assert [(await a.recv()).xid for _ in range(3)] == [1, 2, -2]
        a.drop()


async def test_who_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.store.serving.listener._CONNECT_WITHIN_S", 0.05)
    async with served() as (_, server):
        for sent in (b"", b"\0\0", b"\0\0\0\x2d\0\0"):
            a = await Raw.open(server.port)
            a.writer.write(sent)
            assert await a.is_closed()


# Frames and their order.


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
            a.send(PING, xid=-2)
            await a.recv()  # all of it has arrived
        try:
            await b.call(ADD_W, versioned("/n", 0))
        finally:
            release.set()
            held.result()
        assert [(await b.recv()).event for _ in range(2)] == [(3, "/n")] * 2
        assert (await b.call(GET, read("/n"))).body.startswith(raw.blob(b"2"))


# Nodes.


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


# Multis.


async def test_a_multi_that_is_done_answers_byte_by_byte() -> None:
    async with one() as (a, _):
        got = await a.call(
            MULTI,
            raw.multi(
                (CREATE, raw.create("/a")),
                (CREATE2, raw.create("/b", None)),
                (SET, set_data("/b", b"x", 0)),
                (CHECK, versioned("/b", 1)),
                (CONTAINER, raw.create("/c", flags=4)),
                (DELETE, versioned("/a")),
            ),
        )
        assert got.err == 0

        def head(kind: int) -> bytes:
            return struct.pack(">i?i", kind, False, 0)

        at, body = 0, got.body
        stats = []
        for expected, has_stat in (
            (head(1) + text("/a"), False),
            (head(15) + text("/b"), True),
            (head(5), True),
            (head(13), False),
            (head(15) + text("/c"), True),
            (head(2) + raw.END, False),
        ):
            assert body[at : at + len(expected)] == expected
            at += len(expected)
            if has_stat:
                stats.append(Stat.of(body[at : at + 68]))
                at += 68
        assert at == len(body)
        made, changed, container = stats
        assert (made.version, changed.version) == (0, 1)
        assert made.czxid == changed.czxid == changed.mzxid == container.czxid == got.zxid


async def test_a_multi_that_fails_says_where_in_its_body() -> None:
    async with one() as (a, _):
        await a.call(CREATE, raw.create("/a"))
        before = (await a.call(EXISTS, read("/"))).stat
        got = await a.call(
            MULTI,
            raw.multi(
                (CREATE, raw.create("/b")),
                (DELETE, versioned("/no")),
                (CREATE, raw.create("bad")),
            ),
        )
        failed = [struct.pack(">i?ii", -1, False, code, code) for code in (0, -101, -2)]
        assert (got.err, got.body) == (0, b"".join(failed) + raw.END)
        assert (await a.call(EXISTS, read("/"))).stat == before
        for inside in (
            (GET, read("/a")),
            (SET_ACL, text("/a") + raw.OPEN_ACL + struct.pack(">i", -1)),
            (CREATE, raw.create("/f", flags=9)),
        ):
            assert await a.err(MULTI, raw.multi(inside)) == -5
        empty = await a.call(MULTI, raw.END)
        assert (empty.err, empty.body) == (0, raw.END)


async def test_many_reads_in_one_fail_each_for_itself() -> None:
    async with two() as (a, b):
        await a.call(CREATE, raw.create("/a", b"1"))
        got = await a.call(
            MULTI_READ,
            raw.multi((GET, read("/a", True)), (GET, read("/no", True)), (LS, read("/a"))),
        )
        first = struct.pack(">i?i", GET, False, 0) + raw.blob(b"1")
        rest = struct.pack(">i?ii", -1, False, -101, -101) + struct.pack(">i?i", LS, False, 0)
        assert got.err == 0
        assert got.body.startswith(first)
        assert got.body[len(first) + 68 :] == rest + texts() + raw.END
        assert await a.err(MULTI_READ, raw.multi((EXISTS, read("/a")))) == -5
        await b.call(SET, set_data("/a", b"2"))
        await b.call(CREATE, raw.create("/no"))
        assert await a.settle() == []


# Watches.


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


# Sessions.


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


# Who may do what.


def digest(user_password: str) -> str:
    hashed = base64.b64encode(hashlib.sha1(user_password.encode()).digest()).decode()
    return f"{user_password.partition(':')[0]}:{hashed}"


def auth(scheme: str, data: str) -> bytes:
    return struct.pack(">i", 0) + text(scheme) + text(data)


async def test_grants_of_a_node_are_kept_and_hold() -> None:
    async with two() as (a, b):
        got = await a.call(AUTH, auth("digest", "me:secret"), xid=-4)
        assert (got.xid, got.zxid, got.err) == (-4, 0, 0)
        mine = raw.acl((31, "auth", ""))
        assert await a.err(CREATE, raw.create("/mine", b"1", grants=mine)) == 0
        assert await a.err(CREATE, raw.create("/mine/below")) == 0
        for op in (GET, EXISTS, LS, LS2, COUNT):
            assert await b.err(op, read("/mine")) == -102
            assert await a.err(op, read("/mine")) == 0
        assert await b.err(SET, set_data("/mine", b"")) == -102
        assert await b.err(CREATE, raw.create("/mine/x")) == -102
        assert await b.err(DELETE, versioned("/mine/below")) == -102
        assert await b.err(GET_ACL, text("/mine")) == -102
        assert await a.err(DELETE, versioned("/mine/below")) == 0
        kept = await a.call(GET_ACL, text("/mine"))
        assert kept.body.startswith(raw.acl((31, "digest", digest("me:secret"))))
        open_to_readers = raw.acl((31, "auth", ""), (1, "world", "anyone"))
        body = text("/mine") + open_to_readers + struct.pack(">i", 0)
        assert (await a.call(SET_ACL, body)).stat.aversion == 1
        assert await a.err(SET_ACL, body) == -103
        seen = await b.call(GET_ACL, text("/mine"))
        assert seen.body.startswith(raw.acl((31, "digest", "me:x"), (1, "world", "anyone")))
        assert await b.err(GET, read("/mine")) == 0
        assert await b.err(DELETE, versioned("/mine")) == 0  # that is up to the parent


async def test_no_event_tells_of_what_may_not_be_read() -> None:
    async with two() as (a, b):
        await a.call(AUTH, auth("digest", "me:secret"), xid=-4)
        await b.call(ADD_W, versioned("/", 1))
        await a.call(CREATE, raw.create("/mine", grants=raw.acl((31, "auth", ""))))
        await a.call(CREATE, raw.create("/ours"))
        await a.call(DELETE, versioned("/mine"))
        assert await b.settle() == [(1, "/ours")]


@pytest.mark.parametrize(
    "grants",
    [
        raw.acl(),
        raw.blob(None),
        raw.acl((31, "auth", "")),
        raw.acl((31, "world", "somebody")),
        raw.acl((31, "digest", "nocolon")),
        raw.acl((31, "ip", "1.2.3")),
        raw.acl((31, "ip", "1.2.3.4/99")),
        raw.acl((31, "sasl", "kafka")),
        raw.acl(*((1, "digest", f"u:{i}") for i in range(200))),
    ],
)
async def test_what_is_no_list_of_grants_is_refused(grants: bytes) -> None:
    async with one() as (a, _):
        assert await a.err(CREATE, raw.create("/a", grants=grants)) == -114


async def test_an_address_can_be_granted_something() -> None:
    async with one() as (a, _):
        for place, code in (("127.0.0.1", 0), ("127.0.0.0/8", 0), ("10.0.0.0/8", -102)):
            name = f"/{place.replace('/', '-')}"
            await a.call(CREATE, raw.create(name, grants=raw.acl((31, "ip", place))))
            assert await a.err(GET, read(name)) == code


@pytest.mark.parametrize("scheme", ["sasl", "super", "x509", "world", ""])
async def test_a_scheme_that_is_not_served_ends_the_connection(scheme: str) -> None:
    async with one() as (a, _):
        assert (await a.call(AUTH, auth(scheme, "x:y"), xid=-4)).err == -115
        assert await a.is_closed()


async def test_sasl_is_refused_with_a_body() -> None:
    async with one() as (a, _):
        got = await a.call(SASL, text("token"))
        assert (got.err, got.body) == (-115, struct.pack(">i", -1))
        assert await a.is_closed()


async def test_small_questions() -> None:
    async with one() as (a, _):
        assert (await a.call(WHO)).body == struct.pack(">i", 1) + text("ip") + text("127.0.0.1")
        await a.call(AUTH, auth("digest", "me:secret"), xid=-4)
        known = text("ip") + text("127.0.0.1") + text("digest") + text("me")
        assert (await a.call(WHO)).body == struct.pack(">i", 2) + known
        for path, flags in (("/a", 0), ("/a/e", 1), ("/a/ef", 1), ("/b", 1)):
            await a.call(CREATE, raw.create(path, flags=flags))
        for prefix, paths in (
            ("", ("/a/e", "/a/ef", "/b")),
            ("/", ("/a/e", "/a/ef", "/b")),
            ("/a/e", ("/a/e", "/a/ef")),
        ):
            assert (await a.call(EPHEMERALS, text(prefix))).body == texts(*paths)
        assert (await a.call(COUNT, text("/a"))).body == struct.pack(">i", 2)
        assert (await a.call(COUNT, text("/"))).body == struct.pack(">i", 7)
        assert await a.err(COUNT, text("/no")) == -101
        assert (await a.call(SYNC, text("/no"))).body == text("/no")


async def test_strangers_read_and_the_cluster_writes() -> None:
    async with served(anyone_may_write=False) as (store, server):
        inside = await store.connect()
        for path in ("/klamm", "/klamm/secret", "/config", "/config/users", "/config/users/u"):
            await inside.multi([Create(path, b"hidden")])
        async with client(server.port) as stranger, client(server.port) as broker:
            await broker.call(AUTH, auth("digest", DIGEST), xid=-4)
            await stranger.call(AUTH, auth("digest", "klamm:guess"), xid=-4)
            await stranger.call(ADD_W, versioned("/", 1))
            for path in ("/klamm/secret", "/config/users", "/config/users/u"):
                for op in (GET, EXISTS, LS, GET_ACL):
                    assert await stranger.err(op, read(path)) == -102
                    assert await broker.err(op, read(path)) == 0
            assert await stranger.err(GET, read("/klamm")) == 0
            many = await stranger.call(MULTI_READ, raw.multi((GET, read("/klamm/secret"))))
            assert b"hidden" not in many.body
            for op, body in (
                (CREATE, raw.create("/x")),
                (SET, set_data("/klamm", b"")),
                (DELETE, versioned("/klamm/secret")),
                (SET_ACL, text("/klamm") + raw.OPEN_ACL + struct.pack(">i", -1)),
            ):
                assert await stranger.err(op, body) == -102
            failed = await stranger.call(MULTI, raw.multi((CREATE, raw.create("/x"))))
            assert failed.body == struct.pack(">i?ii", -1, False, -102, -102) + raw.END
            assert await broker.err(CREATE, raw.create("/x")) == 0
            assert await broker.err(SET, set_data("/klamm/secret", b"new")) == 0
            assert await stranger.settle() == [(1, "/x")]


async def test_where_anyone_may_write_the_secret_is_kept_all_the_same() -> None:
    async with served() as (store, server), client(server.port) as a:
        inside = await store.connect()
        await inside.multi([Create("/klamm"), Create("/klamm/secret", b"hidden")])
        assert await a.err(GET, read("/klamm/secret")) == -102
        assert await a.err(SET, set_data("/klamm/secret", b"")) == -102
        assert await a.err(DELETE, versioned("/klamm/secret")) == -102
        await a.call(CREATE, raw.create("/chroot"))
        await a.call(CREATE, raw.create("/chroot/klamm"))
        assert await a.err(CREATE, raw.create("/chroot/klamm/secret")) == -102


# Words, limits, faults.


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
        await a.call(CREATE, raw.create("/e", flags=1))
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
            assert await reader.err(EXISTS, read("/e")) == -101
        assert await reader.err(SET, set_data("/n", b"2")) == 0
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
