"""A follower's connection to a leader.

Every replicated byte comes in here, so this is the short way: an answer is dealt with in the buffer
it arrived in, by the callback that heard of it, and the next request leaves from there. Nothing
waits but the owner, for the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from klamm.broker.net.framing import FrameBuffer
from klamm.client.addresses import Address
from klamm.client.conversation import Conversation
from klamm.client.errors import ConnectionLost
from klamm.client.opening import Steps, advance, negotiate, sign_in
from klamm.client.security import Security, tls
from klamm.protocol import private
from klamm.protocol.frames import encode_request_frame, parse_response_header

_FRAME_SIZE_MAX: Final = 1 << 30
_CONNECT_S: Final = 10.0
_QUIET_S: Final = 1.0  # after which the memory for large answers is given back
_CLEAR_TEXT: Final = Security()

T = TypeVar("T")


class LeaderLink(asyncio.BufferedProtocol):
    """Frames to and from one broker; `lost` ends with the reason when there are no more."""

    def __init__(self, take: Callable[[memoryview], None]) -> None:
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.heard_at = loop.time()
        self.ends_at: float | None = None  # when a login ends: another link has to take over
        self._take = take
        self._loop = loop
        self._frames = FrameBuffer(_FRAME_SIZE_MAX)
        self._transport: asyncio.Transport | None = None
        self._resting: asyncio.TimerHandle | None = None

    async def open(self, host: str, port: int, security: Security = _CLEAR_TEXT) -> None:
        """Connect, and log in where that is asked for."""
        context = tls.context_of(security) if security.is_encrypted else None
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._loop.create_connection(lambda: self, host, port, ssl=context)
                if security.signs_in:
                    await self._log_in((host, port), security)
        except (OSError, TimeoutError) as fault:
            raise ConnectionLost(f"{host}:{port}: {fault}") from fault

    async def _log_in(self, address: Address, security: Security) -> None:
        talk: Conversation[None] = Conversation(address, private.SOFTWARE_NAME)
        await self._perform(negotiate(talk))
        # In a thread: SCRAM computes, and a token may come from far away.
        again_s = await self._perform(sign_in(talk, security))
        self.ends_at = None if again_s is None else self._loop.time() + again_s

    async def _perform(self, steps: Steps[T]) -> T | None:
        step, found = await asyncio.to_thread(advance, steps, None)
        while step is not None:
            answer = memoryview(await self._exchange(*step))
            step, found = await asyncio.to_thread(advance, steps, answer)
        return found

    async def ask(self, key: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one private request, before the conversation begins."""
        return private.decode(await self._exchange(key, private.VERSION, private.encode(body)))

    async def _exchange(self, key: int, version: int, body: bytes) -> bytes:
        """The body of the answer to a request, before the conversation begins."""
        answer: asyncio.Future[bytes] = self._loop.create_future()
        take, self._take = self._take, lambda frame: answer.set_result(bytes(frame))
        try:
            name = private.SOFTWARE_NAME
            self.send(encode_request_frame(key, version, 0, name, body))
            either: set[asyncio.Future[Any]] = {answer, self.lost}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                await self.lost
        finally:
            self._take = take
        frame = answer.result()
        _, at = parse_response_header(key, version, frame)
        return frame[at:]

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
        if self._resting is None and self._frames.is_large:
            self._resting = self._loop.call_later(_QUIET_S, self._rest)

    def _rest(self) -> None:
        """Give back the memory of large answers, unless they still come."""
        self._resting = None
        if self._loop.time() - self.heard_at < _QUIET_S:
            self._resting = self._loop.call_later(_QUIET_S, self._rest)
        else:
            self._frames.shrink()

    def connection_lost(self, exc: Exception | None) -> None:
        self._frames.close()
        if self._resting is not None:
            self._resting.cancel()
        self._end(exc or ConnectionLost("the leader closed the connection"))

    def _end(self, fault: Exception) -> None:
        if not self.lost.done():
            self.lost.set_exception(fault)
            # An owner that was cancelled meanwhile looks no more: that is nothing to complain of.
            self.lost.exception()
        if self._transport is not None:
            self._transport.abort()
