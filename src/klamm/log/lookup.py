"""Finding records by their time.

Batches know their largest timestamp only, so the way is: the first segment that reaches the time,
its time index, batch headers from there, and at last the records of one batch.
"""

from __future__ import annotations

from typing import NamedTuple

from klamm.log.segment import Segment
from klamm.log.segments import SegmentList
from klamm.protocol.batch import Record, decode_records


class TimedOffset(NamedTuple):
    """A record's place and time."""

    offset: int
    timestamp: int


def first_at_or_after(
    segments: SegmentList, timestamp: int, start: int, upto: int
) -> TimedOffset | None:
    """The first record in [start, upto) that is not older than a timestamp."""
    for segment in segments.from_offset(start):
        if segment.base_offset >= upto:
            return None
        if segment.largest.timestamp < timestamp:
            continue
        found = _first_in(segment, timestamp, start, upto)
        if found is not None:
            return found
    return None


def _first_in(segment: Segment, timestamp: int, start: int, upto: int) -> TimedOffset | None:
    before = segment.times.before(timestamp - 1)
    found = segment.locate(max(start, before.offset if before else start))
    if found is None:
        return None
    for position, header in segment.headers(found[0]):
        if header.base_offset >= upto:
            return None
        if header.max_timestamp < timestamp or header.last_offset < start:
            continue
        for record in decode_records(segment.read(position, header)):
            if record.timestamp >= timestamp and start <= record.offset < upto:
                return TimedOffset(record.offset, record.timestamp)
    return None


def newest(segments: SegmentList, start: int, upto: int) -> TimedOffset | None:
    """The first of the records in [start, upto) with the largest timestamp."""
    best: TimedOffset | None = None
    for segment in segments.from_offset(start):
        if segment.base_offset >= upto:
            break
        if best is not None and segment.largest.timestamp <= best.timestamp:
            continue
        found = _newest_in(segment, start, upto)
        if found is not None and (best is None or found.timestamp > best.timestamp):
            best = TimedOffset(found.offset, found.timestamp)
    return best


def _newest_in(segment: Segment, start: int, upto: int) -> Record | None:
    """Where the time index names the batch, one batch is read; else its headers tell which."""
    best: tuple[int, Record] | None = None
    located = segment.locate(segment.largest.offset)
    if located and start <= located[1].base_offset and located[1].last_offset < upto:
        candidates = [located]
    else:
        candidates = [
            (position, header)
            for position, header in segment.headers(0)
            if header.last_offset >= start and header.base_offset < upto
        ]
    for position, header in candidates:
        if best is not None and header.max_timestamp <= best[0]:
            continue
        for record in decode_records(segment.read(position, header)):
            if start <= record.offset < upto and (best is None or record.timestamp > best[0]):
                best = record.timestamp, record
    return best[1] if best else None
