"""A follower's connection to a leader, over real sockets."""

from __future__ import annotations

import asyncio
import struct

from klamm.broker.replicas.leader_link import LeaderLink

LARGE = 5 << 20


async def test_the_memory_of_large_answers_is_kept_while_they_come_and_then_given_back() -> None:
    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1):
            writer.write(struct.pack(">i", LARGE) + bytes(LARGE))
        writer.close()

    came: list[int] = []
    arrived = asyncio.Event()

    def take(frame: memoryview) -> None:
        came.append(len(frame))
        arrived.set()

    async def ask() -> object:
        arrived.clear()
        link.send(b"?")
        await asyncio.wait_for(arrived.wait(), 10)
        return link._frames._buffer.obj

    server = await asyncio.start_server(lead, "127.0.0.1", 0)
    async with server:
        link = LeaderLink(take)
        await link.open("127.0.0.1", server.sockets[0].getsockname()[1])
        place = await ask()
        assert await ask() is place
        assert await ask() is place
        assert came == [LARGE] * 3
        assert link._resting is not None, "somebody will look whether it is quiet"
        link._rest()
        assert link._frames.is_large, "it is not"
        link.heard_at -= 2
        link._rest()
        assert not link._frames.is_large
        await ask()
        assert link._frames.is_large, "the next one is kept again"
        await link.close()
        assert link._frames.capacity == 0
        server.close()
        await asyncio.sleep(0)
