"""Frames: a size, a header, a body.

Everything on a connection is a frame: four bytes of size, then that many bytes. A request opens
with the API, its version and a correlation id, which the answer repeats. In flexible versions the
header ends with tagged fields; the client id before them keeps its old form in all versions.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from klamm.model.errors import ProtocolError
from klamm.protocol import private
from klamm.protocol.apis import APIS
from klamm.protocol.compiling.source import skip_tags

# socket.request.max.bytes: what claims to be longer is not a request.
FRAME_SIZE_MAX: Final = 104_857_600

_HEADER: Final = struct.Struct(">hhi")
_CLIENT_ID: Final = struct.Struct(">h")
_REQUEST: Final = struct.Struct(">ihhih")
_SIZE: Final = struct.Struct(">i")
_SIZE_AND_ID: Final = struct.Struct(">ii")

# One look-up for every request that comes in.
_REQUEST_LAYOUTS: Final = {
    (int(api.key), version): api.request_header_version(version)
    for api in APIS.values()
    for version in range(api.served.low, api.served.high + 1)
} | {(key, private.VERSION): 1 for key in private.KEYS}
# The versions whose answers have tagged fields in their headers.
_TAGGED_ANSWERS: Final = frozenset(
    (int(api.key), version)
    for api in APIS.values()
    for version in range(api.served.low, api.served.high + 1)
    if api.response_header_version(version) == 1
)


class RequestHeader(NamedTuple):
    """The header in front of a request's body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int  # where in the frame (without its size) the body begins


def parse_request_header(frame: bytes | memoryview) -> RequestHeader:
    """The header of a request.

    Of an API or a version that is not served only the first three fields are known, and nothing
    may be said about what follows them: such a header has no client id and an empty body.
    """
    if len(frame) < _HEADER.size:
        raise ProtocolError(f"a request of {len(frame)} bytes is too short to have a header")
    try:
        key, version, correlation_id = _HEADER.unpack_from(frame)
        layout = _REQUEST_LAYOUTS.get((key, version))
        if layout is None:
            return RequestHeader(key, version, correlation_id, None, len(frame))
        if layout == 0:
            return RequestHeader(key, version, correlation_id, None, _HEADER.size)
        (size,) = _CLIENT_ID.unpack_from(frame, 8)
        at = 10
        client_id = None
        if size >= 0:
            at += size
            client_id = str(frame[10:at], "utf-8")
        if layout == 2:
            at = at + 1 if frame[at] == 0 else skip_tags(frame, at)
    except (struct.error, IndexError, UnicodeDecodeError) as fault:
        raise ProtocolError(f"not a request header: {fault}") from fault
    if at > len(frame):
        raise ProtocolError("the request header ends early")
    return RequestHeader(key, version, correlation_id, client_id, at)


def encode_request_frame(
    key: int, version: int, correlation_id: int, client_id: str | None, body: bytes
) -> bytes:
    """A whole request, with its size in front."""
    layout = _REQUEST_LAYOUTS.get((key, version))
    if layout is None:
        raise ProtocolError(f"nobody serves version {version} of api {key}")
    if layout == 0:
        return _SIZE.pack(8 + len(body)) + _HEADER.pack(key, version, correlation_id) + body
    name = b"" if client_id is None else client_id.encode()
    tags = b"\0" if layout == 2 else b""
    size = 10 + len(name) + len(tags) + len(body)
    length = -1 if client_id is None else len(name)
    return b"".join((_REQUEST.pack(size, key, version, correlation_id, length), name, tags, body))


def encode_response_frame(header: RequestHeader, body: bytes) -> bytes:
    """A whole response to the request with this header, with its size in front."""
    return response_head(header, len(body)) + body


def response_head(header: RequestHeader, body_size: int) -> bytes:
    """The bytes in front of a response's body: for bodies that are sent in pieces."""
    if header[:2] in _TAGGED_ANSWERS:
        return _SIZE_AND_ID.pack(5 + body_size, header[2]) + b"\0"
    return _SIZE_AND_ID.pack(4 + body_size, header[2])


def parse_response_header(
    key: int, version: int, frame: bytes | bytearray | memoryview
) -> tuple[int, int]:
    """The correlation id of a response, and where its body begins."""
    try:
        (correlation_id,) = _SIZE.unpack_from(frame)
        at = skip_tags(frame, 4) if (key, version) in _TAGGED_ANSWERS else 4
    except (struct.error, IndexError) as fault:
        raise ProtocolError(f"not a response header: {fault}") from fault
    return correlation_id, at


def is_private(key: int) -> bool:
    """Whether an API is klamm's own; see `klamm.protocol.private`."""
    return key in private.KEYS


def is_served(key: int, version: int) -> bool:
    """Whether there is an answer to this version of an API."""
    return (key, version) in _REQUEST_LAYOUTS
