"""Two sides of one socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from klamm.app import conversation
from klamm.app.conversation import HungUp, ParentTalk
from klamm.model.errors import KlammError, UsageError


@asynccontextmanager
async def two(serve: Any = None, hear: Any = None) -> AsyncIterator[tuple[ParentTalk, Any]]:
    """One side that asks, and the other, which serves; both end with the block."""
    left, right = socket.socketpair()
    asking = await ParentTalk.over(left)
    serving = await ParentTalk.over(right, serve=serve, hear=hear)
    tasks = [asyncio.create_task(side.run()) for side in (asking, serving)]
    try:
        yield asking, serving
    finally:
        for side in (asking, serving):
            side.hang_up()
        await asyncio.gather(*tasks)
        for side in (asking, serving):
            await side.closed()


async def serve(what: str, details: Mapping[str, Any]) -> object:
    match what:
        case "twice":
            return details["n"] * 2
        case "refuse":
            raise UsageError("not like this")
        case "fail":
            raise KlammError("it broke")
        case "late":
            raise TimeoutError("in vain")
        case "stumble":
            raise ZeroDivisionError("oops")
    await asyncio.Event().wait()
    return None


async def test_an_ask_is_answered_also_while_another_waits() -> None:
    async with two(serve) as (asking, _):
        waiting = asyncio.create_task(asking.ask("wait"))
        assert await asking.ask("twice", n=21) == 42
        assert not waiting.done()
        waiting.cancel()


@pytest.mark.parametrize(
    ("what", "kind", "said"),
    [
        ("refuse", UsageError, "not like this"),
        ("fail", KlammError, "it broke"),
        ("late", TimeoutError, "in vain"),
        ("stumble", KlammError, "unexpected ZeroDivisionError"),
    ],
)
async def test_an_error_travels(what: str, kind: type[Exception], said: str) -> None:
    async with two(serve) as (asking, _):
        with pytest.raises(kind, match=said):
            await asking.ask(what)


async def test_what_is_told_is_heard_in_order() -> None:
    heard: asyncio.Queue[tuple[str, Mapping[str, Any]]] = asyncio.Queue()
    async with two(hear=lambda what, details: heard.put_nowait((what, details))) as (asking, _):
        asking.tell("one", n=1)
        asking.tell("two")
        assert await heard.get() == ("one", {"n": 1})
        assert await heard.get() == ("two", {})


async def test_who_hangs_up_answers_nothing_any_more() -> None:
    async with two(serve) as (asking, serving):
        waiting = asyncio.create_task(asking.ask("wait"))
        await asking.ask("twice", n=1)
        serving.hang_up()
        with pytest.raises(HungUp):
            await waiting
        with pytest.raises(HungUp):
            await asking.ask("twice", n=1)
        asking.tell("nobody hears this")


async def test_a_line_without_an_end_ends_the_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "LINE_BYTES_MAX", 1024)
    left, right = socket.socketpair()
    side = await ParentTalk.over(left)
    with right:
        right.sendall(b"x" * 10_000)
        await asyncio.wait_for(side.run(), 5)
    await side.closed()


async def test_nonsense_ends_the_talk() -> None:
    for nonsense in (b"{\n", b"[]\n", b"{}\n", b'"answer"\n'):
        left, right = socket.socketpair()
        side = await ParentTalk.over(left, serve=serve)
        with right:
            right.sendall(nonsense)
            await asyncio.wait_for(side.run(), 5)
        await side.closed()
