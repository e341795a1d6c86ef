"""The records of one batch, as far as a log looks into them.

What a client sends is looked through before it is appended, for whatever lies in a log lies in the
way of every consumer. With the compiled loops each record is opened. Without them that would cost
more than all the rest of an append, so the check is bounded: of a batch with many records the first
and the last ones are opened, and of the others the lengths are followed from one to the next. Their
number, that they fill the batch and that its last offset is right is known either way.

A compressed batch is expanded within a bound. It may still have millions of records, so whoever
opens one while others wait gives a small bound, and has a thread do it after `ExpandsTooFar`, where
the loops by hand rest between slices.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from klamm.log.kernel import LOADER, State
from klamm.model.errors import ProtocolError
from klamm.protocol.batch import HEADER_SIZE, BatchHeader
from klamm.protocol.compression import Buffer, ExpandsTooFar, expand
from klamm.protocol.record_scan import (
    NO_TIME,
    RECORD_SIZE_MIN,
    Bounds,
    Fault,
    Place,
    Rules,
    find_first,
    find_newest,
    hop,
    scan,
)

_SLICE: Final = 1000  # records by hand between two rests: less than a millisecond
_REST_S: Final = 0.0005
_SEARCHED_MAX: Final = 300_000  # records in which a time is searched by hand
_KERNEL_FROM: Final = 2  # records; one is opened by hand as fast
_NO_BOUND: Final = 1 << 62
_BASE_TIME: Final = BatchHeader._fields.index("base_timestamp")
_COUNT: Final = BatchHeader._fields.index("record_count")
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
    """What is known of the records of a batch, which make sense."""

    max_timestamp: int | None  # None: not each record was opened
    faults: list[Fault]


def check_few(batch: Buffer, header: BatchHeader) -> int:
    """The latest time of a few records that are not compressed and are held to no rules."""
    end, latest = scan(batch, HEADER_SIZE, 0, header[_COUNT], _rules_of(header[_BASE_TIME]), [])
    if end != len(batch):
        raise ProtocolError(MORE_BYTES)
    return latest


@lru_cache(256)
def _rules_of(base_timestamp: int) -> Rules:
    return Rules(base_timestamp, -_NO_BOUND, _NO_BOUND, False)


def check(area: Buffer, count: int, rules: Rules, by_hand_max: int, pause: Rest) -> Checked:
    """Look through records that must have the offsets from 0 on. ProtocolError: they make no sense.

    Without compiled loops up to `by_hand_max` are opened, unless the topic has rules for each.
    """
    faults: list[Fault] = []
    latest: int | None
    kernel = LOADER.kernel
    if kernel is not None and count >= _KERNEL_FROM:
        end, latest = kernel.scan(area, count, rules, faults)
    else:
        LOADER.count(count)
        if count > by_hand_max and LOADER.state is State.ABSENT and not _asks(rules):
            end, latest = _check_ends(area, count, rules, by_hand_max, pause), None
        else:
            end, latest = _check_all(area, 0, 0, count, rules, faults, pause)
    if end != len(area):
        raise ProtocolError(MORE_BYTES)
    return Checked(latest, faults)


def _asks(rules: Rules) -> bool:
    return rules.needs_key or rules.oldest > -_NO_BOUND or rules.newest < _NO_BOUND


def _check_all(
    area: Buffer,
    at: int,
    first: int,
    count: int,
    rules: Rules,
    faults: list[Fault],
    pause: Rest,
) -> tuple[int, int]:
    latest = NO_TIME
    for start in range(first, first + count, _SLICE):
        if start > first:
            pause()
        size = min(_SLICE, first + count - start)
        at, late = scan(area, at, start, size, rules, faults)
        latest = max(latest, late)
    return at, latest


def _check_ends(area: Buffer, count: int, rules: Rules, opened: int, pause: Rest) -> int:
    head = opened // 2
    tail = opened - head
    at, _ = _check_all(area, 0, 0, head, rules, [], pause)
    left = count - opened
    while left > 0:
        at = hop(area, at, min(left, 4 * _SLICE))
        left -= 4 * _SLICE
        pause()
    return _check_all(area, at, count - tail, tail, rules, [], pause)[0]


def search(area: Buffer, count: int, bounds: Bounds, *, newest: bool) -> Place | None:
    """The first record not older, or the first of the newest. ProtocolError when that is unknown.

    For a worker thread: by hand a few hundred thousand records are as many as are looked at.
    """
    kernel = LOADER.kernel
    if kernel is not None:
        return (kernel.find_newest if newest else kernel.find_first)(area, count, bounds)
    LOADER.count(count)
    if count > _SEARCHED_MAX:
        raise ProtocolError(f"a batch has {count} records, too many to search by hand")
    return (find_newest if newest else find_first)(area, count, bounds, rest)
