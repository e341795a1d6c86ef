"""Bodies of requests and responses to message objects and back, for every version served.

The four functions take and give a body: what follows the header. Compiling a message's reader or
writer takes about a millisecond and happens when a version is first seen.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from klamm.model.errors import ProtocolError
from klamm.protocol.apis import APIS, Api
from klamm.protocol.compiler import compile_reader, compile_writer

# What running off the end of a buffer, or into text that is none, raises inside a compiled reader.
_READ_FAULTS = (IndexError, struct.error, UnicodeDecodeError, OverflowError)


def decode_request(key: int, version: int, body: bytes | memoryview) -> Any:
    """The request in this body; `ProtocolError` when there is none."""
    return _decode(_reader(key, version, "Request"), key, version, body)


def decode_response(key: int, version: int, body: bytes | memoryview) -> Any:
    """The response in this body; `ProtocolError` when there is none."""
    return _decode(_reader(key, version, "Response"), key, version, body)


def encode_request(key: int, version: int, message: Any) -> bytes:
    """The body of a request. Fields that this version lacks are left out."""
    return _writer(key, version, "Request")(message)


def encode_response(key: int, version: int, message: Any) -> bytes:
    """The body of a response. Fields that this version lacks are left out."""
    return _writer(key, version, "Response")(message)


def message_class(key: int, direction: str) -> type:
    """The class of an API's `Request` or `Response`."""
    module = importlib.import_module(f"klamm.protocol.messages.{APIS[key].name}")
    cls: type = getattr(module, direction)
    return cls


def _decode(
    reader: Callable[[bytes], Any], key: int, version: int, body: bytes | memoryview
) -> Any:
    try:
        return reader(body if isinstance(body, bytes) else bytes(body))
    except _READ_FAULTS as fault:
        raise ProtocolError(f"{APIS[key].title} v{version}: {fault}") from fault


@cache
def _reader(key: int, version: int, direction: str) -> Callable[[bytes], Any]:
    api = _api(key, version)
    return compile_reader(message_class(key, direction), version, api.is_flexible(version))


@cache
def _writer(key: int, version: int, direction: str) -> Callable[[Any], bytes]:
    api = _api(key, version)
    return compile_writer(message_class(key, direction), version, api.is_flexible(version))


def _api(key: int, version: int) -> Api:
    api = APIS.get(key)
    if api is None:
        raise ProtocolError(f"no API has the key {key}")
    if version not in api.served:
        raise ProtocolError(f"{api.title} has no version {version}, only {api.served}")
    return api
