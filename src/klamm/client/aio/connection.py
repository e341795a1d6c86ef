"""One connection to one broker.

Requests may be sent while others wait for their answers; see `conversation`. What has arrived of
a response is read straight into a buffer of its own size, so that a parsed Fetch can keep views.

A request that is cancelled or runs out of time leaves an answer on the way. A cancelled one is
skipped when it arrives; one that did not arrive in time means the broker hangs, and the connection
is closed, as every Kafka client does.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Self, TypeVar, cast

from klamm import sockets
from klamm.client.addresses import text
from klamm.client.conversation import Conversation
from klamm.client.errors import ClientError, ConnectionLost, DeadlineExceeded, NobodyThere, why_not
from klamm.client.opening import Steps, advance, lost, negotiate, sign_in
from klamm.client.security import Security, tls
from klamm.model.errors import ProtocolError
from klamm.protocol import codec, fetch, private, produce
from klamm.protocol.apis import APIS, ApiKey, Versions

CONNECT_TIMEOUT_S: Final = 10.0
REQUEST_TIMEOUT_S: Final = 30.0

_READ_AHEAD: Final = 64 * 1024
_SIZE: Final = 4
_CLEAR_TEXT: Final = Security()

T = TypeVar("T")
_Answer = asyncio.Future[memoryview]


class Connection:
    """Requests to one broker and its answers."""

    def __init__(
        self, host: str, port: int, client_id: str | None, security: Security = _CLEAR_TEXT
    ) -> None:
        self.host = host
        self.port = port
        self._security = security
        self._talk: Conversation[_Answer] = Conversation((host, port), client_id)
        self._stream = _Stream(self._talk, security)
        self._sign_in_at_s: float | None = None  # when to prove again who we are
        self._signing_in = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        client_id: str | None = private.SOFTWARE_NAME,
        *,
        timeout_s: float = CONNECT_TIMEOUT_S,
        security: Security = _CLEAR_TEXT,
        negotiates: bool = False,
        steps: Sequence[AfterConnect] = (),
    ) -> Self:
        """A connection on which we have signed in and taken these steps, or a `ClientError`.

        Brokers among themselves know what they speak; everybody else negotiates.
        """
        self = cls(host, port, client_id, security)
        await self._connect(timeout_s)
        try:
            if security.signs_in:
                await self.negotiate(timeout_s=timeout_s)
                await self._sign_in(timeout_s)
            for step in steps:
                await step(self)
            if negotiates and not self.versions:
                await self.negotiate(timeout_s=timeout_s)
        except BaseException:
            await self.close()
            raise
        return self

    async def _connect(self, timeout_s: float) -> None:
        address = (self.host, self.port)
        context = tls.context_of(self._security) if self._security.is_encrypted else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: self._stream, *address, ssl=context)
        except TimeoutError as fault:
            raise NobodyThere(address, f"it did not accept in {timeout_s:g} s") from fault
        except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as fault:
            raise tls.failure(address, fault, opening=True) from fault
        except OSError as fault:
            raise NobodyThere(address, why_not(fault)) from fault

    @property
    def client_id(self) -> str | None:
        return self._talk.client_id

    @property
    def versions(self) -> Mapping[int, Versions]:
        """The versions that the broker reported; see `negotiate`."""
        return self._talk.versions

    @property
    def is_closed(self) -> bool:
        return self._stream.is_closed

    async def close(self) -> None:
        """Closes at once; whoever still waits for an answer gets `ConnectionLost`."""
        await self._stream.close()

    async def request(
        self, key: int, version: int, message: Any, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Any:
        """The answer to a message of the compiled codec."""
        body = codec.encode_request(key, version, message)
        answer = await self.exchange(key, version, (body,), timeout_s=timeout_s)
        return codec.decode_response(key, version, answer)

    async def fetch(
        self, version: int, request: fetch.FetchRequest, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> fetch.FetchResponse:
        """The answer to a Fetch; its records are views that live as long as it does."""
        body = fetch.encode_request(version, request)
        # The broker may wait on purpose before it answers.
        patience_s = timeout_s + request.max_wait_ms / 1000
        answer = await self.exchange(ApiKey.FETCH, version, (body,), timeout_s=patience_s)
        return fetch.parse_response(version, answer)

    async def produce(
        self,
        version: int,
        request: produce.ProduceRequest,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> produce.ProduceResponse | None:
        """The answer to a Produce, None for acks=0, which has none."""
        parts = produce.encode_request(version, request)
        if request.acks == 0:
            await self._send(ApiKey.PRODUCE, version, parts, expected=False)
            return None
        patience_s = timeout_s + request.timeout_ms / 1000
        answer = await self.exchange(ApiKey.PRODUCE, version, parts, timeout_s=patience_s)
        return produce.parse_response(version, answer)

    async def ask(
        self, key: int, body: Mapping[str, Any], *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> dict[str, Any]:
        """The answer to one of klamm's private requests."""
        parts = (private.encode(body),)
        try:
            answer = await self.exchange(key, private.VERSION, parts, timeout_s=timeout_s)
        except ConnectionLost as fault:
            # Another kind of broker hangs up on what it does not know.
            raise ConnectionLost(f"{fault}, asked what only klamm's brokers know") from fault
        return private.decode(answer)

    async def exchange(
        self,
        key: int,
        version: int,
        parts: Sequence[bytes | memoryview],
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> memoryview:
        """The body of the answer to a request whose body is these pieces."""
        try:
            async with asyncio.timeout(timeout_s):
                return await (await self._send(key, version, parts, expected=True))
        except TimeoutError as fault:
            raise await self._gave_up(key, timeout_s) from fault

    async def _gave_up(self, key: int, timeout_s: float) -> DeadlineExceeded:
        await self.close()
        name = APIS[key].title if key in APIS else f"api {key}"
        place = text(self._talk.address)
        return DeadlineExceeded(f"the broker at {place} did not answer {name} in {timeout_s:g} s")

    async def _send(
        self, key: int, version: int, parts: Sequence[bytes | memoryview], *, expected: bool
    ) -> _Answer:
        if self._sign_in_at_s is not None:
            await self._stay_signed_in()
        return await self._stream.send(key, version, parts, expected=expected)

    async def negotiate(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> Mapping[int, Versions]:
        """Asks what the broker speaks; `version_of` knows afterwards."""
        await self._perform(negotiate(self._talk), timeout_s, _at_once)
        return self.versions

    def version_of(self, key: int, high: int | None = None) -> int:
        """The newest version both sides speak; APIs that brokers do not list are ours to know."""
        return self._talk.version_of(key, high)

    async def _sign_in(self, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        # In a thread: SCRAM computes, and a token may come from far away.
        steps = sign_in(self._talk, self._security)
        again_s = await self._perform(steps, timeout_s, asyncio.to_thread)
        now_s = asyncio.get_running_loop().time()
        self._sign_in_at_s = None if again_s is None else now_s + again_s

    async def _stay_signed_in(self) -> None:
        """Renews a session that is about to end; whoever wants to send meanwhile waits."""
        async with self._signing_in:
            now_s = asyncio.get_running_loop().time()
            if self._sign_in_at_s is not None and now_s >= self._sign_in_at_s:
                await self._sign_in()

    async def _perform(self, steps: Steps[T], timeout_s: float, think: _Think) -> T | None:
        """Takes the steps of an opening, past whoever else wants to send."""
        step, found = await think(advance, steps, None)
        while step is not None:
            key, version, body = step
            try:
                async with asyncio.timeout(timeout_s):
                    sent = self._stream.send(key, version, (body,), expected=True)
                    answer = await (await sent)
            except TimeoutError as fault:
                raise await self._gave_up(key, timeout_s) from fault
            step, found = await think(advance, steps, answer)
        return cast(T | None, found)


# What is done on a new connection before anybody may use it.
AfterConnect = Callable[[Connection], Awaitable[None]]
_Think = Callable[..., Awaitable[Any]]


async def _at_once(think: Callable[..., T], *arguments: Any) -> T:
    return think(*arguments)


class _Stream(asyncio.BufferedProtocol):
    """Frames in both directions; answers go to whoever waits for them."""

    def __init__(self, talk: Conversation[_Answer], security: Security) -> None:
        self._talk = talk
        self._security = security
        self._transport: asyncio.Transport | None = None
        self._ahead = memoryview(bytearray(_READ_AHEAD))
        self._filled = 0  # how much of `_ahead` holds bytes of frames not delivered yet
        self._frame: bytearray | None = None  # a large frame that is being read in place
        self._frame_filled = 0
        self._writable = asyncio.Event()
        self._lost = asyncio.Event()
        self._why: Exception | None = None

    @property
    def is_closed(self) -> bool:
        return self._transport is None or self._lost.is_set() or self._transport.is_closing()

    async def send(
        self, key: int, version: int, parts: Sequence[bytes | memoryview], *, expected: bool
    ) -> _Answer:
        """Writes a request; the future it returns will hold the answer, if one is expected."""
        transport = self._transport
        if transport is None or self.is_closed:
            raise ConnectionLost(f"the connection to {text(self._talk.address)} is closed")
        answer: _Answer = asyncio.get_running_loop().create_future()
        if expected:
            pieces = self._talk.ask(key, version, parts, answer)
        else:
            pieces = self._talk.tell(key, version, parts)
        for piece in pieces:
            transport.write(piece)
        try:
            await self._writable.wait()
        except asyncio.CancelledError:
            answer.cancel()
            raise
        return answer

    async def close(self) -> None:
        if self._transport is None:
            return
        self._transport.abort()
        await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        sockets.tune(transport.get_extra_info("socket"))
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        why = self._why or lost(self._talk, self._security, exc)
        for answer in self._talk.forget():
            if not answer.done():
                answer.set_exception(why)
        self._writable.set()
        self._lost.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._frame_filled :]
        return self._ahead[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._take(nbytes)
        except (ProtocolError, ClientError) as why:
            self._why = why
            if self._transport is not None:
                self._transport.abort()

    def _take(self, nbytes: int) -> None:
        if self._frame is not None:
            self._frame_filled += nbytes
            if self._frame_filled == len(self._frame):
                frame, self._frame = self._frame, None
                self._deliver(frame)
            return
        self._filled += nbytes
        at = 0
        while self._filled - at >= _SIZE:
            size = self._talk.size(self._ahead, at)
            start, end = at + _SIZE, at + _SIZE + size
            if end > self._filled:
                if size > _READ_AHEAD - _SIZE:
                    self._read_in_place(size, start)
                    return
                break
            self._deliver(bytes(self._ahead[start:end]))
            at = end
        self._keep(at)

    def _read_in_place(self, size: int, start: int) -> None:
        begun = self._ahead[start : self._filled]
        self._frame = bytearray(size)
        self._frame[: len(begun)] = begun
        self._frame_filled = len(begun)
        self._filled = 0

    def _keep(self, at: int) -> None:
        if at == 0:
            return
        rest = bytes(self._ahead[at : self._filled])
        self._ahead[: len(rest)] = rest
        self._filled = len(rest)

    def _deliver(self, frame: bytes | bytearray) -> None:
        answer, body = self._talk.hear(frame)
        if not answer.done():
            answer.set_result(body)
