"""Compiled twins of `record_scan`: the same records pass, for a hundredth of the time.

Needs numba. They let go of the interpreter while they run, so that a worker thread with one of them
keeps nobody waiting. Every length is checked against the end of the area before it is used.
"""

# numba types these functions itself, by rules that are neither Python's nor numpy's.
# mypy: disable-error-code="return-value,arg-type,assignment,call-arg,no-untyped-call,no-any-return"

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
from numba import njit

from klamm.model.errors import ProtocolError
from klamm.protocol.batch import HEADER_SIZE
from klamm.protocol.compression import Buffer
from klamm.protocol.record_scan import (
    FAILED,
    FAULTS_MAX,
    NO_TIME,
    TIME_SPAN_MAX,
    Bounds,
    Fault,
    Place,
    Rules,
)

F = TypeVar("F", bound=Callable[..., Any])
_LONG_MAX: Final = (1 << 63) - 1
_WORDS: Final = (
    "ends behind the end of its batch",
    "has other lengths than it says",
    "has another offset than its place says",
    "has a time beyond all bounds",
)
_ENDS, _LENGTHS, _PLACE, _TIME = range(4)
_1, _7, _127, _128 = np.uint64(1), np.uint64(7), np.uint64(127), np.uint64(128)


def _can_keep() -> bool:
    """Whether numba finds a place for what it has compiled, as it does not without a home."""

    def probe() -> None:
        pass

    try:
        place = njit(cache=True)(probe).stats.cache_path
        os.makedirs(place, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except (RuntimeError, OSError):
        return False
    return True


_CAN_KEEP: Final = _can_keep()
_NO_FAULTS: Final = np.empty((0, 2), np.int64)
_BYTE: Final = np.dtype(np.uint8)
_frombuffer: Final = np.frombuffer


def _compiled(function: F) -> F:
    return njit(cache=_CAN_KEEP, nogil=True, boundscheck=False)(function)


@_compiled
def _varint(area: Any, at: int, end: int, bytes_max: int) -> tuple[int, int]:
    """One zig-zag varint and the position after it; that position is -1 when it does not end."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    byte = np.uint64(area[at])
    at += 1
    if byte < np.uint64(0x80):  # nearly every number is as short as that
        return np.int64(byte >> np.uint64(1)) ^ -np.int64(byte & np.uint64(1)), at
    value = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    for _ in range(bytes_max - 1):
        if at >= end:
            break
        byte = np.uint64(area[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@_compiled
def _headers_end(area: Any, at: int, end: int) -> int:
    """Where the headers of a record end, -1 when they do not."""
    count, at = _varint(area, at, end, 5)
    if at < 0 or count < 0 or count > end - at:
        return np.int64(-1)
    for _ in range(count):
        size, at = _varint(area, at, end, 5)
        if at < 0 or size < 0 or size > end - at:
            return np.int64(-1)
        size, at = _varint(area, at + size, end, 5)
        if at < 0 or size < -1 or size > end - at:
            return np.int64(-1)
        at += max(size, 0)
    return at


@_compiled
def _scan(
    area: Any,
    at: int,
    first: int,
    count: int,
    base: int,
    oldest: int,
    newest: int,
    needs_key: bool,
    faults: Any,
) -> tuple[int, int, int, int, int]:
    """(what is wrong or -1, in which record, where the last ends, latest time, faults)."""
    end_all = np.int64(len(area))
    latest = np.int64(NO_TIME)
    faulty = 0
    for index in range(first, first + count):
        size, at = _varint(area, at, end_all, 5)
        if at < 0 or size > end_all - at:
            return _ENDS, index, at, latest, faulty
        if size < 1:
            return _LENGTHS, index, at, latest, faulty
        end = at + size
        delta, at = _varint(area, at + 1, end, 10)
        if at < 0:
            return _LENGTHS, index, at, latest, faulty
        if not -TIME_SPAN_MAX <= delta < TIME_SPAN_MAX:
            return _TIME, index, at, latest, faulty
        timestamp = base + delta
        place, at = _varint(area, at, end, 5)
        if at < 0:
            return _LENGTHS, index, at, latest, faulty
        if place != index:
            return _PLACE, index, at, latest, faulty
        key, at = _varint(area, at, end, 5)
        if at < 0 or key < -1 or key > end - at:
            return _LENGTHS, index, at, latest, faulty
        at += max(key, 0)
        value, at = _varint(area, at, end, 5)
        if at < 0 or value < -1 or value > end - at:
            return _LENGTHS, index, at, latest, faulty
        at += max(value, 0)
        if (at + 1 != end or area[at] != 0) and _headers_end(area, at, end) != end:
            return _LENGTHS, index, at, latest, faulty
        at = end
        latest = max(latest, timestamp)
        if key < 0 and needs_key:
            if faulty < len(faults):
                faults[faulty, 0] = index
                faults[faulty, 1] = _LONG_MAX
            faulty += 1
        if (timestamp < oldest or timestamp > newest) and timestamp != NO_TIME:
            if faulty < len(faults):
                faults[faulty, 0] = index
                faults[faulty, 1] = timestamp
            faulty += 1
    return -1, 0, at, latest, faulty


@_compiled
def _ordinary(batch: Any, at: Any, end_all: Any, index: Any) -> tuple[Any, Any]:
    """(end, time) of a record with numbers of one or two bytes and no headers; (0, 0) for others.

    Places are unsigned: numba has a branch for negative ones at each access otherwise.
    """
    nothing = np.uint64(0), np.uint64(0)
    if at + np.uint64(12) > end_all:  # room for all numbers in front of the key
        return nothing
    size = np.uint64(batch[at])
    at += _1
    if size >= _128:
        more = np.uint64(batch[at])
        at += _1
        size = (size & _127) | more << _7
        if more >= _128:
            return nothing
    end = at + (size >> _1)
    at += _1  # the attributes
    time = np.uint64(batch[at])
    at += _1
    if time >= _128:
        more = np.uint64(batch[at])
        at += _1
        time = (time & _127) | more << _7
        if more >= _128:
            return nothing
    place = np.uint64(batch[at])
    at += _1
    if place >= _128:
        more = np.uint64(batch[at])
        at += _1
        place = (place & _127) | (more & _127) << _7
        if more >= _128:
            more = np.uint64(batch[at])
            at += _1
            place |= more << np.uint64(14)
            if more >= _128:
                return nothing
    key = np.uint64(batch[at])
    at += _1
    if key != _1:
        at += key >> _1
    if (size & _1) | (key >= _128) | (key & _1 & (key != _1)) or place != index + index:
        return nothing
    if end > end_all or at + _1 >= end:
        return nothing
    value = np.uint64(batch[at])
    at += _1
    if value >= _128:
        more = np.uint64(batch[at])
        at += _1
        value = (value & _127) | more << _7
        if more >= _128:
            return nothing
    if value != _1:
        if value & _1:
            return nothing
        at += value >> _1
    if at + _1 != end or batch[at] != 0:
        return nothing
    return end, time


@_compiled
def _latest(batch: Any, count: int, base: int, faults: Any) -> int:
    """The latest time of the records of a whole batch that is not compressed, or that they fail."""
    at = np.uint64(HEADER_SIZE)
    end_all = np.uint64(len(batch))
    latest = np.int64(NO_TIME)
    for index in range(count):
        end, time = _ordinary(batch, at, end_all, np.uint64(index))
        if end:
            at = end
            delta = np.int64(time >> _1) ^ -np.int64(time & _1)
            latest = max(latest, base + delta)
            continue
        fault, _, end_there, late, _ = _scan(
            batch, np.int64(at), index, 1, base, -_LONG_MAX, _LONG_MAX, False, faults
        )
        if fault >= 0:
            return np.int64(FAILED)
        at = np.uint64(end_there)
        latest = max(latest, late)
    return latest if at == end_all else np.int64(FAILED)


@_compiled
def _find(
    area: Any, count: int, since: int, first: int, upto: int, newest: bool
) -> tuple[bool, int, int]:
    """(whether the records are whole, offset or -1, time) of the first or the newest record."""
    at = np.int64(0)
    end_all = np.int64(len(area))
    found = np.int64(-1)
    best = np.int64(0)
    for _ in range(count):
        size, at = _varint(area, at, end_all, 10)
        if at < 0 or size < 0 or size > end_all - at:
            return False, found, best
        end = at + size
        timestamp, at = _varint(area, at + 1, end, 10)
        if at < 0:
            return False, found, best
        offset, at = _varint(area, at, end, 10)
        if at < 0:
            return False, found, best
        if first <= offset < upto:
            if newest:
                if found < 0 or timestamp > best:
                    found, best = offset, timestamp
            elif timestamp >= since:
                return True, offset, timestamp
        at = end
    return True, found, best


def scan(area: Buffer, count: int, rules: Rules, faults: list[Fault]) -> tuple[int, int]:
    """Open all records of an area; where the last one ends, and the latest time."""
    data = np.frombuffer(area, np.uint8)
    fault, index, at, latest, faulty = _scan(data, 0, 0, count, *rules, _NO_FAULTS)
    if fault >= 0:
        raise ProtocolError(f"record {index} {_WORDS[fault]}")
    if faulty:  # hardly ever, so only now there is a place to name them
        named = np.empty((min(faulty, FAULTS_MAX), 2), np.int64)
        _scan(data, 0, 0, count, *rules, named)
        for number, time in named.tolist():
            faults.append(Fault(number, None if time == _LONG_MAX else time))
    return at, latest


def latest(batch: Buffer, count: int, base: int) -> int:
    """The latest time in a batch that is held to no rules; FAILED, without words, when it fails."""
    return _latest(_frombuffer(batch, _BYTE), count, base, _NO_FAULTS)


def find_first(area: Buffer, count: int, bounds: Bounds) -> Place | None:
    """The first record within the bounds that is not older."""
    return _found(area, count, bounds, newest=False)


def find_newest(area: Buffer, count: int, bounds: Bounds) -> Place | None:
    """The first of the records within the bounds that have the largest time."""
    return _found(area, count, bounds, newest=True)


def _found(area: Buffer, count: int, bounds: Bounds, *, newest: bool) -> Place | None:
    whole, offset, time = _find(np.frombuffer(area, np.uint8), count, *bounds, newest)
    if not whole:
        raise ProtocolError("a record ends behind the end of its batch")
    return None if offset < 0 else Place(offset, time)


def warm_up() -> None:
    """Compile, or load what was compiled, for the types that are used."""
    for buffer in (memoryview(bytes(70)), memoryview(bytearray(70))):
        latest(buffer, 0, 0)
        find_first(buffer, 0, Bounds(0, 0, 0))
        scan(buffer, 0, Rules(0, 0, 0, False), [])
