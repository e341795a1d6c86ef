"""Results -> the bytes of replies and events.

Pure: no clock, no disk, no loop.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from klamm.store.port import Outcome, Result
from klamm.store.serving import codes, jute
from klamm.store.serving.requests import ChangeNodes
from klamm.store.tree import Entry

_HEADER: Final = struct.Struct(">iiqi")  # size, xid, zxid, error
_HEADER_SIZE: Final = _HEADER.size - 4
_CONNECTED: Final = struct.Struct(">iiiqi")  # size, version, time-out, session, password's size
_OF_MULTI: Final = struct.Struct(">i?i")
_FAILED: Final = struct.Struct(">i?ii")
_END: Final = _OF_MULTI.pack(-1, True, -1)
_PASSWORD_SIZE: Final = 16
_STATE_CONNECTED: Final = 3
_WITH_PATH: Final = frozenset({codes.CREATE, codes.CREATE2})
_WITH_STAT: Final = frozenset({codes.CREATE2, codes.SET_DATA, codes.SET_ACL})


def reply(xid: int, zxid: int, code: int, body: bytes = b"") -> bytes:
    """A whole frame."""
    return _HEADER.pack(_HEADER_SIZE + len(body), xid, zxid, code) + body


def connected(timeout_ms: int, session: int, password: bytes, *, says_read_only: bool) -> bytes:
    """The frame that answers the first one."""
    size = _CONNECTED.size - 4 + _PASSWORD_SIZE + says_read_only
    head = _CONNECTED.pack(size, 0, timeout_ms, session, _PASSWORD_SIZE)
    return head + password + (b"\0" if says_read_only else b"")


def not_connected(*, says_read_only: bool) -> bytes:
    """The frame by which a client learns that its session is no more."""
    return connected(0, 0, bytes(_PASSWORD_SIZE), says_read_only=says_read_only)


@lru_cache(maxsize=64)
def event(kind: int, path: str) -> bytes:
    """The frame of an event; all who hear of it get the same."""
    body = jute.INT.pack(kind) + jute.INT.pack(_STATE_CONNECTED) + jute.text(path)
    return reply(codes.EVENT_XID, -1, codes.OK, body)


def of_change(
    change: ChangeNodes, results: Sequence[Result], shown: Sequence[Entry | None]
) -> tuple[int, bytes]:
    """The code and the body that answer a change."""
    if change.op == codes.MULTI:
        return codes.OK, _multi(change, results, shown)
    (result,) = results
    if not result.ok:
        return codes.BY_OUTCOME[result.outcome], b""
    return codes.OK, _done(change.kinds[0], result, shown[0])


def _multi(change: ChangeNodes, results: Sequence[Result], shown: Sequence[Entry | None]) -> bytes:
    """The outcome of each operation; also of a failed multi, whose own code is no error."""
    if all(result.ok for result in results):
        parts = [
            _OF_MULTI.pack(kind, False, codes.OK) + _done(kind, result, entry)
            for kind, result, entry in zip(change.kinds, results, shown, strict=True)
        ]
    else:
        parts = [_FAILED.pack(-1, False, code, code) for code in _codes(results)]
    return b"".join((*parts, _END))


def _codes(results: Sequence[Result]) -> list[int]:
    """The codes of a failed multi: those before the failure were fine, those behind not tried."""
    outcomes = [result.outcome for result in results]
    failed = next(at for at, each in enumerate(outcomes) if each is not Outcome.ROLLED_BACK)
    behind = len(outcomes) - failed - 1
    code = codes.BY_OUTCOME[outcomes[failed]]
    return [*[codes.OK] * failed, code, *[codes.RUNTIME_INCONSISTENCY] * behind]


def _done(kind: int, result: Result, entry: Entry | None) -> bytes:
    body = jute.text(result.path) if kind in _WITH_PATH else b""
    if kind in _WITH_STAT:
        assert entry is not None, f"{result.path} is gone right behind its change"
        body += jute.stat(entry)
    return body


def of_reads(parts: Sequence[tuple[int, bytes | int]]) -> bytes:
    """The body that answers many reads in one, each with what it found or its code."""
    told = [
        _FAILED.pack(-1, False, found, found)
        if isinstance(found, int)
        else _OF_MULTI.pack(op, False, codes.OK) + found
        for op, found in parts
    ]
    return b"".join((*told, _END))
