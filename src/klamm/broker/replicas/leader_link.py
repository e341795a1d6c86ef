"""A follower's connection to a leader.

Every replicated byte comes in here, so this is the short way: an answer is dealt with in the buffer
it arrived in, by the callback that heard of it, and the next request leaves from there. Nothing
waits but the owner, for the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from klamm.broker.net.framing import FrameBuffer
from klamm.client.errors import ConnectionLost
from klamm.protocol import private
from klamm.protocol.frames import encode_request_frame, parse_response_header

_FRAME_SIZE_MAX: Final = 1 << 30
_CONNECT_S: Final = 10.0


class LeaderLink(asyncio.BufferedProtocol):
    """Frames to and from one broker; `lost` ends with the reason when there are no more."""

    def __init__(self, take: Callable[[memoryview], None]) -> None:
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.heard_at = loop.time()
        self._take = take
        self._loop = loop
        self._frames = FrameBuffer(_FRAME_SIZE_MAX)
        self._transport: asyncio.Transport | None = None

    async def open(self, host: str, port: int) -> None:
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._loop.create_connection(lambda: self, host, port)
        except (OSError, TimeoutError) as fault:
            raise ConnectionLost(f"{host}:{port}: {fault}") from fault

    async def ask(self, key: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one private request, before the conversation begins."""
        answer: asyncio.Future[bytes] = self._loop.create_future()
        take, self._take = self._take, lambda frame: answer.set_result(bytes(frame))
        try:
            name = private.SOFTWARE_NAME
            self.send(encode_request_frame(key, private.VERSION, 0, name, private.encode(body)))
            either: set[asyncio.Future[Any]] = {answer, self.lost}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                await self.lost
        finally:
            self._take = take
        frame = answer.result()
        _, at = parse_response_header(key, private.VERSION, frame)
        return private.decode(frame[at:])

    def send(self, frame: bytes) -> None:
        assert self._transport is not None, "opened"
        self._transport.write(frame)

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            await asyncio.wait({self.lost})
        self.lost.cancel()

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        self.heard_at = self._loop.time()
        try:
            while (frame := self._frames.next_frame()) is not None:
                self._take(frame)
        except Exception as fault:  # noqa: BLE001 - the owner hears of it and begins anew
            self._end(fault)
            return
        self._frames.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionLost("the leader closed the connection"))

    def _end(self, fault: Exception) -> None:
        if not self.lost.done():
            self.lost.set_exception(fault)
            # An owner that was cancelled meanwhile looks no more: that is nothing to complain of.
            self.lost.exception()
        if self._transport is not None:
            self._transport.abort()
