"""Multis, and many reads in one."""

from __future__ import annotations

import struct

from unit.store.serving import raw
from unit.store.serving.raw import Stat, read, set_data, text, texts, versioned
from unit.store.serving.wire import (
    CHECK,
    CONTAINER,
    CREATE,
    CREATE2,
    DELETE,
    EXISTS,
    GET,
    LS,
    MULTI,
    MULTI_READ,
    SET,
    SET_ACL,
    one,
    two,
)


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
