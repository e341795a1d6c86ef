"""Bodies of requests and responses to message objects and back, for every version served.

The functions take and give a body: what follows the header. Compiling a message's reader or writer
takes about a millisecond and happens when a version is first seen.

What a stranger sends is read with a number of items that it may have. What may be large is read and
written in steps: by generators that stop every few items and return what they made.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

from klamm.model.errors import ProtocolError
from klamm.protocol.apis import APIS, Api
from klamm.protocol.compiler import (
    Reader,
    SteppedReader,
    SteppedWriter,
    compile_reader,
    compile_stepped_reader,
    compile_stepped_writer,
    compile_writer,
)
from klamm.protocol.compiling.reader import ANY_NUMBER

# What running off the end of a buffer, or into text that is none, raises inside a compiled reader.
_READ_FAULTS = (IndexError, struct.error, UnicodeDecodeError, OverflowError)


def decode_request(
    key: int, version: int, body: bytes | memoryview, items_max: int = ANY_NUMBER
) -> Any:
    """The request in this body; `ProtocolError` when there is none, or one of too many items."""
    return _decode(_reader(key, version, "Request"), key, version, body, items_max)


def decode_request_in_steps(
    key: int, version: int, body: bytes | memoryview, items_max: int
) -> Generator[None, None, Any]:
    """The same in steps, for a body that is large."""
    reader = _stepped_reader(key, version)
    try:
        return (yield from reader(body if isinstance(body, bytes) else bytes(body), items_max))
    except _READ_FAULTS as fault:
        raise _not_one(key, version, fault) from fault


def decode_response(key: int, version: int, body: bytes | memoryview) -> Any:
    """The response in this body; `ProtocolError` when there is none."""
    return _decode(_reader(key, version, "Response"), key, version, body, ANY_NUMBER)


def encode_request(key: int, version: int, message: Any) -> bytes:
    """The body of a request. Fields that this version lacks are left out."""
    return _writer(key, version, "Request")(message)


def encode_response(key: int, version: int, message: Any) -> bytes:
    """The body of a response. Fields that this version lacks are left out."""
    return _writer(key, version, "Response")(message)


def encode_response_in_steps(key: int, version: int, message: Any) -> Generator[None, None, bytes]:
    """The same in steps, for a response that may be large."""
    return _stepped_writer(key, version)(message)


def message_class(key: int, direction: str) -> type:
    """The class of an API's `Request` or `Response`."""
    module = importlib.import_module(f"klamm.protocol.messages.{APIS[key].name}")
    cls: type = getattr(module, direction)
    return cls


def _decode(
    reader: Reader, key: int, version: int, body: bytes | memoryview, items_max: int
) -> Any:
    try:
        return reader(body if isinstance(body, bytes) else bytes(body), items_max)
    except _READ_FAULTS as fault:
        raise _not_one(key, version, fault) from fault


def _not_one(key: int, version: int, fault: Exception) -> ProtocolError:
    return ProtocolError(f"{APIS[key].title} v{version}: {fault}")


@cache
def _reader(key: int, version: int, direction: str) -> Reader:
    api = _api(key, version)
    return compile_reader(message_class(key, direction), version, api.is_flexible(version))


@cache
def _stepped_reader(key: int, version: int) -> SteppedReader:
    api = _api(key, version)
    return compile_stepped_reader(message_class(key, "Request"), version, api.is_flexible(version))


@cache
def _stepped_writer(key: int, version: int) -> SteppedWriter:
    api = _api(key, version)
    return compile_stepped_writer(message_class(key, "Response"), version, api.is_flexible(version))


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
