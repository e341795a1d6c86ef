"""The conversation on one connection: frames to send, and what the frames that come in are.

Requests may be sent while others wait for their answers. A broker answers in order, and an answer
whose correlation id is not the one that is due makes no sense: the connection must be closed. Who
waits for an answer is the driver's matter; a conversation only hands back what it was given.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from klamm.client.addresses import Address, text
from klamm.client.errors import Distrusted, VersionMismatch
from klamm.model.errors import ProtocolError
from klamm.protocol.apis import APIS, ApiKey, Versions
from klamm.protocol.frames import encode_request_frame, parse_response_header

# What a response may be at most: a size beyond it is noise, not a size.
RESPONSE_SIZE_MAX: Final = 1 << 30

_SIZE: Final = struct.Struct(">i")
_ID_SIZE: Final = 4
_YOUNG: Final = 2
# How an alert of TLS begins, read as a size: its kind, one of five versions, a short length.
_TLS_ALERTS: Final = frozenset(0x15030000 | version << 8 for version in range(5))

Piece = bytes | bytearray | memoryview
W = TypeVar("W")

# A broker takes message sets from old clients; this client writes and reads batches alone.
_LOWEST: Final[Mapping[int, int]] = {ApiKey.PRODUCE: 3, ApiKey.FETCH: 4}


class Conversation(Generic[W]):
    """Requests to one broker and the answers that are due, each with whoever waits for it."""

    __slots__ = ("_due", "_next_id", "address", "client_id", "versions")

    def __init__(self, address: Address, client_id: str | None) -> None:
        self.address = address
        self.client_id = client_id
        self.versions: Mapping[int, Versions] = {}  # what the broker told; see `opening`
        self._due: deque[tuple[int, int, int, W]] = deque()  # correlation id, key, version
        self._next_id = 0

    @property
    def in_flight(self) -> int:
        """The number of answers still to come."""
        return len(self._due)

    @property
    def due_key(self) -> int | None:
        """The API whose answer is due next."""
        return self._due[0][1] if self._due else None

    @property
    def is_young(self) -> bool:
        """Whether nothing was asked yet but for the versions and one thing more."""
        return self._next_id <= _YOUNG

    def ask(
        self, key: int, version: int, parts: Sequence[bytes | memoryview], waiter: W
    ) -> Sequence[Piece]:
        """The pieces of a request to send; its answer will be this waiter's."""
        correlation_id = self._next_id
        pieces = self.tell(key, version, parts)
        self._due.append((correlation_id, key, version, waiter))
        return pieces

    def tell(self, key: int, version: int, parts: Sequence[bytes | memoryview]) -> Sequence[Piece]:
        """The pieces of a request to send that is not answered."""
        correlation_id, client_id = self._next_id, self.client_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        if len(parts) == 1 and isinstance(parts[0], bytes):
            return (encode_request_frame(key, version, correlation_id, client_id, parts[0]),)
        head = bytearray(encode_request_frame(key, version, correlation_id, client_id, b""))
        size = sum(len(part) for part in parts)
        _SIZE.pack_into(head, 0, len(head) - _SIZE.size + size)
        return (head, *parts)

    def size(self, head: Piece, at: int = 0) -> int:
        """The size of a frame that begins so."""
        (size,) = _SIZE.unpack_from(head, at)
        if not _ID_SIZE <= size <= RESPONSE_SIZE_MAX or size in _TLS_ALERTS:
            raise self._noise(size)
        return int(size)

    def hear(self, frame: Piece) -> tuple[W, memoryview]:
        """The waiter for the answer in this frame, and the answer's body."""
        if not self._due:
            raise ProtocolError(f"{text(self.address)} answered what nobody asked")
        correlation_id, key, version, waiter = self._due[0]
        seen, at = parse_response_header(key, version, frame)
        if seen != correlation_id:
            raise ProtocolError(
                f"{text(self.address)} answered out of order: request {seen}, not {correlation_id}"
            )
        self._due.popleft()
        return waiter, memoryview(frame)[at:]

    def forget(self) -> Iterator[W]:
        """Everybody whose answer will not come any more."""
        while self._due:
            yield self._due.popleft()[3]

    def version_of(self, key: int, high: int | None = None) -> int:
        """The newest version both sides speak; APIs that brokers do not list are ours to know.

        A version that is for brokers alone is spoken only where it is asked for by its number.
        """
        served = APIS[key].served
        told = self.versions.get(key)
        if told is None:
            if APIS[key].advertised is None:
                return served.high
            raise VersionMismatch(f"{text(self.address)} does not serve {APIS[key].title}")
        version = min(served.high, told.high, APIS[key].client_high if high is None else high)
        low = max(served.low, _LOWEST.get(key, 0))
        if version < max(low, told.low):
            raise VersionMismatch(
                f"{text(self.address)} serves {APIS[key].title} {told}, "
                f"klamm speaks {low}-{served.high}"
            )
        return version

    def _noise(self, size: int) -> Exception:
        if size in _TLS_ALERTS:
            return Distrusted(
                f"{text(self.address)} speaks TLS, and was spoken to in clear text: "
                "set security.protocol to SSL or SASL_SSL"
            )
        return ProtocolError(
            f"{text(self.address)} does not speak Kafka's protocol: it sent a frame of {size} bytes"
        )
