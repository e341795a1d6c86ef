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
from typing import Any, Final

from klamm.model.errors import ProtocolError

SOFTWARE_NAME: Final = "klamm"
KEYS: Final = range(1000, 1100)
VERSION: Final = 0


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


def encode(body: Mapping[str, Any]) -> bytes:
    """The body of a private request or response."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def decode(body: bytes | memoryview) -> dict[str, Any]:
    """The inverse of `encode`."""
    try:
        value = json.loads(bytes(body))
    except ValueError as fault:
        raise ProtocolError(f"a private body is not JSON: {fault}") from fault
    if not isinstance(value, dict):
        raise ProtocolError("a private body is not a JSON object")
    return value
