"""Looking through the records of a batch without an object for each.

Three ways through a records area, from any record on: `scan` opens each record and holds it to the
rules, `hop` only follows their lengths at a fifth of the cost, `find_first` and `find_newest` look
for a time. `native.records` has the compiled twins of the first and the last two; what they find is
the same. `find_last` takes none of these ways: it looks for the last record from the end.

The loops are one page each, with the numbers of one and two bytes read in place: a call for each
number would double what a record costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from klamm.model.errors import ProtocolError
from klamm.protocol.compression import Buffer
from klamm.protocol.varint import varint

RECORD_SIZE_MIN: Final = 7  # a length, attributes, time, place, no key, no value, no headers
FAULTS_MAX: Final = 100  # so many records are named; who has more wrong knows enough
NO_TIME: Final = -1
LONG_MAX: Final = (1 << 63) - 1
# Times this far from each other are nonsense; below it no sum leaves 64 bits.
TIME_SPAN_MAX: Final = 1 << 56
_PAUSE_MASK: Final = 1023
_TAIL_MAX: Final = 8192  # bytes in which the last record is looked for
_CANDIDATES_MAX: Final = 8  # places in them that look like its offset
_TIME_BYTES_MAX: Final = 5  # of its time, for as long as half a year after the first


class Rules(NamedTuple):
    """The demands of a topic on each record."""

    base_timestamp: int
    oldest: int
    newest: int
    needs_key: bool


class Fault(NamedTuple):
    """One record that is well formed and breaks a rule."""

    record: int
    timestamp: int | None  # the one that is out of bounds; None: the key is missing


def hop(area: Buffer, at: int, count: int) -> int:
    """The position behind so many records, by their lengths alone."""
    index = 0
    try:
        for index in range(count):
            size = area[at]
            if size < 128:
                at += (size >> 1) + 1
            else:
                more = area[at + 1]
                if more < 128:
                    size += (more - 1) << 7
                    at += (size >> 1) + 2
                else:
                    size, at = _zigzag(area, at, 5)
                    at += size >> 1
            if size & 1:
                raise ProtocolError(f"record {index} has a negative length")
    except IndexError:
        raise ProtocolError(f"{count} records do not fit in {len(area)} bytes") from None
    return at


def scan(
    area: Buffer, at: int, first: int, count: int, rules: Rules, faults: list[Fault]
) -> tuple[int, int]:
    """Open so many records, which must have the offsets from `first` on; their end, latest time."""
    base, oldest, newest, needs_key = rules
    latest = NO_TIME
    index = first
    try:
        for index in range(first, first + count):
            size = area[at]
            if size < 128:
                at += 1
            elif (more := area[at + 1]) < 128:
                size += (more - 1) << 7
                at += 2
            else:
                size, at = _zigzag(area, at, 5)
            end = at + (size >> 1)
            at += 1  # the attributes, which have no bits yet
            delta = area[at]
            if delta < 128:
                at += 1
            elif (more := area[at + 1]) < 128:
                delta += (more - 1) << 7
                at += 2
            else:
                delta, at = _zigzag(area, at, 10)
                if delta >> 1 >= TIME_SPAN_MAX:
                    raise ProtocolError(f"record {index} has a time beyond all bounds")
            timestamp = base + ((delta >> 1) ^ -(delta & 1))
            place = area[at]
            if place < 128:
                at += 1
            elif (more := area[at + 1]) < 128:
                place += (more - 1) << 7
                at += 2
            else:
                place, at = _zigzag(area, at, 5)
            if place != index + index:
                raise ProtocolError(f"record {index} has another offset than its place says")
            key = area[at]
            if key < 128:
                at += 1
            else:
                key, at = _zigzag(area, at, 5)
            if not key & 1:
                at += key >> 1
            elif needs_key and len(faults) < FAULTS_MAX:
                faults.append(Fault(index, None))
            value = area[at]
            if value < 128:
                at += 1
            elif (more := area[at + 1]) < 128:
                value += (more - 1) << 7
                at += 2
            else:
                value, at = _zigzag(area, at, 5)
            if not value & 1:
                at += value >> 1
            if area[at] == 0:
                at += 1
            else:
                at = _past_headers(area, at, end)
            if at != end or size & 1 or (key & 1 and key != 1) or (value & 1 and value != 1):
                raise ProtocolError(f"record {index} has other lengths than it says")
            if timestamp > latest:
                latest = timestamp
            if (
                not oldest <= timestamp <= newest
                and timestamp != NO_TIME
                and len(faults) < FAULTS_MAX
            ):
                faults.append(Fault(index, timestamp))
    except IndexError:
        raise ProtocolError(f"record {index} ends behind the end of its batch") from None
    return at, latest


def _zigzag(area: Buffer, at: int, bytes_max: int) -> tuple[int, int]:
    """The bits of a signed number as they are written: half of it, and a sign at the end."""
    value = area[at] & 127
    for place in range(1, bytes_max):
        byte = area[at + place]
        value += (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise ProtocolError(f"a number of variable length has more than {bytes_max} bytes")


def _past_headers(area: Buffer, at: int, end: int) -> int:
    count, at = _length(area, at)
    if not 0 <= count <= end - at:
        raise ProtocolError(f"a record claims {count} headers")
    for _ in range(count):
        name, at = _length(area, at)
        if name < 0:
            raise ProtocolError("a record header has no name")
        value, at = _length(area, at + name)
        if value < -1:
            raise ProtocolError("a record header has a negative length")
        at += max(value, 0)
        if at > end:
            break
    if at > len(area):
        raise IndexError
    return at


def _length(area: Buffer, at: int) -> tuple[int, int]:
    """A signed number of at most five bytes, and where it ends."""
    bits = area[at]
    at += 1
    if bits >= 128:
        bits, at = _zigzag(area, at - 1, 5)
    return (bits >> 1) ^ -(bits & 1), at


def find_last(area: Buffer, last: int) -> int | None:
    """The start of the record of the offset `last`, which is to end the area; None: not seen.

    The bytes of its offset are known, and so is its length for each place where they are found: all
    that follows. Whoever asked opens the record there, which ends a coincidence.
    """
    begin = max(0, len(area) - _TAIL_MAX)
    tail = bytes(area[begin:])
    mark = varint(last)
    upto = len(tail)
    for _ in range(_CANDIDATES_MAX):
        at = tail.rfind(mark, 0, upto)
        if at < 0:
            return None
        start = _start(tail, at)
        if start is not None:
            return begin + start
        upto = at + len(mark) - 1
    return None


def _start(tail: bytes, at: int) -> int | None:
    """The start of a record that has its offset at a place: its length is in front of it."""
    for body in range(at - 2, at - 2 - _TIME_BYTES_MAX, -1):
        size = varint(len(tail) - body)
        start = body - len(size)
        if start < 0:
            return None
        if tail.startswith(size, start):
            return start
    return None


class RecordPlace(NamedTuple):
    """A record's offset and time, as differences to the batch's."""

    offset: int
    timestamp: int


class RecordBounds(NamedTuple):
    """The records of a batch to look at, as differences to its offset and time."""

    since: int  # the earliest time; irrelevant to `find_newest`
    first: int
    upto: int


def find_first(
    area: Buffer, count: int, bounds: RecordBounds, pause: Callable[[], None]
) -> RecordPlace | None:
    """The first record within the bounds that is not older; pauses now and then."""
    since, first, upto = bounds
    at = 0
    for index in range(count):
        if index & _PAUSE_MASK == _PAUSE_MASK:
            pause()
        offset, timestamp, at = _place(area, at)
        if timestamp >= since and first <= offset < upto:
            return RecordPlace(offset, timestamp)
    return None


def find_newest(
    area: Buffer, count: int, bounds: RecordBounds, pause: Callable[[], None]
) -> RecordPlace | None:
    """The first of the records within the bounds that have the largest time."""
    _, first, upto = bounds
    best: RecordPlace | None = None
    at = 0
    for index in range(count):
        if index & _PAUSE_MASK == _PAUSE_MASK:
            pause()
        offset, timestamp, at = _place(area, at)
        if first <= offset < upto and (best is None or timestamp > best.timestamp):
            best = RecordPlace(offset, timestamp)
    return best


def offset_at(area: Buffer, at: int) -> int:
    """The offset of the record at a place, as a difference to the batch's."""
    return _place(area, at)[0]


def _place(area: Buffer, at: int) -> tuple[int, int, int]:
    try:
        size, at = _length(area, at)
        bits, inside = area[at + 1], at + 2
        if bits >= 128:
            bits, inside = _zigzag(area, at + 1, 10)
        offset, inside = _length(area, inside)
    except IndexError:
        raise ProtocolError("a record ends behind the end of its batch") from None
    if size < 0 or inside > at + size or at + size > len(area):
        raise ProtocolError("a record has another length than it says")
    if bits >> 1 >= TIME_SPAN_MAX:
        raise ProtocolError("a record has a time beyond all bounds")
    return offset, (bits >> 1) ^ -(bits & 1), at + size
