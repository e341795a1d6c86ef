"""Who may read and write what."""

from __future__ import annotations

import struct

import pytest

from klamm.store.port import Create
from unit.store.serving import raw
from unit.store.serving.raw import client, read, set_data, text, texts, versioned
from unit.store.serving.served import DIGEST, served
from unit.store.serving.wire import (
    ADD_W,
    AUTH,
    COUNT,
    CREATE,
    DELETE,
    EPHEMERALS,
    EXISTS,
    GET,
    GET_ACL,
    LS,
    LS2,
    MULTI,
    MULTI_READ,
    SASL,
    SET,
    SET_ACL,
    SYNC,
    WHO,
    auth,
    digest,
    one,
    two,
)


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
