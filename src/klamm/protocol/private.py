"""klamm's private APIs: what Kafka has no request for.

They live in the key range 1000-1099, always in version 0, with the oldest headers and a JSON object
as body in both directions. A broker lists them in ApiVersions only to a client that calls itself
`klamm`, so that no other client ever meets a key it does not know.

An answer is `{"error_code": 0, ...}`; on a failure `error_message` says what went wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from klamm.model.errors import ProtocolError

SOFTWARE_NAME: Final = "klamm"
KEYS: Final = range(1000, 1100)
VERSION: Final = 0

ANY_NUMBER: Final = 1 << 62  # of items: in an answer of a broker that one chose to ask
_DEPTH_MAX: Final = 32
_QUOTES_AN_ITEM: Final = 4  # a name and a value
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


class PrivateKey(IntEnum):
    """The private APIs."""

    STORY = 1000  # the state changes that this broker wrote down while it was the controller
    EXPLAIN = 1001  # what a topic is waiting for
    FORGET_REPLICA = 1002  # let a deletion end without a broker that stays away
    PLAN = 1003  # what the controller would do, without doing it
    CANCEL_DELETION = 1004  # call a deletion off before any log was removed
    AWAIT_DELETION = 1005  # answered when every replica and node of topics is gone
    ROLL_CALL = 1006  # a new controller asks what a broker holds
    AT_REST = 1007  # whether a broker takes no more records of topics
    ARCHIVED = 1008  # have written down where the archive of a topic lies
    PROVE = 1009  # show that one is a broker of this cluster, and have the other show it
    STATUS = 1010  # one look at the whole cluster
    NOTE = 1011  # who is about to change topics, from one broker to the controller's
    IMPORT_RECORDS = 1012  # batches with their offsets, for a topic that is imported
    SWAP_TOPICS = 1013  # have two topics exchange their names
    STATES = 1014  # the state of every topic, partition and replica, and what is new about them


class Written(NamedTuple):
    """A value of a body that is JSON already: what is long need not become objects on its way."""

    text: bytes


def encode(body: Mapping[str, Any]) -> bytes:
    """The body of a private request or response."""
    written = {name: value for name, value in body.items() if isinstance(value, Written)}
    plain = _json({name: value for name, value in body.items() if name not in written})
    if not written:
        return plain
    parts = [_json(name) + b":" + value.text for name, value in written.items()]
    begun = [plain[1:-1]] if len(plain) > 2 else []
    return b"{" + b",".join(begun + parts) + b"}"


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(body: bytes | memoryview, items_max: int = ANY_NUMBER) -> dict[str, Any]:
    """The inverse of `encode`; `ProtocolError` for what is none, or is too large or too deep."""
    text = bytes(body)
    _check_size(text, items_max)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise ProtocolError(f"a private body is not JSON: {fault}") from fault
    if not isinstance(value, dict):
        raise ProtocolError("a private body is not a JSON object")
    return value


def _check_size(text: bytes, items_max: int) -> None:
    """Look at a body from outside, before objects are made of it."""
    opened = text.count(b"[") + text.count(b"{")
    if opened + text.count(b",") > items_max or text.count(b'"') > _QUOTES_AN_ITEM * items_max:
        raise ProtocolError("a private body has more items than a request may have")
    if opened > _DEPTH_MAX and not _is_flat(text):
        raise ProtocolError(f"a private body is deeper than {_DEPTH_MAX}, or does not close")


def _is_flat(text: bytes) -> bool:
    """Whether a body's lists and objects close, and are in each other no deeper than is allowed."""
    without_escapes = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(without_escapes.split(b'"')[::2])
    brackets = outside.translate(_ONE_KIND, _NO_BRACKETS)
    for _ in range(_DEPTH_MAX):
        brackets = brackets.replace(b"[]", b"")  # what has nothing in it any more
        if not brackets:
            return True
    return False
