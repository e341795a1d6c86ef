"""Connections and the sessions they are given."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from klamm.store.embedded import EmbeddedStore
from unit.store.serving import raw
from unit.store.serving.raw import Raw, client, read
from unit.store.serving.served import served
from unit.store.serving.wire import (
    CLOSE,
    CREATE,
    EXISTS,
    GET,
    PING,
    one,
)


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
