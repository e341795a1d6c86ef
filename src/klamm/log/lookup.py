"""Finding records by their time.

Batches know their largest timestamp only, so the way is: the first segment that reaches the time,
its time index, batch headers from there, and at last the records of one batch.

A search is a generator, so that nobody has to wait for it. It gives out a batch whenever one has to
be opened and is sent what was found in it, by whatever thread; and None now and then on its way
through many headers, for others to have their turn. A batch that nobody can open, because it
expands too far or makes no sense, is answered as a whole: by its first offset, so that a reader who
begins there misses nothing. So is the next batch after a search has opened very many in vain.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from klamm.log.segments.segment import Segment
from klamm.log.segments.series import SegmentList
from klamm.log.writing.records import area_of, search
from klamm.model.errors import ProtocolError
from klamm.protocol.batch import BatchHeader
from klamm.protocol.compression import ExpandsTooFar
from klamm.protocol.record_scan import RecordBounds, RecordPlace

_OPENED_MAX: Final = 64  # batches of one search
_HEADERS_AT_ONCE: Final = 1000
_QUICK_RECORDS: Final = 200  # a batch of so many, not compressed, is opened in a moment
_ANY_TIME: Final = -(1 << 62)


class TimedOffset(NamedTuple):
    """A record's place and time."""

    offset: int
    timestamp: int


class Unopened(NamedTuple):
    """A batch that has to be opened for a search to go on."""

    batch: bytes
    header: BatchHeader
    bounds: RecordBounds
    newest: bool

    @property
    def is_quick(self) -> bool:
        return not self.header.codec and self.header.record_count <= _QUICK_RECORDS


class Unknown(NamedTuple):
    """Says that nobody can tell what is in a batch."""

    why: str


Search = Generator[Unopened | None, RecordPlace | Unknown | None, TimedOffset | None]


def look_into(
    wanted: Unopened, limit: int, size_max: int | None = None
) -> RecordPlace | Unknown | None:
    """Open a batch that a search has given out. For a worker thread, unless it is quick.

    With a `size_max` below the limit it may raise `ExpandsTooFar`, to be opened with more room.
    """
    room = limit if size_max is None else min(size_max, limit)
    batch, header, bounds, newest = wanted
    try:
        area = area_of(batch, header, room)
        return search(area, header.record_count, bounds, newest=newest)
    except ProtocolError as fault:
        if isinstance(fault, ExpandsTooFar) and room < limit:
            raise
        return Unknown(str(fault))


def finish(what: Search, limit: int) -> TimedOffset | None:
    """Carry a search out in one go, for those who may wait."""
    try:
        wanted = next(what)
        while True:
            wanted = what.send(None if wanted is None else look_into(wanted, limit))
    except StopIteration as stop:
        found: TimedOffset | None = stop.value
        return found


def first_at_or_after(segments: SegmentList, timestamp: int, start: int, upto: int) -> Search:
    """The first record in [start, upto) that is not older than a timestamp."""
    opened = 0
    for segment in segments.from_offset(start):
        if segment.base_offset >= upto:
            return None
        if segment.largest.timestamp < timestamp:
            continue
        before = segment.times.before(timestamp - 1)
        located = segment.locate(max(start, before.offset if before else start))
        if located is None:
            continue
        for number, (position, header) in enumerate(segment.headers(located[0])):
            if header.base_offset >= upto:
                return None
            if number % _HEADERS_AT_ONCE == _HEADERS_AT_ONCE - 1:
                yield None
            if header.max_timestamp < timestamp or header.last_offset < start:
                continue
            opened += 1
            found: RecordPlace | Unknown | None = Unknown("too many batches were opened in vain")
            if opened <= _OPENED_MAX:
                found = yield _unopened(segment, position, header, start, upto, timestamp)
            if isinstance(found, Unknown):
                return TimedOffset(max(header.base_offset, start), header.max_timestamp)
            if found is not None:
                return _absolute(found, header)
    return None


def newest(segments: SegmentList, start: int, upto: int) -> Search:
    """The first of the records in [start, upto) with the largest timestamp."""
    best: TimedOffset | None = None
    for segment in segments.from_offset(start):
        if segment.base_offset >= upto:
            break
        if best is not None and segment.largest.timestamp <= best.timestamp:
            continue
        found = yield from _newest_in(segment, start, upto)
        if found is not None and (best is None or found.timestamp > best.timestamp):
            best = found
    return best


def _newest_in(segment: Segment, start: int, upto: int) -> Search:
    """Reads one batch if the time index names it; otherwise its headers tell which."""
    located = segment.locate(segment.largest.offset)
    if located is not None and start <= located[1].base_offset and located[1].last_offset < upto:
        return (yield from _newest_of(segment, *located, start, upto))
    best: TimedOffset | None = None
    whole: tuple[int, BatchHeader] | None = None  # the batch with the largest time of all inside
    for number, (position, header) in enumerate(_within(segment, start, upto)):
        if number % _HEADERS_AT_ONCE == _HEADERS_AT_ONCE - 1:
            yield None
        if start <= header.base_offset and header.last_offset < upto:
            if whole is None or header.max_timestamp > whole[1].max_timestamp:
                whole = position, header
        else:
            found = yield from _newest_of(segment, position, header, start, upto)
            best = _later(best, found)
    if whole is not None and (best is None or whole[1].max_timestamp >= best.timestamp):
        found = yield from _newest_of(segment, *whole, start, upto)
        best = _later(best, found)
    return best


def _within(segment: Segment, start: int, upto: int) -> Iterator[tuple[int, BatchHeader]]:
    for position, header in segment.headers(0):
        if header.base_offset >= upto:
            return
        if header.last_offset >= start:
            yield position, header


def _newest_of(
    segment: Segment, position: int, header: BatchHeader, start: int, upto: int
) -> Search:
    wanted = _unopened(segment, position, header, start, upto, None)
    found = yield wanted
    if isinstance(found, Unknown):
        return TimedOffset(max(header.base_offset, start), header.max_timestamp)
    return None if found is None else _absolute(found, header)


def _later(one: TimedOffset | None, other: TimedOffset | None) -> TimedOffset | None:
    """The newer of two, the earlier one in the log when they are of one time."""
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda timed: (-timed.timestamp, timed.offset))


def _unopened(
    segment: Segment,
    position: int,
    header: BatchHeader,
    start: int,
    upto: int,
    timestamp: int | None,
) -> Unopened:
    since = _ANY_TIME
    if timestamp is not None and not header.is_log_append_time:
        since = timestamp - header.base_timestamp
    bounds = RecordBounds(since, start - header.base_offset, upto - header.base_offset)
    return Unopened(segment.read(position, header), header, bounds, timestamp is None)


def _absolute(found: RecordPlace, header: BatchHeader) -> TimedOffset:
    late = header.is_log_append_time
    timestamp = header.max_timestamp if late else header.base_timestamp + found.timestamp
    return TimedOffset(header.base_offset + found.offset, timestamp)
