"""The records of one batch, as far as a log looks into them.

What a client sends is looked through before it is appended, for whatever lies in a log lies in the
way of every consumer. The compiled loops open each record, at some nanoseconds. By hand that would
cost more than all the rest of an append, so the look is bounded (`look`): the first and the last
record are opened, and the lengths of some between them are followed. What does not pass that look
is not refused for it; then every length is followed from the first record to the last.

A compressed batch is expanded within a bound. It may still have millions of records, so whoever
opens one while others wait gives a small bound, and has a thread do it after `ExpandsTooFar`, where
the loops by hand rest between slices.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from klamm.model.errors import ProtocolError
from klamm.protocol.batch import HEADER_SIZE, BatchHeader
from klamm.protocol.compression import Buffer, ExpandsTooFar, expand
from klamm.protocol.native.records import LOOPS
from klamm.protocol.record_scan import (
    NO_TIME,
    RECORD_SIZE_MIN,
    Fault,
    RecordBounds,
    RecordPlace,
    Rules,
    find_first,
    find_last,
    find_newest,
    hop,
    offset_at,
    scan,
)

_SLICE: Final = 1000  # records by hand between two rests: less than a millisecond
_REST_S: Final = 0.0005
_SEARCHED_MAX: Final = 300_000  # records in which a time is searched by hand
_FEW: Final = 3  # records: each of them is opened
_NO_BOUND: Final = 1 << 62
MORE_BYTES: Final = "a batch has more bytes than records"

Rest = Callable[[], None]


def no_rest() -> None:
    """For the loop's own thread, which is not to sleep."""


def rest() -> None:
    """Let the other threads have the interpreter for a moment."""
    time.sleep(_REST_S)


def area_of(batch: Buffer, header: BatchHeader, size_max: int) -> Buffer:
    """The records of a batch, expanded; ProtocolError when they cannot be as many as it says."""
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    # Before any memory is taken: so many records would not fit.
    if header.record_count * RECORD_SIZE_MIN > (size_max if header.codec else len(packed)):
        if header.codec:
            raise ExpandsTooFar(
                f"{header.record_count} records take more than {size_max} bytes when unpacked"
            )
        raise ProtocolError(f"{header.record_count} records do not fit in {len(packed)} bytes")
    area = expand(header.codec, packed, size_max=size_max)
    if header.record_count * RECORD_SIZE_MIN > len(area):
        raise ProtocolError(f"{header.record_count} records do not fit in {len(area)} bytes")
    return area


class Checked(NamedTuple):
    """The result of checking the records of a valid batch."""

    max_timestamp: int | None  # None: not each record was opened
    faults: list[Fault]


def look(area: Buffer, at: int, count: int, base_timestamp: int, followed_max: int) -> int | None:
    """Look at some of the records from a place to the end of an area.

    Returns the latest time of a few, of which each is opened, and else None. Of more, the first is
    opened and the last, which is found from the end where so many lengths do not lead there.
    ProtocolError: they make no sense, or that is more than this look can tell.
    """
    rules = _rules_of(base_timestamp)
    latest: int | None = None
    if count <= _FEW:
        at, latest = scan(area, at, 0, count, rules, [])
    else:
        at, _ = scan(area, at, 0, 1, rules, [])
        followed = min(count - 2, followed_max)
        at = hop(area, at, followed)
        unseen = count - 2 - followed
        if unseen:
            last = find_last(area, count - 1)
            if last is None or last - at < unseen * RECORD_SIZE_MIN:
                raise ProtocolError("the last record is not seen from the end")
            at = last
        at, _ = scan(area, at, count - 1, 1, rules, [])
    if at != len(area):
        raise ProtocolError(MORE_BYTES)
    return latest


@lru_cache(256)
def _rules_of(base_timestamp: int) -> Rules:
    return Rules(base_timestamp, -_NO_BOUND, _NO_BOUND, False)


def check(area: Buffer, count: int, rules: Rules, followed_max: int, pause: Rest) -> Checked:
    """Look through records that must have the offsets from 0 on. ProtocolError: they make no sense.

    Without compiled loops not each is opened, unless the topic has rules for each.
    """
    faults: list[Fault] = []
    latest: int | None = None
    kernel = LOOPS.kernel
    if kernel is not None:
        end, latest = kernel.scan(area, count, rules, faults)
    elif _asks(rules):
        end, latest = _check_all(area, count, rules, faults, pause)
    else:
        try:
            return Checked(look(area, 0, count, rules.base_timestamp, followed_max), faults)
        except ProtocolError:
            end = _follow(area, count, rules, pause)
    if end != len(area):
        raise ProtocolError(MORE_BYTES)
    return Checked(latest, faults)


def check_with_gaps(area: Buffer, count: int, base_timestamp: int, last: int, pause: Rest) -> None:
    """Look through records whose offsets rise up to `last`; some may be missing.

    ProtocolError: they make no sense. Those without a gap, as in most logs, take the compiled loop.
    """
    rules = Rules(base_timestamp, -_NO_BOUND, _NO_BOUND, False)
    kernel = LOOPS.kernel
    if kernel is not None:
        try:
            end, _ = kernel.scan(area, count, rules, [])
        except ProtocolError:
            pass
        else:
            if end != len(area):
                raise ProtocolError(MORE_BYTES)
            return
    at, before = 0, -1
    for index in range(count):
        if index and index % _SLICE == 0:
            pause()
        offset = offset_at(area, at)
        if not before < offset <= last:
            raise ProtocolError(f"record {index} has offset {offset}, between {before} and {last}")
        at, _ = scan(area, at, offset, 1, rules, [])
        before = offset
    if at != len(area):
        raise ProtocolError(MORE_BYTES)


def _asks(rules: Rules) -> bool:
    return rules.needs_key or rules.oldest > -_NO_BOUND or rules.newest < _NO_BOUND


def _check_all(
    area: Buffer, count: int, rules: Rules, faults: list[Fault], pause: Rest
) -> tuple[int, int]:
    at, latest = 0, NO_TIME
    for start in range(0, count, _SLICE):
        if start:
            pause()
        at, late = scan(area, at, start, min(_SLICE, count - start), rules, faults)
        latest = max(latest, late)
    return at, latest


def _follow(area: Buffer, count: int, rules: Rules, pause: Rest) -> int:
    """Open the first and the last record and follow all lengths between them."""
    if count <= _FEW:
        return scan(area, 0, 0, count, rules, [])[0]
    at, _ = scan(area, 0, 0, 1, rules, [])
    for start in range(1, count - 1, 4 * _SLICE):
        at = hop(area, at, min(4 * _SLICE, count - 1 - start))
        pause()
    return scan(area, at, count - 1, 1, rules, [])[0]


def search(area: Buffer, count: int, bounds: RecordBounds, *, newest: bool) -> RecordPlace | None:
    """The first record not older, or the first of the newest. ProtocolError when that is unknown.

    For a worker thread: by hand a few hundred thousand records are as many as are looked at.
    """
    kernel = LOOPS.kernel
    if kernel is not None:
        return (kernel.find_newest if newest else kernel.find_first)(area, count, bounds)
    if count > _SEARCHED_MAX:
        raise ProtocolError(f"a batch has {count} records, too many to search by hand")
    return (find_newest if newest else find_first)(area, count, bounds, rest)
