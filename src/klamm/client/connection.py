"""One connection to one broker.

Requests may be sent while others wait for their answers; a broker answers in order, and an answer
whose correlation id is not the one that is due ends the connection. What has arrived of a response
is read straight into a buffer of its own size, so that a parsed Fetch can keep views of it.

A request that is cancelled or runs out of time leaves an answer on the way. A cancelled one is
skipped when it arrives; one that did not arrive in time means the broker hangs, and the connection
is closed, as every Kafka client does.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from klamm.client.errors import ConnectionLost, DeadlineExceeded, VersionMismatch
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.protocol import codec, fetch, private, produce
from klamm.protocol.apis import APIS, ApiKey, Versions
from klamm.protocol.frames import encode_request_frame, parse_response_header
from klamm.protocol.messages import api_versions

CONNECT_TIMEOUT_S: Final = 10.0
REQUEST_TIMEOUT_S: Final = 30.0
# What a response may be at most: a size beyond it is noise, not a size.
RESPONSE_SIZE_MAX: Final = 1 << 30

_READ_AHEAD: Final = 64 * 1024
_SIZE: Final = struct.Struct(">i")
_API_VERSIONS_ASKED: Final = 3


class Connection:
    """Requests to one broker and its answers."""

    def __init__(self, host: str, port: int, client_id: str | None) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self.versions: Mapping[int, Versions] = {}  # what the broker told; see `negotiate`
        self._ids = itertools.count()
        self._stream = _Stream(f"{host}:{port}")

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        client_id: str | None = private.SOFTWARE_NAME,
        *,
        timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> Self:
        """A connection, or `ConnectionLost`."""
        self = cls(host, port, client_id)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: self._stream, host, port)
        except TimeoutError as fault:
            raise ConnectionLost(f"{host}:{port} did not accept in {timeout_s:g} s") from fault
        except OSError as fault:
            raise ConnectionLost(f"{host}:{port}: {fault.strerror or fault}") from fault
        return self

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
                correlation_id, answer = await self._send(key, version, parts, expected=True)
                frame = await answer
        except TimeoutError as fault:
            await self.close()
            name = APIS[key].title if key in APIS else f"api {key}"
            raise DeadlineExceeded(
                f"{self.host}:{self.port} did not answer {name} in {timeout_s:g} s"
            ) from fault
        try:
            seen, at = parse_response_header(key, version, frame)
            if seen != correlation_id:
                raise ProtocolError(f"an answer to request {seen} came, not to {correlation_id}")
        except ProtocolError:
            await self.close()
            raise
        return memoryview(frame)[at:]

    async def _send(
        self, key: int, version: int, parts: Sequence[bytes | memoryview], *, expected: bool
    ) -> tuple[int, asyncio.Future[bytes | bytearray]]:
        correlation_id = next(self._ids) & 0x7FFFFFFF
        if len(parts) == 1 and isinstance(parts[0], bytes):
            frame = encode_request_frame(key, version, correlation_id, self.client_id, parts[0])
            return correlation_id, await self._stream.send((frame,), expected=expected)
        size = sum(len(part) for part in parts)
        head = bytearray(encode_request_frame(key, version, correlation_id, self.client_id, b""))
        _SIZE.pack_into(head, 0, len(head) - _SIZE.size + size)
        return correlation_id, await self._stream.send((head, *parts), expected=expected)

    async def negotiate(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> Mapping[int, Versions]:
        """Asks what the broker speaks; `version_of` knows afterwards."""
        message = api_versions.Request(private.SOFTWARE_NAME, "1")
        version = _API_VERSIONS_ASKED
        answer = await self.exchange(
            ApiKey.API_VERSIONS,
            version,
            (codec.encode_request(ApiKey.API_VERSIONS, version, message),),
            timeout_s=timeout_s,
        )
        # A broker that does not know the version says so in the oldest one.
        if int.from_bytes(answer[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
            response = await self.request(ApiKey.API_VERSIONS, 0, message, timeout_s=timeout_s)
        else:
            response = codec.decode_response(ApiKey.API_VERSIONS, version, answer)
        self.versions = {
            a.api_key: Versions(a.min_version, a.max_version) for a in response.api_keys
        }
        return self.versions

    def version_of(self, key: int, high: int | None = None) -> int:
        """The newest version both sides speak; APIs that brokers do not list are ours to know."""
        served = APIS[key].served
        told = self.versions.get(key)
        if told is None:
            if APIS[key].advertised is None:
                return served.high
            raise VersionMismatch(f"{self.host}:{self.port} does not serve {APIS[key].title}")
        version = min(served.high, told.high, served.high if high is None else high)
        if version < max(served.low, told.low):
            raise VersionMismatch(
                f"{self.host}:{self.port} serves {APIS[key].title} {told}, klamm speaks {served}"
            )
        return version


class _Stream(asyncio.BufferedProtocol):
    """Frames in both directions; answers go to whoever waits longest."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[asyncio.Future[bytes | bytearray]] = deque()
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
        self, parts: Sequence[bytes | bytearray | memoryview], *, expected: bool
    ) -> asyncio.Future[bytes | bytearray]:
        """Writes a frame; the future it returns will hold the answer, if one is expected."""
        if self.is_closed or self._transport is None:
            raise ConnectionLost(f"the connection to {self._peer} is closed")
        answer: asyncio.Future[bytes | bytearray] = asyncio.get_running_loop().create_future()
        if expected:
            self._waiting.append(answer)
        for part in parts:
            self._transport.write(part)
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
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        why = self._why or ConnectionLost(f"{self._peer} closed the connection")
        while self._waiting:
            answer = self._waiting.popleft()
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
        if self._frame is not None:
            self._frame_filled += nbytes
            if self._frame_filled == len(self._frame):
                frame, self._frame = self._frame, None
                self._deliver(frame)
            return
        self._filled += nbytes
        at = 0
        while self._filled - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._ahead, at)
            if not 0 <= size <= RESPONSE_SIZE_MAX:
                self._fail(ProtocolError(f"{self._peer} sent a frame of {size} bytes"))
                return
            start, end = at + _SIZE.size, at + _SIZE.size + size
            if end > self._filled:
                if size > _READ_AHEAD - _SIZE.size:
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
        if not self._waiting:
            self._fail(ProtocolError(f"{self._peer} answered what nobody asked"))
            return
        answer = self._waiting.popleft()
        if not answer.done():
            answer.set_result(frame)

    def _fail(self, why: Exception) -> None:
        self._why = why
        if self._transport is not None:
            self._transport.abort()
