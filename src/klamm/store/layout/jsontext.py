"""JSON as the nodes carry it: UTF-8, compact, an object on the outside.

What others wrote is not trusted. A decoder wrapped in `or_none` gives None where the node has no
data or where its content makes no sense, so that one spoilt node never stops a reader of thousands.
Unknown fields are ignored everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from klamm.model.names import BrokerId

_P = ParamSpec("_P")
_T = TypeVar("_T")

_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_MALFORMED: Final = (
    AttributeError,
    KeyError,
    OverflowError,  # JSON has numbers such as 1e999
    RecursionError,  # and nests as deep as somebody likes
    TypeError,
    ValueError,
)


def dump(fields: Mapping[str, object]) -> bytes:
    """One object without whitespace, its fields in the order given."""
    return _encode(fields).encode()


def load(data: bytes | None) -> dict[str, Any]:
    """The fields of one object; ValueError when it is none."""
    fields = json.loads(data or b"null")
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    return fields


def or_none(decode: Callable[_P, _T]) -> Callable[_P, _T | None]:
    """Let a decoder give None for content that is missing or malformed."""

    @wraps(decode)
    def tolerant(*args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        try:
            return decode(*args, **kwargs)
        except _MALFORMED:
            return None

    return tolerant


def broker_ids(values: Iterable[Any]) -> tuple[BrokerId, ...]:
    """A list of broker ids."""
    return tuple([BrokerId(int(value)) for value in values])
